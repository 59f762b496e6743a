// SPDX-License-Identifier: BSD-2-Clause
// Tagged messages: matching, the nine calls, FI_PEEK, FI_CLAIM and FI_DISCARD; fi_tagged(3).
#include "fixture/driver.h"
#include "fixture/node.h"

namespace tagged {

CONFORMANCE_TOPIC(Tagged);

namespace {

const HintsEditor kTagged = [](fi_info& hints) { hints.caps = FI_MSG | FI_TAGGED; };
constexpr size_t kSize = 256;
constexpr uint64_t kLast = 0x005a5a5a5a5a5a5a;  // no message of the tests has it
constexpr uint64_t kTag = 0x0123456789abcdef & 0x00ffffffffffffff;

struct Scene {
  explicit Scene(const Target& target) : fabric(target, kTagged), pair(fabric), out(fabric, kSize), in(fabric, kSize) {
    out.fill_pattern(1);
  }
  Completion arrival() { return pair.b().rx().wait(); }
  // Returns once all earlier messages of a() wait at b(): a later message has arrived.
  void let_arrive() {
    ASSERT_EQ(retry([&] { return fi_tinject(pair.a().ep(), out.data(), 1, pair.a().peer, kLast); }), 0);
    const auto deadline = after(kPatience);
    Completion last;
    do {
      driver::poke_and_rest();
      ASSERT_EQ(receive(kLast, 0, FI_PEEK | FI_DISCARD, &received), 0);
      last = arrival();
    } while (last.err() == FI_ENOMSG && Clock::now() < deadline);
    ASSERT_TRUE(last.ok()) << last;
  }

  // fi_trecvmsg into `in` with `flags`.
  ssize_t receive(uint64_t tag, uint64_t ignore, uint64_t flags, void* context) {
    const iovec iov{in.data(), in.size()};
    void* desc = in.desc();
    const fi_msg_tagged message{&iov, &desc, 1, FI_ADDR_UNSPEC, tag, ignore, context, 0};
    return retry([&] { return fi_trecvmsg(pair.b().ep(), &message, flags); });
  }

