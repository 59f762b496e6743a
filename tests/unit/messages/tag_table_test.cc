// SPDX-License-Identifier: BSD-2-Clause
// Matching by hashed tags: the rules one by one, then random schedules against a model that searches plain vectors;
// fi_tagged(3).
#include "messages/tag_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <list>
#include <numeric>
#include <random>
#include <vector>

namespace weft::messages {
namespace {

struct Receive : HashedReceive {
  explicit Receive(Wanted wanted_messages, int number = 0) : asked(wanted_messages), name(number) {}
  Wanted asked;
  int name;
};
struct Message : UnexpectedMessage {
  Message(std::uint64_t from, std::uint64_t with, int number = 0) : name(number) {
    envelope.source = from;
    envelope.tag = with;
    envelope.tagged = true;
  }
  int name;
};
void post(HashedReceives& posted, Receive& receive) {
  posted.post(receive, receive.asked);
}

constexpr std::uint64_t kAllBits = ~std::uint64_t{0};

TEST(TagTable, ExactTagMatchesOfItsSourceOnly) {
  HashedReceives posted;
  Receive receive({.source = 3, .tag = 7});
  post(posted, receive);
  EXPECT_EQ(posted.match(3, 8), nullptr);
  EXPECT_EQ(posted.match(4, 7), nullptr);
  EXPECT_EQ(posted.match(3, 7), &receive);
  posted.remove(receive);
  EXPECT_EQ(posted.match(3, 7), nullptr);
  EXPECT_TRUE(posted.all().empty());
}

TEST(TagTable, OldestReceiveMatchesFirst) {
  HashedReceives posted;
  Receive wild({.tag = 0, .ignore = kAllBits}), exact({.source = 1, .tag = 5}), anybody({.tag = 5});
  for (Receive* each : {&anybody, &wild, &exact}) post(posted, *each);
  for (Receive* expected : {&anybody, &wild, &exact}) {
    ASSERT_EQ(posted.match(1, 5), expected);
    posted.remove(*expected);
  }
}

TEST(TagTable, MessagesOfOneSourceKeepTheirOrder) {
  HashedMessages arrived;
  Message first(1, 5), other(2, 5), second(1, 5);
  for (Message* each : {&first, &other, &second}) arrived.keep(*each);
  EXPECT_EQ(arrived.find({.source = 1, .tag = 5}), &first);
  EXPECT_EQ(arrived.find({.source = 2, .tag = 5}), &other);
  EXPECT_EQ(arrived.find({.tag = 5}), &first);
  arrived.remove(first);
  EXPECT_EQ(arrived.find({.source = 1, .tag = 5}), &second);
  EXPECT_EQ(arrived.find({.tag = 5}), &other);
  EXPECT_EQ(arrived.find({.tag = 0, .ignore = kAllBits}), &other);
  arrived.remove(other);
  arrived.remove(second);
}

TEST(TagTable, IgnoredBitsDoNotCount) {
  HashedMessages arrived;
  Message message(1, 0xAB);
  arrived.keep(message);
  EXPECT_EQ(arrived.find({.source = 1, .tag = 0xA0, .ignore = 0x0F}), &message);
  EXPECT_EQ(arrived.find({.source = 1, .tag = 0xB0, .ignore = 0x0F}), nullptr);
  EXPECT_EQ(arrived.find({.source = 2, .tag = 0xA0, .ignore = 0x0F}), nullptr);
  arrived.remove(message);
}

// The model: everything in plain lists, searched from the front.
class Model {
 public:
  int arrive(std::uint64_t source, std::uint64_t tag, int name) {
    const auto found = std::find_if(receives_.begin(), receives_.end(),
                                    [&](const auto& receive) { return receive.first.takes(source, tag); });
    if (found == receives_.end()) {
      messages_.push_back({source, tag, name});
      return -1;
    }
    const int taken = found->second;
    receives_.erase(found);
    return taken;
  }
  int post(const Wanted& wanted, int name) {
    const auto found = std::find_if(messages_.begin(), messages_.end(),
                                    [&](const auto& message) { return wanted.takes(message.source, message.tag); });
    if (found == messages_.end()) {
      receives_.emplace_back(wanted, name);
      return -1;
    }
    const int taken = found->name;
    messages_.erase(found);
    return taken;
  }
  void cancel(int name) {
    std::erase_if(receives_, [&](const auto& receive) { return receive.second == name; });
  }
  int peek(const Wanted& wanted) const {
    for (const auto& message : messages_)
      if (wanted.takes(message.source, message.tag)) return message.name;
    return -1;
  }

