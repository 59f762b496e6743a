// SPDX-License-Identifier: BSD-2-Clause
// Datagrams that were read and found no receive: udp/receiver.h. (The conformance suite tests posted receives.)
#include "udp/receiver.h"

#include <gtest/gtest.h>

#include <string>

namespace weft::udp {
namespace {

class KeptDatagramsTest : public testing::Test {
 protected:
  void push(const std::string& text, const void* origin = nullptr) {
    kept.push(std::as_bytes(std::span(text)), Address::loopback(AF_INET, static_cast<uint16_t>(text.size())), false,
              origin);
  }
  std::string pop() {
    const KeptDatagrams::Kept first = kept.first();
    EXPECT_EQ(first.source.port(), first.datagram.size());
    std::string text(reinterpret_cast<const char*>(first.datagram.data()), first.datagram.size());
    kept.drop_first();
    return text;
  }
  KeptDatagrams kept;
};

TEST_F(KeptDatagramsTest, AreReturnedInOrderWithTheirSource) {
  EXPECT_TRUE(kept.empty());
  push("one"), push(""), push("three");
  EXPECT_EQ(pop(), "one");
  EXPECT_EQ(pop(), "");
  push("four more");
  EXPECT_EQ(pop(), "three");
  EXPECT_EQ(pop(), "four more");
  EXPECT_TRUE(kept.empty());
}

TEST_F(KeptDatagramsTest, DatagramsOfAClosedSocketAreDropped) {
  int group = 0, own = 0;
  push("a", &group), push("bb", &own), push("ccc", &group), push("dddd", &own);
  EXPECT_EQ(pop(), "a");
  kept.drop_from(&group);
  EXPECT_EQ(pop(), "bb");
  EXPECT_EQ(pop(), "dddd");
  EXPECT_TRUE(kept.empty());
  kept.drop_from(&own);
  EXPECT_TRUE(kept.empty());
}

}  // namespace
}  // namespace weft::udp