  Fabric fabric;
  Pair pair;
  Buffer out, in;
  Context sent, received;
};

}  // namespace

#define TAGGED_SCENE()         \
  NEEDS(kTagged, "FI_TAGGED"); \
  Scene scene(target())

TEST_P(Tagged, MessageGoesToTheReceiveOfItsTag) {
  TAGGED_SCENE();
  Buffer other(scene.fabric, kSize);
  Context other_context;
  ASSERT_EQ(scene.pair.b().trecv(other, kSize, kTag + 1, 0, &other_context), 0);
  ASSERT_EQ(scene.pair.b().trecv(scene.in, kSize, kTag, 0, &scene.received), 0);
  ASSERT_EQ(scene.pair.a().tsend(scene.out, 100, kTag, &scene.sent), 0);
  const Completion completion = scene.arrival();
  ASSERT_TRUE(completion.ok()) << completion;
  EXPECT_EQ(completion.context(), &scene.received);
  EXPECT_EQ(completion.entry.flags & (FI_TAGGED | FI_RECV), FI_TAGGED | FI_RECV);
  EXPECT_EQ(completion.entry.tag, kTag);
  EXPECT_EQ(completion.entry.len, 100u);
  EXPECT_TRUE(scene.in.holds_pattern(1, 100));
  const Completion sent = scene.pair.a().tx().wait();
  EXPECT_EQ(sent.context(), &scene.sent);
  EXPECT_EQ(sent.entry.flags & (FI_TAGGED | FI_SEND), FI_TAGGED | FI_SEND);
  ASSERT_EQ(scene.pair.a().tsend(scene.out, 50, kTag + 1, &scene.sent), 0);
  EXPECT_EQ(scene.arrival().context(), &other_context);
}

TEST_P(Tagged, ReceiveOfALengthWithoutABufferTakesEmptyMessages) {
  TAGGED_SCENE();
  fid_ep* const ep = scene.pair.b().ep();
  const iovec none{nullptr, 64};
  const fi_msg_tagged message{&none, nullptr, 1, FI_ADDR_UNSPEC, kTag, 0, &scene.received, 0};
  const std::function<ssize_t()> calls[] = {
      [&] { return fi_trecv(ep, nullptr, 64, nullptr, FI_ADDR_UNSPEC, kTag, 0, &scene.received); },
      [&] { return fi_trecvv(ep, &none, nullptr, 1, FI_ADDR_UNSPEC, kTag, 0, &scene.received); },
      [&] { return fi_trecvmsg(ep, &message, 0); }};
  for (const size_t length : {0, 100}) {
    for (const auto& call : calls) {
      ASSERT_EQ(retry(call), 0);
      ASSERT_EQ(scene.pair.a().tsend(scene.out, length, kTag, &scene.sent), 0);
      const Completion completion = scene.arrival();
      EXPECT_EQ(completion.context(), &scene.received);
      EXPECT_EQ(completion.err(), length == 0 ? 0 : FI_ETRUNC) << completion;
      EXPECT_EQ(length == 0 ? completion.entry.len : completion.error.olen, length);
      EXPECT_EQ(scene.pair.a().tx().wait().context(), &scene.sent);
    }
  }
}

TEST_P(Tagged, IgnoredBitsMatchAnything) {
  TAGGED_SCENE();
  ASSERT_EQ(scene.pair.b().trecv(scene.in, kSize, 0xab00, 0xff, &scene.received), 0);
  ASSERT_EQ(scene.pair.a().tsend(scene.out, 10, 0xac17, &scene.sent), 0);  // differs in a bit outside the mask
  ASSERT_EQ(scene.pair.a().tsend(scene.out, 20, 0xab17, &scene.sent), 0);
  const Completion completion = scene.arrival();
  EXPECT_EQ(completion.context(), &scene.received);
  EXPECT_EQ(completion.entry.tag, 0xab17u) << "the tag that was sent";
  EXPECT_EQ(completion.entry.len, 20u);
  ASSERT_EQ(scene.pair.b().trecv(scene.in, kSize, 0, ~0ull, &scene.received), 0);
  EXPECT_EQ(scene.arrival().entry.tag, 0xac17u);
}

TEST_P(Tagged, ReceivesAreSearchedInTheOrderPosted) {
  TAGGED_SCENE();
  Context exact, wild;
  ASSERT_EQ(scene.pair.b().trecv(scene.in, kSize, 0, ~0ull, &wild), 0);
  ASSERT_EQ(scene.pair.b().trecv(scene.in, kSize, kTag, 0, &exact), 0);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(scene.pair.a().tsend(scene.out, 8, kTag, &scene.sent), 0);
  EXPECT_EQ(scene.arrival().context(), &wild);
  EXPECT_EQ(scene.arrival().context(), &exact);
}

TEST_P(Tagged, UnexpectedMessagesAreFoundInTheOrderSent) {
  TAGGED_SCENE();
  constexpr uint64_t kTags[] = {5, 6, 5, 7, 5};
  for (size_t i = 0; i < std::size(kTags); ++i)
    ASSERT_EQ(scene.pair.a().tsend(scene.out, 10 + i, kTags[i], &scene.sent), 0);
  scene.let_arrive();
  for (size_t i : {size_t{1}, size_t{0}, size_t{2}, size_t{3}, size_t{4}}) {
    ASSERT_EQ(scene.pair.b().trecv(scene.in, kSize, kTags[i], 0, &scene.received), 0);
    const Completion completion = scene.arrival();
    ASSERT_TRUE(completion.ok()) << completion;
    EXPECT_EQ(completion.entry.tag, kTags[i]);
    EXPECT_EQ(completion.entry.len, 10 + i);
    EXPECT_TRUE(scene.in.holds_pattern(1, 10 + i));
  }
}

TEST_P(Tagged, TaggedAndPlainMessagesDoNotMix) {
  TAGGED_SCENE();
  Buffer plain(scene.fabric, kSize);
  Context plain_context;
  ASSERT_EQ(scene.pair.b().trecv(scene.in, kSize, 0, ~0ull, &scene.received), 0);
  ASSERT_EQ(scene.pair.b().recv(plain, kSize, &plain_context), 0);
  ASSERT_EQ(scene.pair.a().send(scene.out, 30, &scene.sent), 0);
  ASSERT_EQ(scene.pair.a().tsend(scene.out, 40, 1, &scene.sent), 0);
  for (int i = 0; i < 2; ++i) {
    const Completion completion = scene.arrival();
    ASSERT_TRUE(completion.ok()) << completion;
    const bool tagged = completion.entry.flags & FI_TAGGED;
    EXPECT_EQ(completion.context(), tagged ? &scene.received : &plain_context);
    EXPECT_EQ(completion.entry.len, tagged ? 40u : 30u);
  }
}

TEST_P(Tagged, VectorsDataAndInjectWorkAsForPlainMessages) {
  TAGGED_SCENE();
  const iovec from[2] = {{scene.out.data(), 10}, {scene.out.data() + 10, 30}};
  const iovec to[2] = {{scene.in.data(), 25}, {scene.in.data() + 25, kSize - 25}};
  void* from_desc[2] = {scene.out.desc(), scene.out.desc()};
  void* to_desc[2] = {scene.in.desc(), scene.in.desc()};
  fid_ep *a = scene.pair.a().ep(), *b = scene.pair.b().ep();
  const fi_addr_t peer = scene.pair.a().peer;
  const fi_msg_tagged message{from, from_desc, 2, peer, kTag, 0, &scene.sent, 99};
  const auto receive = [&] {
    return retry([&] { return fi_trecvv(b, to, to_desc, 2, FI_ADDR_UNSPEC, kTag, 0, &scene.received); });
  };
  const auto check = [&](size_t length, uint64_t data) {
    const Completion completion = scene.arrival();
    ASSERT_TRUE(completion.ok()) << completion;
    EXPECT_EQ(completion.entry.len, length);
    EXPECT_EQ(completion.entry.tag, kTag);
    EXPECT_TRUE(scene.in.holds_pattern(1, length));
    EXPECT_EQ(completion.entry.data, data);
    EXPECT_EQ(bool(completion.entry.flags & FI_REMOTE_CQ_DATA), data != 0);
  };
  ASSERT_EQ(receive(), 0);
  ASSERT_EQ(retry([&] { return fi_tsendv(a, from, from_desc, 2, peer, kTag, &scene.sent); }), 0);
  check(40, 0);
  EXPECT_TRUE(scene.pair.a().tx().wait().ok());
  ASSERT_EQ(receive(), 0);
  ASSERT_EQ(retry([&] { return fi_tsendmsg(a, &message, FI_REMOTE_CQ_DATA); }), 0);
  check(40, 99);
  EXPECT_TRUE(scene.pair.a().tx().wait().ok());
  ASSERT_EQ(receive(), 0);
  ASSERT_EQ(retry([&] { return fi_tsenddata(a, scene.out.data(), 60, scene.out.desc(), 98, peer, kTag, &scene.sent); }),
            0);
  check(60, 98);
  EXPECT_TRUE(scene.pair.a().tx().wait().ok());
  ASSERT_EQ(receive(), 0);
  ASSERT_EQ(retry([&] { return fi_tinject(a, scene.out.data(), 16, peer, kTag); }), 0);
  check(16, 0);
  ASSERT_EQ(receive(), 0);
  ASSERT_EQ(retry([&] { return fi_tinjectdata(a, scene.out.data(), 16, 97, peer, kTag); }), 0);
  check(16, 97);
  EXPECT_TRUE(scene.pair.a().tx().stays_silent(milliseconds(20)));
}

TEST_P(Tagged, TooLongMessageIsReportedAsTruncatedWithItsTag) {
  TAGGED_SCENE();
  ASSERT_EQ(scene.pair.b().trecv(scene.in, 50, kTag, 0, &scene.received), 0);
  ASSERT_EQ(scene.pair.a().tsend(scene.out, kSize, kTag, &scene.sent), 0);
  const Completion completion = scene.arrival();
  EXPECT_EQ(completion.err(), FI_ETRUNC) << completion;
  EXPECT_EQ(completion.error.tag, kTag);
  EXPECT_EQ(completion.error.olen, kSize - 50);
}

TEST_P(Tagged, PeekFindsNothing) {
  TAGGED_SCENE();
  ASSERT_EQ(scene.receive(kTag, 0, FI_PEEK, &scene.received), 0);
  const Completion completion = scene.arrival();
  EXPECT_EQ(completion.err(), FI_ENOMSG) << completion;
  EXPECT_EQ(completion.context(), &scene.received);
}

TEST_P(Tagged, PeekReportsAndLeavesTheMessage) {
  TAGGED_SCENE();
  ASSERT_EQ(scene.pair.a().tsend(scene.out, 70, kTag, &scene.sent), 0);
  scene.let_arrive();
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(scene.receive(kTag, 0, FI_PEEK, &scene.received), 0);
    const Completion completion = scene.arrival();
    ASSERT_TRUE(completion.ok()) << completion;
    EXPECT_EQ(completion.context(), &scene.received);
    EXPECT_EQ(completion.entry.len, 70u);
    EXPECT_EQ(completion.entry.tag, kTag);
  }
  ASSERT_EQ(scene.pair.b().trecv(scene.in, kSize, kTag, 0, &scene.received), 0);
  EXPECT_EQ(scene.arrival().entry.len, 70u);
  EXPECT_TRUE(scene.in.holds_pattern(1, 70));
}

