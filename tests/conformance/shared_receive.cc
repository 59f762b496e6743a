// SPDX-License-Identifier: BSD-2-Clause
// Shared receive contexts: one queue of buffers for many endpoints; SHARED CONTEXTS of fi_endpoint(3).
#include <rdma/fi_trigger.h>

#include <set>

#include "fixture/counter.h"

namespace shared_receive {

CONFORMANCE_TOPIC(SharedReceive);

namespace {

const HintsEditor kShared = [](fi_info& hints) { hints.ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT; };
constexpr size_t kSize = 128;

// Two connections whose accepting ends draw from one shared context.
struct Scene {
  explicit Scene(const Target& target) : fabric(target, kShared) {
    srx = opened<fid_ep>("fi_srx_context", [&](fid_ep** s) {
      return fi_srx_context(fabric.domain(), fabric.info()->rx_attr, s, nullptr);
    });
    NodeOptions options;
    options.configure = [this](fid_ep* ep) { require_ok(fi_ep_bind(ep, &srx->fid, 0), "fi_ep_bind SRX"); };
    for (auto& pair : pairs) pair = std::make_unique<Pair>(fabric, options);
  }
  ~Scene() {
    for (auto& pair : pairs) pair.reset();
  }
  ssize_t post(Buffer& buffer, void* context) {
    return retry([&] { return fi_recv(srx.get(), buffer.data(), kSize, buffer.desc(), FI_ADDR_UNSPEC, context); });
  }

  Fabric fabric;
  Handle<fid_ep> srx;
  std::unique_ptr<Pair> pairs[2];
};

}  // namespace

#define SHARED_SCENE()                 \
  CONNECTED_ONLY();                    \
  NEEDS(kShared, "FI_SHARED_CONTEXT"); \
  Scene scene(target())

TEST_P(SharedReceive, BuffersServeWhicheverEndpointReceives) {
  SHARED_SCENE();
  Buffer in[4] = {{scene.fabric, kSize}, {scene.fabric, kSize}, {scene.fabric, kSize}, {scene.fabric, kSize}};
  Buffer out(scene.fabric, kSize);
  Context received[4], sent;
  for (int i = 0; i < 4; ++i) ASSERT_EQ(scene.post(in[i], &received[i]), 0);
  int next = 0;
  for (int which : {1, 0, 0, 1}) {
    Pair& pair = *scene.pairs[which];
    out.fill_pattern(static_cast<unsigned>(next));
    ASSERT_EQ(pair.a().send(out, 16, &sent), 0);
    const Completion completion = pair.b().rx().wait();
    ASSERT_TRUE(completion.ok()) << completion;
    EXPECT_EQ(completion.context(), &received[next]) << "in the order posted";
    EXPECT_TRUE(in[next].holds_pattern(static_cast<unsigned>(next), 16));
    ++next;
  }
}

TEST_P(SharedReceive, MessagesWithoutABufferWaitForOne) {
  SHARED_SCENE();
  Buffer in(scene.fabric, kSize), out(scene.fabric, kSize);
  Context received[2], sent;
  for (auto& pair : scene.pairs) ASSERT_EQ(pair->a().send(out, 8, &sent), 0);
  EXPECT_TRUE(scene.pairs[0]->b().rx().stays_silent(milliseconds(50)));
  for (Context& context : received) ASSERT_EQ(scene.post(in, &context), 0);
  std::set<void*> seen;
  for (auto& pair : scene.pairs) seen.insert(pair->b().rx().wait().context());
  EXPECT_EQ(seen, (std::set<void*>{&received[0], &received[1]}));
}

TEST_P(SharedReceive, ClosingOneEndpointLeavesTheBuffersToTheOthers) {
  SHARED_SCENE();
  Buffer in(scene.fabric, kSize), out(scene.fabric, kSize);
  Context received, sent;
  ASSERT_EQ(scene.post(in, &received), 0);
  scene.pairs[0].reset();
  ASSERT_EQ(scene.pairs[1]->a().send(out, 8, &sent), 0);
  const Completion completion = scene.pairs[1]->b().rx().wait();
  EXPECT_TRUE(completion.ok()) << completion;
  EXPECT_EQ(completion.context(), &received);
}

TEST_P(SharedReceive, ShutdownOfOneEndpointDoesNotCancelTheBuffers) {
  SHARED_SCENE();
  Buffer in(scene.fabric, kSize), out(scene.fabric, kSize);
  Context received, sent;
  ASSERT_EQ(scene.post(in, &received), 0);
  ASSERT_EQ(fi_shutdown(scene.pairs[0]->b().ep(), 0), 0);
  EXPECT_TRUE(scene.pairs[0]->b().rx().stays_silent(milliseconds(20)));
  ASSERT_EQ(scene.pairs[1]->a().send(out, 8, &sent), 0);
  EXPECT_EQ(scene.pairs[1]->b().rx().wait().context(), &received);
}

TEST_P(SharedReceive, ReceivingOnTheEndpointItselfIsRefused) {
  SHARED_SCENE();
  Buffer in(scene.fabric, kSize);
  Context context;
  const ssize_t rc = fi_recv(scene.pairs[0]->b().ep(), in.data(), kSize, in.desc(), FI_ADDR_UNSPEC, &context);
  EXPECT_LT(rc, 0) << "the endpoint has no receive queue of its own";
}

TEST_P(SharedReceive, ContextInUseAnswersBusy) {
  SHARED_SCENE();
  EXPECT_EQ(fi_close(&scene.srx->fid), -FI_EBUSY);
}

TEST_P(SharedReceive, PostedReceiveCanBeCanceled) {
  SHARED_SCENE();
  Buffer in(scene.fabric, kSize), out(scene.fabric, kSize);
  Context received[2], sent;
  for (Context& context : received) ASSERT_EQ(scene.post(in, &context), 0);
  CANCEL_OR_SKIP(&scene.srx->fid, &received[0]);
  ASSERT_EQ(scene.pairs[0]->a().send(out, 8, &sent), 0);
  EXPECT_EQ(scene.pairs[0]->b().rx().wait().context(), &received[1]) << "the canceled one is not filled";
}

TEST_P(SharedReceive, ReceivesThatWaitForACounterAreRefused) {
  SHARED_SCENE();
  const auto counter = open_counter(scene.fabric);
  Buffer in(scene.fabric, kSize);
  const iovec iov{in.data(), kSize};
  void* desc = in.desc();
  fi_triggered_context context{};
  context.event_type = FI_TRIGGER_THRESHOLD;
  context.trigger.threshold = {counter.get(), 1};
  const fi_msg message{&iov, &desc, 1, FI_ADDR_UNSPEC, &context, 0};
  EXPECT_EQ(fi_recvmsg(scene.srx.get(), &message, FI_TRIGGER), -FI_EBADFLAGS);
}

}  // namespace shared_receive
