// SPDX-License-Identifier: BSD-2-Clause
// Which messages travel as one packet, and how bursts complete: udp/transmit_batch.h.
#include "udp/transmit_batch.h"

#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <vector>

#include "base/unique_fd.h"
#include "udp/socket.h"

namespace weft::udp {
namespace {

class TransmitBatchTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(batch.allocate(1000).ok()); }

  void push(std::size_t len, const char* to = "127.0.0.1:9") {
    Outgoing& message = batch.push();
    message.destination = Address::parse(to).value();
    message.iov[0] = {bytes.data(), len};
    message.iov_count = 1;
    message.len = static_cast<std::uint32_t>(len);
    message.context = nullptr;
    message.report = true;
  }

  std::vector<char> bytes = std::vector<char>(70'000);
  TransmitBatch batch;
};

TEST_F(TransmitBatchTest, EqualMessagesToOneDestinationAreOneRun) {
  for (int i = 0; i < 5; ++i) push(64);
  EXPECT_EQ(batch.run_at(0), 5u);
  EXPECT_EQ(batch.run_at(2), 3u);
}

TEST_F(TransmitBatchTest, ShorterMessageEndsARunAndLongerOneStartsAnother) {
  push(64), push(64), push(10), push(64), push(65);
  EXPECT_EQ(batch.run_at(0), 3u);
  EXPECT_EQ(batch.run_at(3), 1u);
}

TEST_F(TransmitBatchTest, AnotherDestinationEndsARun) {
  push(64), push(64, "127.0.0.1:10"), push(64, "127.0.0.2:10");
  EXPECT_EQ(batch.run_at(0), 1u);
  EXPECT_EQ(batch.run_at(1), 1u);
}

TEST_F(TransmitBatchTest, EmptyAndLongMessagesGoAlone) {
  push(0), push(0), push(1001), push(1001), push(64), push(0);
  for (std::size_t at : {0, 1, 2, 3, 4}) EXPECT_EQ(batch.run_at(at), 1u) << at;
}

TEST_F(TransmitBatchTest, ARunIsNotLongerThanAPacket) {
  for (std::size_t i = 0; i < kSendBatch; ++i) push(1000);
  EXPECT_EQ(batch.run_at(0), std::min(kMaxSegments, kMaxSegmentedBytes / 1000));
}

TEST_F(TransmitBatchTest, WithoutSegmentationEveryMessageGoesAlone) {
  ASSERT_TRUE(batch.allocate(0).ok());
  push(64), push(64);
  EXPECT_EQ(batch.run_at(0), 1u);
}

TEST_F(TransmitBatchTest, MixedBurstArrivesInOrder) {
  const UniqueFd from(net::open_datagram(AF_INET)), to(net::open_datagram(AF_INET));
  const Address any = Address::loopback(AF_INET, 0);
  ASSERT_EQ(net::bind(to.get(), any.data(), any.size()), 0);
  sockaddr_in name;
  socklen_t len = sizeof name;
  ASSERT_EQ(net::getsockname(to.get(), reinterpret_cast<sockaddr*>(&name), &len), 0);
  const std::string target = Address::from(&name, len).value().to_string();
  const std::size_t sizes[] = {64, 64, 64, 7, 0, 300, 300, 1200, 1200, 1};
  CompletionRoutes routes;
  // More rounds than the batch has places, so that positions wrap in the middle of runs.
  for (int round = 0; round < 20; ++round) {
    for (std::size_t size : sizes) push(size, target.c_str());
    ASSERT_TRUE(batch.flush(from.get(), routes));
    EXPECT_TRUE(batch.empty());
    for (std::size_t size : sizes) EXPECT_EQ(::recv(to.get(), bytes.data(), bytes.size(), MSG_DONTWAIT), ssize_t(size));
  }
}

TEST_F(TransmitBatchTest, MessageThatCannotBeSentDoesNotBlockOthers) {
  const UniqueFd from(net::open_datagram(AF_INET));
  CompletionRoutes routes;
  push(66'000);  // longer than IP can carry
  push(64);
  EXPECT_TRUE(batch.flush(from.get(), routes));
  EXPECT_TRUE(batch.empty());
}

}  // namespace
}  // namespace weft::udp
