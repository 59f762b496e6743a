// SPDX-License-Identifier: BSD-2-Clause
// FI_MORE over many operations: the hint may save work, but it never withholds, reorders or loses; fi_msg(3),
// fi_rma(3).
#include <rdma/fi_rma.h>

#include "fixture/driver.h"
#include "fixture/node.h"

namespace gathered_sends {

CONFORMANCE_TOPIC(GatheredSends);

namespace {

const HintsEditor kRma = [](fi_info& hints) { hints.caps = FI_MSG | FI_RMA; };
constexpr size_t kCount = 60, kSize = 64;

struct Scene {
  explicit Scene(const Target& target, const NodeOptions& options = {})
      : fabric(target, kRma),
        pair(fabric, options),
        out(fabric, kCount * kSize),
        in(fabric, kCount * kSize),
        sent(kCount),
        received(kCount) {
    for (size_t i = 0; i < kCount; ++i) std::memset(out.data() + i * kSize, static_cast<int>(i), kSize);
  }
  void post_receives() {
    for (size_t i = 0; i < kCount; ++i)
      require_ok(retry([&] {
                   return fi_recv(pair.b().ep(), in.data() + i * kSize, kSize, in.desc(), FI_ADDR_UNSPEC, &received[i]);
                 }),
                 "fi_recv");
  }
  ssize_t send(size_t i, uint64_t flags) {
    const iovec iov{out.data() + i * kSize, kSize};
    void* desc = out.desc();
    const fi_msg message{&iov, &desc, 1, pair.a().peer, &sent[i], 0};
    return retry([&] { return fi_sendmsg(pair.a().ep(), &message, flags); });
  }
  void expect_all() {
    for (size_t i = 0; i < kCount; ++i) {
      const Completion arrival = pair.b().rx().wait();
      ASSERT_EQ(arrival.context(), &received[i]) << i << ": " << arrival;
      ASSERT_EQ(in.data()[i * kSize], static_cast<char>(i));
      ASSERT_EQ(in.data()[(i + 1) * kSize - 1], static_cast<char>(i));
    }
  }

  Fabric fabric;
  Pair pair;
  Buffer out, in;
  std::vector<Context> sent, received;
};

}  // namespace

#define GATHERED_SCENE(...) \
  CONNECTED_ONLY();         \
  NEEDS(kRma, "FI_RMA");    \
  Scene scene(target() __VA_OPT__(, ) __VA_ARGS__)

TEST_P(GatheredSends, ManyArriveInOrder) {
  GATHERED_SCENE();
  scene.post_receives();
  for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(scene.send(i, i + 1 < kCount ? FI_MORE : 0), 0);
  scene.expect_all();
  for (Context& context : scene.sent) ASSERT_EQ(scene.pair.a().tx().wait().context(), &context);
}

TEST_P(GatheredSends, ProgressFlushesTheLastMessages) {
  GATHERED_SCENE();
  scene.post_receives();
  for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(scene.send(i, FI_MORE), 0);
  scene.expect_all();
  for (Context& context : scene.sent) ASSERT_EQ(scene.pair.a().tx().wait().context(), &context);
}

TEST_P(GatheredSends, InjectedBuffersAreFreeAtOnce) {
  GATHERED_SCENE();
  scene.post_receives();
  const size_t length = std::min(kSize, scene.fabric.info()->tx_attr->inject_size);
  char scratch[kSize];
  for (size_t i = 0; i < kCount; ++i) {
    std::memset(scratch, static_cast<int>(i), length);
    const iovec iov{scratch, length};
    const fi_msg message{&iov, nullptr, 1, scene.pair.a().peer, &scene.sent[i], 0};
    const uint64_t flags = FI_INJECT | (i + 1 < kCount ? FI_MORE : 0);
    ASSERT_EQ(retry([&] { return fi_sendmsg(scene.pair.a().ep(), &message, flags); }), 0);
    std::memset(scratch, '#', length);
  }
  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(scene.pair.b().rx().wait().context(), &scene.received[i]);
    ASSERT_EQ(scene.in.data()[i * kSize + length - 1], static_cast<char>(i));
  }
}

