// SPDX-License-Identifier: BSD-2-Clause
// The rules of receive sides one by one: fi_msg(3), fi_tagged(3); random schedules are in receive_schedules_test.cc.
#include <gtest/gtest.h>

#include <array>

#include "receive_world.h"

namespace weft::messages {
namespace {

void* context_of(std::uintptr_t number) {
  return reinterpret_cast<void*>(number);
}

template <class M>
class ReceiveSideTest : public testing::Test {
 protected:
  using Side = ReceiveSide<M>;

  // Posts a part of `memory`.
  ssize_t post(std::uintptr_t context, std::size_t len, std::uint64_t flags = 0, std::uint64_t tag = 0,
               bool tagged = true) {
    const iovec iov{memory.data(), len};
    return side.post(request(context, {&iov, 1}, flags, tag, tagged));
  }
  ssize_t search(std::uintptr_t context, std::uint64_t flags, std::uint64_t tag = 0, std::size_t len = 0) {
    const iovec iov{memory.data(), len};
    return side.peek_or_claim(request(context, {&iov, 1}, flags, tag, true), world.routes);
  }
  static ReceiveRequest request(std::uintptr_t context, std::span<const iovec> iov, std::uint64_t flags,
                                std::uint64_t tag, bool tagged) {
    return {.iov = iov, .context = context_of(context), .flags = flags, .tagged = tagged, .wanted = {.tag = tag}};
  }
  static Envelope envelope(std::size_t len, std::uint64_t tag = 0) { return {.tag = tag, .len = len, .tagged = true}; }
  bool arrive(std::size_t len, std::uint64_t tag = 0) {
    return side.deliver(payload_of(1, len), envelope(len, tag), world.routes);
  }
  TestMessage& keep(std::size_t len, std::uint64_t tag = 0, bool arriving = false) {
    return protocol.keep(envelope(len, tag), 1, arriving);
  }
  // The only entry that was reported.
  Entry one() {
    const auto entries = world.read();
    EXPECT_EQ(entries.size(), 1u);
    return entries.empty() ? Entry() : entries.front();
  }