// A program that polls with FI_PEEK makes no other call that drives progress: its queue always holds the last answer.
TEST_P(Tagged, PollingWithPeekFindsTheMessage) {
  TAGGED_SCENE();
  for (const size_t length : {0u, 1u, 4096u, 70'000u, 500'000u}) {
    SCOPED_TRACE(length);
    Buffer out(scene.fabric, length), in(scene.fabric, length);
    out.fill_pattern(5);
    ASSERT_EQ(scene.pair.a().tsend(out, length, kTag, &scene.sent), 0);
    Completion found;
    const auto deadline = after(kPatience);
    do {
      ASSERT_EQ(scene.receive(kTag, 0, FI_PEEK, &scene.received), 0);
      found = scene.pair.b().rx().read();
    } while ((found.err() == FI_ENOMSG || found.rc == -FI_EAGAIN) && Clock::now() < deadline);
    ASSERT_TRUE(found.ok()) << found;
    EXPECT_EQ(found.entry.len, length);
    ASSERT_EQ(scene.pair.b().trecv(in, length, kTag, 0, &scene.received), 0);
    const Completion arrived = scene.arrival();
    EXPECT_TRUE(arrived.ok()) << arrived;
    EXPECT_TRUE(in.holds_pattern(5, length));
  }
}

TEST_P(Tagged, PeekHonoursTagAndMask) {
  TAGGED_SCENE();
  ASSERT_EQ(scene.pair.a().tsend(scene.out, 8, 0x10, &scene.sent), 0);
  ASSERT_EQ(scene.pair.a().tsend(scene.out, 9, 0x21, &scene.sent), 0);
  scene.let_arrive();
  ASSERT_EQ(scene.receive(0x20, 0, FI_PEEK, &scene.received), 0);
  EXPECT_EQ(scene.arrival().err(), FI_ENOMSG);
  ASSERT_EQ(scene.receive(0x20, 0xf, FI_PEEK, &scene.received), 0);
  EXPECT_EQ(scene.arrival().entry.tag, 0x21u);
}

