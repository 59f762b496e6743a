// SPDX-License-Identifier: BSD-2-Clause
// Messages whose receive is posted arrive, however many unexpected ones are in front of them; fi_tagged(3), fi_msg(3).
#include "fixture/child.h"
#include "fixture/driver.h"
#include "fixture/flood.h"
#include "fixture/member.h"
#include "fixture/parameter.h"
#include "fixture/process.h"

namespace unexpected_floods {

CONFORMANCE_TOPIC(UnexpectedFloods);

#define TAGS_ONLY()                                                   \
  if (target().ep_type == FI_EP_DGRAM) GTEST_SKIP() << "no matching"; \
  NEEDS([](fi_info& hints) { hints.caps = FI_MSG | FI_TAGGED; }, "tags")

namespace {

void with_tags(fi_info& hints) {
  hints.caps = FI_MSG | FI_TAGGED;
}

// For the messages of a domain, and as much for copies. By default 64 MiB.
struct Limit {
  explicit Limit(const char* bytes = "67108864")
      : tcp("FI_TCP_UNEXPECTED_BYTES", bytes), rxm("FI_OFI_RXM_UNEXPECTED_BYTES", bytes) {}
  const Parameter tcp, rxm;
};

struct Kind {
  bool tagged;
  uint64_t tag;