  std::array<std::byte, 256> memory{};
  Completions world;
  Pool<typename M::Receive> pool;
  Side side{pool, 4};
  TestProtocol<Side> protocol{side, world.routes};
};

using TagMatchers = testing::Types<TagList, TagTable>;
TYPED_TEST_SUITE(ReceiveSideTest, TagMatchers);

TYPED_TEST(ReceiveSideTest, FullQueueRefusesReceives) {
  for (std::uintptr_t i = 1; i <= 4; ++i) EXPECT_EQ(this->post(i, 8), 0);
  EXPECT_EQ(this->side.room(), 0u);
  EXPECT_EQ(this->post(5, 8), -FI_EAGAIN);
  EXPECT_TRUE(this->arrive(8));
  EXPECT_EQ(this->one().context, 1u);
  EXPECT_EQ(this->post(5, 8), 0);
}

TYPED_TEST(ReceiveSideTest, TruncatedMessageReportsItsFullLength) {
  this->post(1, 8);
  EXPECT_TRUE(this->arrive(20));
  const Entry entry = this->one();
  EXPECT_EQ(entry.err, FI_ETRUNC);
  EXPECT_EQ(entry.len, 8u);
  EXPECT_EQ(entry.olen, 12u);
  EXPECT_EQ(this->memory[8], std::byte{0});
}

TYPED_TEST(ReceiveSideTest, OneBufferTakesManyMessagesAndTheLastCompletionReturnsIt) {
  this->side.min_multi_receive = 64;
  this->world.routes.receive_selective = true;
  EXPECT_EQ(this->post(1, 100, FI_MULTI_RECV), 0);
  EXPECT_TRUE(this->arrive(30));
  EXPECT_TRUE(this->world.read().empty()) << "not requested";
  EXPECT_TRUE(this->arrive(10));
  const Entry last = this->one();
  EXPECT_EQ(last.flags, FI_RECV | FI_TAGGED | FI_MULTI_RECV);
  EXPECT_EQ(last.buf, this->memory.data() + 30);
  EXPECT_FALSE(this->arrive(1)) << "less than the minimum is left";
}

TYPED_TEST(ReceiveSideTest, MultiReceiveEndsWithTheLastMessageThatArrivesInIt) {
  this->side.min_multi_receive = 1;
  this->post(1, 40, FI_MULTI_RECV);
  const Delivery first = this->side.match(this->envelope(30)), second = this->side.match(this->envelope(10));
  ASSERT_TRUE(first && second);
  this->side.complete(second, this->envelope(10), this->world.routes);
  EXPECT_EQ(this->one().flags & FI_MULTI_RECV, 0u);
  this->side.fail(first, this->envelope(30), FI_ECONNRESET, FI_ECONNRESET, this->world.routes);
  const Entry last = this->one();
  EXPECT_NE(last.flags & FI_MULTI_RECV, 0u);
  EXPECT_EQ(last.err, FI_ECONNRESET);
}

TYPED_TEST(ReceiveSideTest, MessageTooLongForTheRestOfABufferEndsIt) {
  this->side.min_multi_receive = 0;
  this->post(1, 16, FI_MULTI_RECV);
  EXPECT_TRUE(this->arrive(10));
  EXPECT_EQ(this->one().err, 0);
  EXPECT_TRUE(this->arrive(10));
  const Entry last = this->one();
  EXPECT_EQ(last.err, FI_ETRUNC);
  EXPECT_EQ(last.olen, 4u);
  EXPECT_NE(last.flags & FI_MULTI_RECV, 0u);
  EXPECT_TRUE(this->side.empty());
}

TYPED_TEST(ReceiveSideTest, CancelledReceiveIsAnErrorEntry) {
  this->post(1, 8, 0, 7);
  EXPECT_FALSE(this->side.cancel(context_of(2), this->world.routes));
  EXPECT_TRUE(this->side.cancel(context_of(1), this->world.routes));
  const Entry entry = this->one();
  EXPECT_EQ(entry.err, FI_ECANCELED);
  EXPECT_EQ(entry.tag, 7u);
  EXPECT_FALSE(this->arrive(8, 7));
}

TYPED_TEST(ReceiveSideTest, CancelledBufferEndsWithTheMessageThatArrivesInIt) {
  this->side.min_multi_receive = 64;
  this->post(1, 200, FI_MULTI_RECV);
  const Delivery delivery = this->side.match(this->envelope(30));
  ASSERT_TRUE(delivery);
  EXPECT_TRUE(this->side.cancel(context_of(1), this->world.routes));
  EXPECT_TRUE(this->world.read().empty());
  this->side.complete(delivery, this->envelope(30), this->world.routes);
  EXPECT_NE(this->one().flags & FI_MULTI_RECV, 0u);
}

TYPED_TEST(ReceiveSideTest, ReceiveTakesTheOldestMessageThatWaitsForIt) {
  this->keep(3, 1);
  this->keep(4, 2);
  this->keep(5, 2);
  EXPECT_EQ(this->post(1, 8, 0, 2), 0);
  EXPECT_EQ(this->one().len, 4u);
  EXPECT_EQ(this->post(2, 200, FI_MULTI_RECV, 2), 0);
  EXPECT_EQ(this->one().len, 5u);
  EXPECT_EQ(this->protocol.count(), 1u);
  this->side.discard_all(nullptr);
}

TYPED_TEST(ReceiveSideTest, MessageTakenWhileItArrivesCompletesLater) {
  TestMessage& message = this->keep(20, 1, true);
  EXPECT_EQ(this->search(9, FI_PEEK, 1), 0);
  EXPECT_EQ(this->one().len, 20u);
  this->post(1, 64, 0, 1);
  EXPECT_TRUE(this->world.read().empty());
  EXPECT_EQ(this->search(9, FI_PEEK, 1), 0);
  EXPECT_EQ(this->one().err, FI_ENOMSG) << "it has a receive";
  this->protocol.finish(message, 0);
  EXPECT_EQ(this->one().context, 1u);
  EXPECT_EQ(this->memory[19], payload_byte(1, 19));
  EXPECT_EQ(this->protocol.kept_bytes(), 0u);
}

TYPED_TEST(ReceiveSideTest, ClaimedMessageIsForItsClaimerOnly) {
  this->keep(12, 1);
  EXPECT_EQ(this->search(5, FI_PEEK | FI_CLAIM, 1), 0);
  EXPECT_EQ(this->one().len, 12u);
  EXPECT_EQ(this->post(1, 64, 0, 1), 0);
  EXPECT_EQ(this->search(6, FI_CLAIM, 1, 64), -FI_EINVAL);
  EXPECT_TRUE(this->world.read().empty());
  EXPECT_EQ(this->search(5, FI_CLAIM, 1, 64), 0);
  EXPECT_EQ(this->one().context, 5u);
  EXPECT_EQ(this->search(5, FI_CLAIM, 1, 64), -FI_EINVAL) << "once";
}

TYPED_TEST(ReceiveSideTest, DiscardedMessageIsReportedAndGone) {
  this->keep(12, 1);
  TestMessage& arriving = this->keep(13, 1, true);
  EXPECT_EQ(this->search(5, FI_PEEK | FI_DISCARD, 1), 0);
  EXPECT_EQ(this->one().len, 12u);
  EXPECT_EQ(this->search(5, FI_PEEK | FI_CLAIM, 1), 0);
  EXPECT_EQ(this->search(5, FI_CLAIM | FI_DISCARD, 1), 0);
  EXPECT_EQ(this->world.read().size(), 2u);
  EXPECT_TRUE(arriving.discarded);
  this->protocol.finish(arriving, 0);
  EXPECT_TRUE(this->world.read().empty());
  EXPECT_EQ(this->protocol.count(), 0u);
}

TYPED_TEST(ReceiveSideTest, SearchesThatMakeNoSenseAreRefused) {
  this->keep(12, 1);
  EXPECT_EQ(this->search(5, FI_PEEK | FI_CLAIM | FI_DISCARD, 1), -FI_EINVAL);
  EXPECT_EQ(this->search(0, FI_PEEK | FI_CLAIM, 1), -FI_EINVAL) << "a claim needs a context";
  EXPECT_EQ(this->search(5, FI_PEEK, 2), 0);
  const Entry entry = this->one();
  EXPECT_EQ(entry.err, FI_ENOMSG);
  EXPECT_EQ(entry.tag, 2u);
  this->side.discard_all(nullptr);
}

TYPED_TEST(ReceiveSideTest, EndpointWithoutTagsMatchesTaggedMessagesInOrder) {
  Envelope tagged = this->envelope(4, 9);
  tagged.ignores_tag = true;
  this->post(1, 8, 0, 9);
  this->post(2, 8, 0, 0, false);
  EXPECT_TRUE(this->side.deliver(payload_of(1, 4), tagged, this->world.routes));
  const Entry entry = this->one();
  EXPECT_EQ(entry.context, 2u);
  EXPECT_EQ(entry.flags, FI_RECV | FI_TAGGED);
  EXPECT_EQ(entry.tag, 9u);
}

TYPED_TEST(ReceiveSideTest, MessagesOfOneProtocolAreDiscardedAlone) {
  TestProtocol<ReceiveSide<TypeParam>> other(this->side, this->world.routes);
  this->keep(3, 1);
  other.keep(this->envelope(4, 1), 2, false);
  this->keep(5, 1);
  EXPECT_EQ(this->search(7, FI_PEEK | FI_CLAIM, 1), 0);
  this->side.discard_all(&this->protocol);
  EXPECT_EQ(this->protocol.count(), 0u);
  EXPECT_EQ(this->protocol.kept_bytes(), 0u);
  EXPECT_NE(other.kept_bytes(), 0u);
  this->world.read();
  this->post(1, 8, 0, 1);
  EXPECT_EQ(this->one().len, 4u);
}

TEST(DatagramQueueTest, NextReceiveIsKnownBeforeTheMessage) {
  std::array<std::byte, 64> memory{};
  Completions world;
  DatagramPool pool;
  DatagramQueue queue(pool, 8);
  EXPECT_EQ(queue.lone_buffer(), nullptr);
  const iovec one{memory.data(), 16}, two[] = {{memory.data(), 8}, {memory.data() + 8, 8}};
  queue.post({.iov = {&one, 1}, .context = context_of(1)});
  queue.post({.iov = two, .context = context_of(2)});
  queue.post({.iov = {&one, 1}, .context = context_of(3), .flags = FI_MULTI_RECV});
  EXPECT_EQ(queue.read_limit(16), 3u);
  ASSERT_NE(queue.lone_buffer(), nullptr);
  EXPECT_EQ(queue.lone_buffer()->iov_base, memory.data());
  EXPECT_EQ(queue.take_lone(), context_of(1));
  EXPECT_EQ(queue.lone_buffer(), nullptr) << "two buffers";
  EXPECT_TRUE(queue.deliver(payload_of(1, 12), {.len = 12}, world.routes));
  EXPECT_EQ(memory[11], payload_byte(1, 11));
  EXPECT_EQ(queue.lone_buffer(), nullptr) << "several messages";
  EXPECT_EQ(queue.read_limit(16), 16u);
  queue.cancel_all(world.routes);
  EXPECT_EQ(world.read().size(), 2u);
}

}  // namespace
}  // namespace weft::messages