 private:
  struct Kept {
    std::uint64_t source, tag;
    int name;
  };
  std::vector<std::pair<Wanted, int>> receives_;
  std::vector<Kept> messages_;
};

class Subject {
 public:
  int arrive(std::uint64_t source, std::uint64_t tag, int name) {
    if (HashedReceive* receive = posted_.match(source, tag)) {
      posted_.remove(*receive);
      return static_cast<Receive*>(receive)->name;
    }
    messages_.emplace_back(source, tag, name);
    arrived_.keep(messages_.back());
    return -1;
  }
  int post(const Wanted& wanted, int name) {
    if (UnexpectedMessage* message = arrived_.find(wanted)) {
      arrived_.remove(*message);
      return static_cast<Message*>(message)->name;
    }
    receives_.emplace_back(wanted, name);
    messages::post(posted_, receives_.back());
    return -1;
  }
  void cancel(int name) {
    for (HashedReceive& receive : posted_.all()) {
      if (static_cast<Receive&>(receive).name != name) continue;
      posted_.remove(receive);
      return;
    }
  }
  int peek(const Wanted& wanted) {
    const UnexpectedMessage* message = arrived_.find(wanted);
    return message != nullptr ? static_cast<const Message*>(message)->name : -1;
  }

 private:
  std::list<Receive> receives_;
  std::list<Message> messages_;
  HashedReceives posted_;
  HashedMessages arrived_;
};

TEST(TagTable, AgreesWithTheModelOnRandomSchedules) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](unsigned limit) { return static_cast<std::uint64_t>(random() % limit); };
    Model model;
    Subject subject;
    const unsigned tags = 1 + static_cast<unsigned>(below(300));
    const auto wanted = [&] {
      Wanted result{.source = below(3) == 0 ? kAnySource : below(4), .tag = below(tags)};
      if (below(4) == 0) result.ignore = below(2) == 0 ? kAllBits : 0x7;
      return result;
    };
    for (int step = 0; step < 600; ++step) {
      switch (below(8)) {
        case 0:
        case 1:
        case 2: {
          const std::uint64_t source = below(4), tag = below(tags);
          ASSERT_EQ(subject.arrive(source, tag, step), model.arrive(source, tag, step)) << seed << " step " << step;
          break;
        }
        case 3: {
          const int name = static_cast<int>(below(static_cast<unsigned>(step) + 1));
          subject.cancel(name);
          model.cancel(name);
          break;
        }
        case 4: {
          const Wanted asked = wanted();
          ASSERT_EQ(subject.peek(asked), model.peek(asked)) << seed << " step " << step;
          break;
        }
        default: {
          const Wanted asked = wanted();
          ASSERT_EQ(subject.post(asked, step), model.post(asked, step)) << seed << " step " << step;
        }
      }
    }
  }
}

// A hundred thousand entries of distinct tags: a search from the front would take minutes.
TEST(TagTable, ManyEntriesDoNotSlowItDown) {
  constexpr std::uint64_t kMany = 100'000;
  std::list<Receive> receives;
  HashedReceives posted;
  std::list<Message> messages;
  HashedMessages arrived;
  const auto start = std::chrono::steady_clock::now();
  for (std::uint64_t tag = 0; tag < kMany; ++tag) {
    post(posted, receives.emplace_back(Wanted{.source = tag % 7, .tag = tag}));
    arrived.keep(messages.emplace_back(tag % 5, tag));
  }
  for (std::uint64_t tag = kMany; tag-- > 0;) {
    HashedReceive* receive = posted.match(tag % 7, tag);
    ASSERT_NE(receive, nullptr);
    posted.remove(*receive);
    UnexpectedMessage* message = arrived.find({.source = tag % 5, .tag = tag});
    ASSERT_NE(message, nullptr);
    arrived.remove(*message);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

// Tags whose mix of multiplications and shifts, which anybody can invert, ends in the same 20 bits.
std::vector<std::uint64_t> chosen_tags(std::uint64_t count) {
  constexpr std::uint64_t kFactor = 0xd6e8feb86659fd93;
  std::uint64_t inverse = kFactor;
  for (int i = 0; i < 6; ++i) inverse *= 2 - kFactor * inverse;
  std::vector<std::uint64_t> tags;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t product = (i << 49) * inverse;
    const std::uint64_t mixed = product ^ (product >> 32);
    tags.push_back((mixed ^ (kAnySource * 0xff51afd7ed558ccd)) - 0x9e3779b97f4a7c15);
  }
  return tags;
}

std::chrono::nanoseconds time_to_find(const std::vector<std::uint64_t>& tags) {
  std::list<Message> messages;
  HashedMessages arrived;
  for (const std::uint64_t tag : tags) arrived.keep(messages.emplace_back(1, tag));
  const auto start = std::chrono::steady_clock::now();
  for (auto tag = tags.rbegin(); tag != tags.rend(); ++tag) {
    UnexpectedMessage* const message = arrived.find({.source = kAnySource, .tag = *tag});
    EXPECT_NE(message, nullptr);
    if (message != nullptr) arrived.remove(*message);
  }
  return std::chrono::steady_clock::now() - start;
}

TEST(TagTable, TagsThatAPeerChoosesDoNotSlowItDown) {
  constexpr std::uint64_t kMany = 1 << 15;
  std::vector<std::uint64_t> plain(kMany);
  std::iota(plain.begin(), plain.end(), 0);
  const auto usual = time_to_find(plain);
  EXPECT_LT(time_to_find(chosen_tags(kMany)), 10 * usual + std::chrono::milliseconds(100));
}

}  // namespace
}  // namespace weft::messages