TEST_P(Tagged, ClaimedMessageIsOnlyForTheClaimer) {
  TAGGED_SCENE();
  ASSERT_EQ(scene.pair.a().tsend(scene.out, 33, kTag, &scene.sent), 0);
  ASSERT_EQ(scene.pair.a().tsend(scene.out, 44, kTag, &scene.sent), 0);
  scene.let_arrive();
  Context claim, ordinary;
  ASSERT_EQ(scene.receive(kTag, 0, FI_PEEK | FI_CLAIM, &claim), 0);
  EXPECT_EQ(scene.arrival().entry.len, 33u);
  ASSERT_EQ(scene.pair.b().trecv(scene.in, kSize, kTag, 0, &ordinary), 0);
  const Completion second = scene.arrival();
  EXPECT_EQ(second.context(), &ordinary);
  EXPECT_EQ(second.entry.len, 44u) << "the claimed one is passed over";
  std::memset(scene.in.data(), 0, kSize);
  ASSERT_EQ(scene.receive(kTag, 0, FI_CLAIM, &claim), 0);
  const Completion first = scene.arrival();
  ASSERT_TRUE(first.ok()) << first;
  EXPECT_EQ(first.context(), &claim);
  EXPECT_EQ(first.entry.len, 33u);
  EXPECT_TRUE(scene.in.holds_pattern(1, 33));
}

