// SPDX-License-Identifier: BSD-2-Clause
// Acknowledgements leave in the order of the messages, whatever the order of their delivery; against a model.
#include "tcp/stream/transmit_side.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <numeric>
#include <random>
#include <vector>

namespace weft::tcp {
namespace {

TEST(Acknowledgements, LeaveWhenAllEarlierMessagesAreDelivered) {
  Acknowledgements acks;
  Acknowledgement first, second, third;
  for (Acknowledgement* each : {&first, &second, &third}) acks.reserve(*each);
  EXPECT_EQ(acks.deliver(second), 0u);
  EXPECT_EQ(acks.deliver(third), 0u);
  EXPECT_FALSE(acks.empty());
  EXPECT_EQ(acks.deliver(first), 3u);
  EXPECT_TRUE(acks.empty());
}

TEST(Acknowledgements, BehaveLikeTheModelInEveryOrder) {
  std::vector<std::size_t> order(6);
  std::iota(order.begin(), order.end(), std::size_t{0});
  do {
    Acknowledgements acks;
    std::vector<Acknowledgement> places(order.size());
    std::vector<bool> delivered(order.size());
    std::size_t sent = 0;
    for (Acknowledgement& each : places) acks.reserve(each);
    for (const std::size_t each : order) {
      delivered[each] = true;
      sent += acks.deliver(places[each]);
      ASSERT_EQ(sent, std::find(delivered.begin(), delivered.end(), false) - delivered.begin());
    }
    ASSERT_TRUE(acks.empty());
  } while (std::next_permutation(order.begin(), order.end()));
}

// A place is used again after its delivery; messages arrive and are delivered in turns.
TEST(Acknowledgements, BehaveLikeTheModelWhileMessagesArrive) {
  constexpr std::size_t kPlaces = 20;
  Acknowledgements acks;
  std::vector<Acknowledgement> places(kPlaces);
  struct Message {
    std::size_t place;
    bool delivered;
  };
  std::deque<Message> model;
  std::vector<std::size_t> waiting, free(kPlaces);
  std::iota(free.begin(), free.end(), std::size_t{0});
  std::minstd_rand random(1);
  for (int step = 0; step < 20000; ++step) {
    if (!free.empty() && random() % 2 == 0) {
      const std::size_t place = free.back();
      free.pop_back();
      acks.reserve(places[place]);
      model.push_back({place, false});
      waiting.push_back(place);
    } else if (!waiting.empty()) {
      const auto chosen = waiting.begin() + static_cast<long>(random() % waiting.size());
      const std::size_t place = *chosen;
      waiting.erase(chosen);
      free.push_back(place);
      for (Message& message : model)
        if (message.place == place && !message.delivered) message.delivered = true;
      unsigned expected = 0;
      for (; !model.empty() && model.front().delivered; ++expected) model.pop_front();
      ASSERT_EQ(acks.deliver(places[place]), expected);
    }
    ASSERT_EQ(acks.empty(), model.empty());
  }
}

}  // namespace
}  // namespace weft::tcp
