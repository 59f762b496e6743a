// SPDX-License-Identifier: BSD-2-Clause
// FI_MULTI_RECV: one posted buffer takes many messages; fi_msg(3), fi_cq(3), FI_OPT_MIN_MULTI_RECV of fi_endpoint(3).
#include "fixture/node.h"

namespace multi_receive {

CONFORMANCE_TOPIC(MultiReceive);

namespace {

const HintsEditor kWithMultiRecv = [](fi_info& hints) { hints.caps = FI_MSG | FI_MULTI_RECV; };

ssize_t post(Node& node, Buffer& buffer, void* context) {
  const iovec iov{buffer.data(), buffer.size()};
  void* desc = buffer.desc();
  const fi_msg message{&iov, &desc, 1, FI_ADDR_UNSPEC, context, 0};
  return retry([&] { return fi_recvmsg(node.ep(), &message, FI_MULTI_RECV); });
}

NodeOptions with_minimum(size_t minimum) {
  NodeOptions options;
  options.configure = [minimum](fid_ep* ep) {
    EXPECT_EQ(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &minimum, sizeof minimum), 0);
  };
  return options;
}

}  // namespace

TEST_P(MultiReceive, MessagesArePackedUntilTheBufferIsConsumed) {
  NEEDS(kWithMultiRecv, "FI_MULTI_RECV");
  Fabric fabric(target(), kWithMultiRecv);
  constexpr size_t kRoom = 1024, kMinimum = 128, kLength = 100;
  Pair pair(fabric, with_minimum(kMinimum));
  Buffer in(fabric, kRoom), out(fabric, kLength);
  Context received, sent;
  ASSERT_EQ(post(pair.b(), in, &received), 0);
  char* end = in.data();
  bool released = false;
  for (unsigned i = 0; i < 20 && !released; ++i) {
    out.fill_pattern(i);
    ASSERT_EQ(pair.a().send(out, kLength, &sent), 0);
    Completion completion = pair.b().rx().wait();
    ASSERT_TRUE(completion.ok()) << completion;
    EXPECT_EQ(completion.context(), &received);
    ASSERT_TRUE(completion.entry.flags & FI_RECV);
    EXPECT_EQ(completion.entry.len, kLength);
    char* placed = static_cast<char*>(completion.entry.buf);
    ASSERT_GE(placed, end) << "messages must not overlap";
    ASSERT_LE(placed + kLength, in.data() + kRoom);
    EXPECT_EQ(std::memcmp(placed, out.data(), kLength), 0);
    end = placed + kLength;
    released = completion.entry.flags & FI_MULTI_RECV;
    const size_t left = static_cast<size_t>(in.data() + kRoom - end);
    if (!released && left < kMinimum) {  // the release may be an entry of its own
      completion = pair.b().rx().wait();
      ASSERT_TRUE(completion.ok()) << completion;
      EXPECT_EQ(completion.entry.flags, FI_MULTI_RECV);
      EXPECT_EQ(completion.context(), &received);
      released = true;
    }
    EXPECT_EQ(released, left < kMinimum) << "released with " << left << " bytes left";
  }
  EXPECT_TRUE(released);
}

TEST_P(MultiReceive, NextMessageGoesToTheNextBuffer) {
  NEEDS(kWithMultiRecv, "FI_MULTI_RECV");
  Fabric fabric(target(), kWithMultiRecv);
  Pair pair(fabric, with_minimum(64));
  Buffer first(fabric, 100), second(fabric, 1000), out(fabric, 80);
  Context contexts[2], sent;
  ASSERT_EQ(post(pair.b(), first, &contexts[0]), 0);
  ASSERT_EQ(post(pair.b(), second, &contexts[1]), 0);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(pair.a().send(out, 80, &sent), 0);
  std::vector<void*> order;
  for (int messages = 0; messages < 3;) {
    const Completion completion = pair.b().rx().wait();
    ASSERT_TRUE(completion.ok()) << completion;
    if (!(completion.entry.flags & FI_RECV)) continue;
    ++messages;
    order.push_back(completion.context());
  }
  EXPECT_EQ(order, (std::vector<void*>{&contexts[0], &contexts[1], &contexts[1]}));
}