  ssize_t send(Node& from, Buffer& out, size_t length, void* context) const {
    return tagged ? from.tsend(out, length, tag, context) : from.send(out, length, context);
  }
  ssize_t receive(Node& at, Buffer& in, size_t length, void* context) const {
    return tagged ? at.trecv(in, length, tag, 0, context) : at.recv(in, length, context);
  }
};

// Messages of one kind without a receive, and behind them one of another kind that has one.
void expect_delivery_behind(const Target& target, const Kind& flood, const Kind& awaited, size_t length, size_t count) {
  Fabric fabric(target, with_tags);
  Pair pair(fabric);
  Buffer out(fabric, length), in(fabric, length), sent(fabric, 100), received(fabric, 100);
  sent.fill_pattern(3);
  std::vector<Context> contexts(count);
  Context send, receive;
  ASSERT_EQ(awaited.receive(pair.b(), received, 100, &receive), 0);
  for (Context& context : contexts) ASSERT_EQ(flood.send(pair.a(), out, length, &context), 0);
  ASSERT_EQ(awaited.send(pair.a(), sent, 100, &send), 0);
  const Completion arrival = pair.b().rx().wait(after(std::chrono::minutes(1)));
  ASSERT_TRUE(arrival.ok()) << arrival;
  EXPECT_EQ(arrival.context(), &receive);
  EXPECT_TRUE(received.holds_pattern(3, 100));
  for (Context& context : contexts) {
    ASSERT_EQ(flood.receive(pair.b(), in, length, &context), 0);
    const Completion unexpected = pair.b().rx().wait(after(std::chrono::minutes(1)));
    ASSERT_TRUE(unexpected.ok()) << unexpected;
    ASSERT_EQ(unexpected.context(), &context);
    ASSERT_EQ(unexpected.entry.len, length);
  }
}

// `completed`: also the sends of the floods, before their receives exist.
void expect_exchange_behind_floods(const Target& target, const char* bytes, bool completed,
                                   size_t messages = flood::kMessages) {
  const Limit limit(bytes);
  Fabric fabrics[2] = {Fabric(target), Fabric(target)};
  DatagramEnd a(fabrics[0]), b(fabrics[1]);
  a->peer = a.insert(b.address());
  b->peer = b.insert(a.address());
  flood::Rank ranks[] = {{*a, messages, messages}, {*b, messages, messages}};
  for (flood::Rank& rank : ranks) rank.send();
  if (completed)
    for (flood::Rank& rank : ranks) rank.await_sent();
  for (flood::Rank& rank : ranks) rank.await_exchange();
  for (flood::Rank& rank : ranks) rank.receive();
  if (!completed)
    for (flood::Rank& rank : ranks) rank.await_sent();
}

}  // namespace

TEST_P(UnexpectedFloods, OfOneTagLetAnotherTagThrough) {
  TAGS_ONLY();
  expect_delivery_behind(target(), {true, 1}, {true, 2}, flood::kLength, flood::kMessages);
}

TEST_P(UnexpectedFloods, OfLongMessagesLetShortOnesThrough) {
  TAGS_ONLY();
  expect_delivery_behind(target(), {true, 1}, {true, 2}, 1'000'000, 90);
}

TEST_P(UnexpectedFloods, OfTaggedMessagesLetUntaggedOnesThrough) {
  TAGS_ONLY();
  expect_delivery_behind(target(), {true, 1}, {false, 0}, flood::kLength, flood::kMessages);
}

TEST_P(UnexpectedFloods, OfUntaggedMessagesLetTaggedOnesThrough) {
  TAGS_ONLY();
  expect_delivery_behind(target(), {false, 0}, {true, 1}, flood::kLength, flood::kMessages);
}

TEST_P(UnexpectedFloods, LetAnExchangeOfTwoProcessesThrough) {
  RELIABLE_DATAGRAMS_ONLY();
  Fabric fabric(target());
  DatagramEnd end(fabric);
  child::Running peer("exchange_behind_unexpected",
                      {{"WEFT_CONFORMANCE_PEER", target().address + " " + std::to_string(end.address().port())}});
  end.meet_child();
  flood::exchange_behind_unexpected(*end);
  while (!peer.ended()) driver::poke_and_rest();
  EXPECT_EQ(peer.status(), 0);
}

// Beyond the limit messages stay with their sender, but their sends complete as long as it may copy them.
TEST_P(UnexpectedFloods, BeyondTheLimitLetTheirSendsComplete) {
  RELIABLE_DATAGRAMS_ONLY();
  expect_exchange_behind_floods(target(), "67108864", true);
}

// More than the receiver's limit, what is under way, and the sender's limit.
TEST_P(UnexpectedFloods, BeyondTheLimitLetAnExchangeThrough) {
  RELIABLE_DATAGRAMS_ONLY();
  expect_exchange_behind_floods(target(), "33554432", false);
}

// However low the limit is, what is under way when it is reached has memory: matched messages are behind it.
TEST_P(UnexpectedFloods, LimitsBelowAMessageLetAnExchangeThrough) {
  RELIABLE_DATAGRAMS_ONLY();
  constexpr size_t kLessThanAQueueHolds = 700;
  for (const char* bytes : {"0", "1", "400", "5000", "40000", "300000"}) {
    SCOPED_TRACE(bytes);
    expect_exchange_behind_floods(target(), bytes, false, kLessThanAQueueHolds);
  }
}

TEST_P(UnexpectedFloods, BeyondTheLimitStayWithTheSenderOfTwoProcesses) {
  RELIABLE_DATAGRAMS_ONLY();
  const Limit limit;
  Fabric fabric(target());
  DatagramEnd end(fabric);
  child::Running peer("flood_parent",
                      {{"WEFT_CONFORMANCE_PEER", target().address + " " + std::to_string(end.address().port())}});
  end.meet_child();
  const size_t before = resident_kib();
  flood::Rank rank(*end, 0, flood::kManyMessages);
  rank.await_exchange();
  if (!kSanitized) {
    EXPECT_LE(resident_kib(), before + (110 << 10)) << "the limit of 64 MiB, and what was under way";
  }
  rank.receive();
  rank.send();
  while (!peer.ended()) driver::poke_and_rest();
  EXPECT_EQ(peer.status(), 0);
}

// A limit that is set holds back the peer that reaches it, and no other.
TEST_P(UnexpectedFloods, HoldBackTheirSenderOnly) {
  RELIABLE_DATAGRAMS_ONLY();
  const Parameter tcp("FI_TCP_UNEXPECTED_BYTES", "4000000"), rxm("FI_OFI_RXM_UNEXPECTED_BYTES", "4000000");
  const Parameter separate("FI_OFI_RXM_USE_SRX", "0");
  Fabric fabric(target());
  DatagramEnd receiver(fabric), floods(fabric), other(fabric);
  floods->peer = floods.insert(receiver.address());
  other->peer = other.insert(receiver.address());
  constexpr size_t kEnough = 10'000;  // 160 MB
  Buffer out(fabric, flood::kLength), in(fabric, flood::kLength);
  std::vector<Context> contexts(kEnough);
  size_t sent = 0;
  auto last = Clock::now();
  while (sent < kEnough && elapsed_ms(last) < 300) {
    if (fi_tsend(floods->ep(), out.data(), out.size(), out.desc(), floods->peer, 1, &contexts[sent]) == 0) {
      ++sent;
      last = Clock::now();
    }
    driver::poke();
  }
  EXPECT_LT(sent, kEnough) << "nothing held the sender back";
  constexpr size_t kOthers = 50;
  Context unexpected[kOthers], awaited[2];
  ASSERT_EQ(receiver->trecv(in, in.size(), 3, 0, &awaited[0]), 0);
  for (Context& context : unexpected) ASSERT_EQ(other->tsend(out, out.size(), 2, &context), 0);
  ASSERT_EQ(other->tsend(out, out.size(), 3, &awaited[1]), 0);
  EXPECT_EQ(receiver->rx().wait().context(), &awaited[0]);
  for (Context& context : unexpected) {
    ASSERT_EQ(receiver->trecv(in, in.size(), 2, 0, &context), 0);
    ASSERT_EQ(receiver->rx().wait().context(), &context);
  }
  for (size_t i = 0; i < sent; ++i) {
    ASSERT_EQ(receiver->trecv(in, in.size(), 1, 0, &contexts[i]), 0);
    ASSERT_EQ(receiver->rx().wait().context(), &contexts[i]) << i << " of " << sent;
  }
}

}  // namespace unexpected_floods