TEST_P(Tagged, DiscardedMessageIsGone) {
  TAGGED_SCENE();
  for (size_t length : {11, 12, 13}) ASSERT_EQ(scene.pair.a().tsend(scene.out, length, kTag, &scene.sent), 0);
  scene.let_arrive();
  ASSERT_EQ(scene.receive(kTag, 0, FI_PEEK | FI_DISCARD, &scene.received), 0);
  EXPECT_EQ(scene.arrival().entry.len, 11u);
  Context claim;
  ASSERT_EQ(scene.receive(kTag, 0, FI_PEEK | FI_CLAIM, &claim), 0);
  EXPECT_EQ(scene.arrival().entry.len, 12u);
  ASSERT_EQ(scene.receive(kTag, 0, FI_CLAIM | FI_DISCARD, &claim), 0);
  EXPECT_EQ(scene.arrival().context(), &claim);
  ASSERT_EQ(scene.pair.b().trecv(scene.in, kSize, kTag, 0, &scene.received), 0);
  EXPECT_EQ(scene.arrival().entry.len, 13u);
}

TEST_P(Tagged, ReceiveCanBeCanceled) {
  TAGGED_SCENE();
  ASSERT_EQ(scene.pair.b().trecv(scene.in, kSize, kTag, 0, &scene.received), 0);
  ASSERT_EQ(fi_cancel(scene.pair.b().fid(), &scene.received), 0);
  const Completion completion = scene.arrival();
  EXPECT_EQ(completion.err(), FI_ECANCELED) << completion;
  EXPECT_EQ(completion.context(), &scene.received);
  EXPECT_EQ(completion.error.flags & (FI_TAGGED | FI_RECV), FI_TAGGED | FI_RECV);
}

TEST_P(Tagged, LargeUnexpectedMessageArrivesWhole) {
  TAGGED_SCENE();
  constexpr size_t kLarge = 4 << 20;
  Buffer out(scene.fabric, kLarge), in(scene.fabric, kLarge);
  out.fill_pattern(9);
  ASSERT_EQ(scene.pair.a().tsend(out, kLarge, kTag, &scene.sent), 0);
  scene.let_arrive();
  ASSERT_EQ(scene.pair.b().trecv(in, kLarge, kTag, 0, &scene.received), 0);
  const Completion completion = scene.arrival();
  ASSERT_TRUE(completion.ok()) << completion;
  EXPECT_EQ(completion.entry.len, kLarge);
  EXPECT_TRUE(in.holds_pattern(9, kLarge));
}

}  // namespace tagged