TEST_P(MultiReceive, MinimumIsReadBack) {
  NEEDS(kWithMultiRecv, "FI_MULTI_RECV");
  Fabric fabric(target(), kWithMultiRecv);
  Pair pair(fabric, with_minimum(333));
  size_t minimum = 0, size = sizeof minimum;
  ASSERT_EQ(fi_getopt(pair.b().fid(), FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &minimum, &size), 0);
  EXPECT_EQ(minimum, 333u);
}

TEST_P(MultiReceive, MessagesOfModerateLengthAreWholeByDefault) {
  NEEDS(kWithMultiRecv, "FI_MULTI_RECV");
  Fabric fabric(target(), kWithMultiRecv);
  Pair pair(fabric);
  const size_t length = fabric.length_up_to(12'000);
  Buffer in(fabric, 64 * 1024), out(fabric, length);
  Context received, sent;
  unsigned buffers = 0;
  for (unsigned i = 0; buffers < 3; ++i) {
    if (i == 0) {
      ASSERT_EQ(post(pair.b(), in, &received), 0);
    }
    out.fill_pattern(i);
    ASSERT_EQ(pair.a().send(out, length, &sent), 0);
    Completion completion = pair.b().rx().wait();
    if (completion.ok() && (completion.entry.flags & FI_RECV) == 0) {  // a release that is an entry of its own
      ASSERT_EQ(post(pair.b(), in, &received), 0);
      ++buffers;
      completion = pair.b().rx().wait();
    }
    ASSERT_TRUE(completion.ok()) << completion << " of message " << i;
    EXPECT_EQ(completion.entry.len, length);
    EXPECT_TRUE(in.holds_pattern(i, length, static_cast<size_t>(static_cast<char*>(completion.entry.buf) - in.data())));
    if ((completion.entry.flags & FI_MULTI_RECV) == 0) continue;
    ASSERT_EQ(post(pair.b(), in, &received), 0);
    ++buffers;
  }
}

TEST_P(MultiReceive, BufferShorterThanTheMinimumTakesOneMessage) {
  NEEDS(kWithMultiRecv, "FI_MULTI_RECV");
  Fabric fabric(target(), kWithMultiRecv);
  Pair pair(fabric);
  Buffer in(fabric, 100), out(fabric, 60);
  out.fill_pattern(3);
  Context contexts[2], sent;
  for (Context& context : contexts) ASSERT_EQ(post(pair.b(), in, &context), 0);
  for (Context& context : contexts) {
    ASSERT_EQ(pair.a().send(out, out.size(), &sent), 0);
    const Completion completion = pair.b().rx().wait();
    ASSERT_TRUE(completion.ok()) << completion;
    EXPECT_EQ(completion.context(), &context);
    EXPECT_TRUE(in.holds_pattern(3, out.size()));
    if ((completion.entry.flags & FI_MULTI_RECV) != 0) continue;
    const Completion release = pair.b().rx().wait();
    EXPECT_EQ(release.context(), &context);
    EXPECT_EQ(release.entry.flags, FI_MULTI_RECV);
  }
}

TEST_P(MultiReceive, BufferCanBeCanceled) {
  NEEDS(kWithMultiRecv, "FI_MULTI_RECV");
  Fabric fabric(target(), kWithMultiRecv);
  Pair pair(fabric, with_minimum(64));
  Buffer in(fabric, 1000), out(fabric, 80);
  Context received, sent;
  ASSERT_EQ(post(pair.b(), in, &received), 0);
  ASSERT_EQ(pair.a().send(out, 80, &sent), 0);
  ASSERT_TRUE(pair.b().rx().wait().ok());
  CANCEL_OR_SKIP(pair.b().fid(), &received);
  const Completion completion = pair.b().rx().wait();
  EXPECT_EQ(completion.err(), FI_ECANCELED) << completion;
  EXPECT_EQ(completion.context(), &received);
}

}  // namespace multi_receive