TEST_P(GatheredSends, OtherCallsDoNotOvertake) {
  GATHERED_SCENE();
  Buffer remote(scene.fabric, 64, 0, FI_REMOTE_READ | FI_REMOTE_WRITE), local(scene.fabric, 64, 'w');
  Context received, written;
  Buffer note(scene.fabric, 8);
  ASSERT_EQ(scene.pair.b().recv(note, 8, &received), 0);
  const iovec iov{local.data(), 64};
  void* desc = local.desc();
  const fi_rma_iov where{remote.remote_address(), 64, remote.key()};
  const fi_msg_rma write{&iov, &desc, 1, scene.pair.a().peer, &where, 1, &written, 0};
  ASSERT_EQ(retry([&] { return fi_writemsg(scene.pair.a().ep(), &write, FI_MORE); }), 0);
  ASSERT_EQ(retry([&] { return fi_inject(scene.pair.a().ep(), "note", 4, scene.pair.a().peer); }), 0);
  ASSERT_EQ(scene.pair.b().rx().wait().context(), &received);
  EXPECT_EQ(remote.data()[63], 'w') << "the message came behind the write";
  EXPECT_EQ(scene.pair.a().tx().wait().context(), &written);
}

TEST_P(GatheredSends, FullQueueAnswersAgainAndLosesNothing) {
  GATHERED_SCENE();
  const size_t room = scene.fabric.info()->tx_attr->size;
  std::vector<Context> contexts(4 * room);
  const iovec iov{scene.out.data(), kSize};
  void* desc = scene.out.desc();
  size_t posted = 0;
  ssize_t rc = 0;
  while (posted < contexts.size()) {  // no receive is posted
    const fi_msg message{&iov, &desc, 1, scene.pair.a().peer, &contexts[posted], 0};
    rc = fi_sendmsg(scene.pair.a().ep(), &message, FI_MORE);
    if (rc != 0) break;
    ++posted;
  }
  if (rc == 0) GTEST_SKIP() << "this provider buffers more than " << posted << " messages";
  ASSERT_EQ(rc, -FI_EAGAIN);
  Context received;
  for (size_t i = 0; i < posted; ++i) {
    ASSERT_EQ(scene.pair.b().recv(scene.in, kSize, &received), 0);
    ASSERT_TRUE(scene.pair.b().rx().wait().ok()) << i << " of " << posted;
  }
  for (size_t i = 0; i < posted; ++i) ASSERT_EQ(scene.pair.a().tx().wait().context(), &contexts[i]);
}

TEST_P(GatheredSends, ShutdownAccountsForUnsentMessages) {
  GATHERED_SCENE();
  for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(scene.send(i, FI_MORE), 0);
  ASSERT_EQ(fi_shutdown(scene.pair.a().ep(), 0), 0);
  for (Context& context : scene.sent) {
    const Completion completion = scene.pair.a().tx().read();
    EXPECT_EQ(completion.context(), &context) << completion;
  }
  EXPECT_EQ(scene.pair.a().tx().read().rc, -FI_EAGAIN);
}

TEST_P(GatheredSends, SelectiveCompletionHoldsInChains) {
  NodeOptions selective;
  selective.tx_flags = FI_SELECTIVE_COMPLETION;
  GATHERED_SCENE(selective);
  scene.post_receives();
  for (size_t i = 0; i < kCount; ++i)
    ASSERT_EQ(scene.send(i, (i + 1 < kCount ? FI_MORE : 0) | (i % 10 == 9 ? FI_COMPLETION : 0)), 0);
  scene.expect_all();
  for (size_t i = 9; i < kCount; i += 10) ASSERT_EQ(scene.pair.a().tx().wait().context(), &scene.sent[i]);
  EXPECT_TRUE(scene.pair.a().tx().stays_silent(milliseconds(20)));
}

}  // namespace gathered_sends
