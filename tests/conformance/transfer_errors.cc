// SPDX-License-Identifier: BSD-2-Clause
// Transfers that fail: one error entry each, which names the operation, the kind of error and, in words, the cause;
// operations posted behind it end as well; fi_cq(3), fi_msg(3), fi_mr(3).
#include <rdma/fi_rma.h>

#include "fixture/child.h"
#include "fixture/driver.h"
#include "fixture/injected.h"
#include "fixture/member.h"
#include "fixture/node.h"

namespace transfer_errors {

CONFORMANCE_TOPIC(TransferErrors);

namespace {

const HintsEditor kRma = [](fi_info& hints) { hints.caps = FI_MSG | FI_RMA; };

std::string sentence(CompletionQueue& queue, const Completion& completion) {
  char text[256] = "";
  const char* answer =
      fi_cq_strerror(queue.get(), completion.error.prov_errno, completion.error.err_data, text, sizeof text);
  return answer != nullptr ? answer : "";
}

HintsEditor completing_at(uint64_t level) {
  return [level](fi_info& hints) { hints.tx_attr->op_flags = level; };
}

bool needs_descriptors(const Fabric& fabric) {
  return fabric.has(FI_MR_LOCAL) || (fabric.info()->mode & FI_LOCAL_MR);
}

}  // namespace

TEST_P(TransferErrors, SendWithoutADescriptorIsRefusedAtOnce) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  if (!needs_descriptors(fabric)) GTEST_SKIP() << "descriptors mean nothing here";
  Pair pair(fabric);
  std::vector<char> bytes(4096);
  Context context;
  EXPECT_EQ(fi_send(pair.a().ep(), bytes.data(), bytes.size(), nullptr, pair.a().peer, &context), -FI_EINVAL);
  expect_exchange(pair);
}

// Programs post receives for messages that never come, and leave memory unregistered for that.
TEST_P(TransferErrors, ReceiveWithoutADescriptorTakesEmptyMessagesOnly) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  if (!needs_descriptors(fabric)) GTEST_SKIP() << "descriptors mean nothing here";
  Pair pair(fabric);
  std::vector<char> bytes(64, 'u');
  Buffer out(fabric, 64, 'm');
  for (const size_t length : {size_t{0}, bytes.size()}) {
    Context sent, received;
    ASSERT_EQ(fi_recv(pair.b().ep(), bytes.data(), bytes.size(), nullptr, FI_ADDR_UNSPEC, &received), 0);
    ASSERT_EQ(pair.a().send(out, length, &sent), 0);
    const Completion completion = pair.b().rx().wait();
    EXPECT_EQ(completion.context(), &received);
    EXPECT_EQ(completion.err(), length == 0 ? 0 : FI_ETRUNC) << completion;
    EXPECT_TRUE(pair.a().tx().wait().ok());
  }
  EXPECT_EQ(bytes, std::vector<char>(64, 'u'));
  expect_exchange(pair);
}

TEST_P(TransferErrors, LevelsThatNothingReportsAreRefused) {
  Fabric fabric(target());
  Pair pair(fabric);
  expect_exchange(pair);
  Buffer out(fabric, 64);
  const iovec iov{out.data(), out.size()};
  void* desc = out.desc();
  Context context;
  const fi_msg message{&iov, &desc, 1, pair.a().peer, &context, 0};
  for (const uint64_t level : {FI_COMMIT_COMPLETE, FI_MATCH_COMPLETE})
    EXPECT_EQ(fi_sendmsg(pair.a().ep(), &message, level), -FI_EBADFLAGS) << level;
}

TEST_P(TransferErrors, BuffersComeBeforeFlagsAndFlagsBeforeLengthAndPeer) {
  Fabric fabric(target());
  Pair pair(fabric);
  expect_exchange(pair);
  const std::size_t too_long = fabric.info()->tx_attr->inject_size + 1;
  Buffer out(fabric, too_long);
  Context context;
  const auto send = [&](void* buf, std::size_t len, fi_addr_t peer, uint64_t flags) {
    const iovec iov{buf, len};
    void* desc = out.desc();
    const fi_msg message{&iov, &desc, 1, peer, &context, 0};
    return fi_sendmsg(pair.a().ep(), &message, flags);
  };
  EXPECT_EQ(send(nullptr, 8, pair.a().peer, FI_COMMIT_COMPLETE), -FI_EINVAL);
  EXPECT_EQ(send(out.data(), too_long, pair.a().peer, FI_INJECT | FI_COMMIT_COMPLETE), -FI_EBADFLAGS);
  if (target().connected()) return;
  constexpr fi_addr_t kNobody = 4711;
  EXPECT_EQ(send(out.data(), 1, kNobody, FI_COMMIT_COMPLETE), -FI_EBADFLAGS);
}

TEST_P(TransferErrors, RangesOfAnotherLengthAreRefusedBeforeFlags) {
  if (target().ep_type == FI_EP_DGRAM) GTEST_SKIP() << "datagrams have no remote memory";
  NEEDS(kRma, "FI_RMA");
  Fabric fabric(target(), kRma);
  Pair pair(fabric);
  expect_exchange(pair);
  Buffer local(fabric, 64, 'l', FI_WRITE | FI_SEND), remote(fabric, 64, 'r', FI_REMOTE_WRITE);
  Context context;
  const iovec iov{local.data(), 64};
  void* desc = local.desc();
  const fi_rma_iov half{remote.remote_address(), 32, remote.key()};
  const fi_msg_rma write{&iov, &desc, 1, pair.a().peer, &half, 1, &context, 0};
  for (const uint64_t flags : {uint64_t{0}, uint64_t{FI_COMMIT_COMPLETE}})
    EXPECT_EQ(fi_writemsg(pair.a().ep(), &write, flags), -FI_EINVAL) << flags;
}

TEST_P(TransferErrors, ClosedRegionOfTheSenderIsABadAddress) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  if (!needs_descriptors(fabric)) GTEST_SKIP() << "descriptors mean nothing here";
  Pair pair(fabric);
  Buffer in(fabric, 8192);
  Context received, sent;
  ASSERT_EQ(pair.b().recv(in, 8192, &received), 0);
  std::vector<char> bytes(4096);
  void* desc;
  {
    const auto mr = opened<fid_mr>("fi_mr_reg", [&](fid_mr** m) {
      return fi_mr_reg(fabric.domain(), bytes.data(), bytes.size(), FI_SEND, 0, 4711, 0, m, nullptr);
    });
    desc = fi_mr_desc(mr.get());
  }
  ASSERT_EQ(retry([&] { return fi_send(pair.a().ep(), bytes.data(), bytes.size(), desc, pair.a().peer, &sent); }), 0);
  const Completion completion = pair.a().tx().wait();
  // Soft-RoCE reports it as malformed.
  EXPECT_TRUE(completion.err() == FI_EFAULT || completion.err() == FI_EINVAL) << completion;
  EXPECT_EQ(completion.context(), &sent);
  EXPECT_NE(sentence(pair.a().tx(), completion).find("registered"), std::string::npos)
      << sentence(pair.a().tx(), completion);
}

TEST_P(TransferErrors, OperationsBehindAFailureAreCanceledInOrder) {
  CONNECTED_ONLY();
  NEEDS(kRma, "FI_RMA");
  Fabric fabric(target(), kRma);
  Pair pair(fabric);
  Buffer local(fabric, 4096, 'l', FI_READ | FI_WRITE | FI_SEND), remote(fabric, 4096, 'r', FI_REMOTE_READ);
  Context good, bad, behind[3];
  const auto read = [&](uint64_t key, Context& context) {
    return retry([&] {
      return fi_read(pair.a().ep(), local.data(), 4096, local.desc(), pair.a().peer, remote.remote_address(), key,
                     &context);
    });
  };
  ASSERT_EQ(read(remote.key(), good), 0);
  ASSERT_EQ(read(remote.key() + 1000, bad), 0);
  size_t posted = 0;
  for (Context& context : behind) {
    if (read(remote.key(), context) != 0) break;  // the failure may have been detected already
    ++posted;
  }
  EXPECT_EQ(pair.a().tx().wait().context(), &good);
  const Completion failed = pair.a().tx().wait();
  EXPECT_EQ(failed.context(), &bad) << failed;
  EXPECT_NE(failed.err(), 0);
  if (!speaks_tcp()) {  // where a peer refuses by closing the connection
    EXPECT_NE(failed.err(), FI_ECANCELED) << "this one was tried";
  }
  EXPECT_FALSE(sentence(pair.a().tx(), failed).empty());
  pair.a().eq().expect(FI_SHUTDOWN, pair.a().fid());
  for (size_t i = 0; i < posted; ++i) {
    const Completion completion = pair.a().tx().read();
    EXPECT_EQ(completion.context(), &behind[i]) << completion;
    EXPECT_EQ(completion.err(), FI_ECANCELED) << completion;
  }
  EXPECT_EQ(pair.a().tx().read().rc, -FI_EAGAIN);
}

TEST_P(TransferErrors, TruncationReportsBothLengthsAndTheConnectionContinues) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Pair pair(fabric);
  Buffer out(fabric, 20'000), in(fabric, 20'000);
  Context received, sent;
  for (size_t room : {0, 1, 63, 64, 65, 1000}) {
    for (size_t length : {room + 1, room + 64, room + 10'000}) {
      out.fill_pattern(static_cast<unsigned>(room));
      std::memset(in.data(), '#', in.size());
      ASSERT_EQ(pair.b().recv(in, room, &received), 0);
      ASSERT_EQ(pair.a().send(out, length, &sent), 0);
      const Completion completion = pair.b().rx().wait();
      ASSERT_EQ(completion.err(), FI_ETRUNC) << room << " " << length << ": " << completion;
      EXPECT_EQ(completion.context(), &received);
      EXPECT_EQ(completion.error.len, room);
      EXPECT_EQ(completion.error.olen, length - room);
      EXPECT_TRUE(in.holds_pattern(static_cast<unsigned>(room), room));
      EXPECT_EQ(in.data()[room], '#') << "wrote behind the buffer";
      EXPECT_TRUE(pair.a().tx().wait().ok()) << "the sender is not to blame";
    }
  }
  expect_exchange(pair);
}

TEST_P(TransferErrors, TruncationBeyondTheSpillMemoryIsReported) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Pair pair(fabric);
  const size_t length = fabric.length_up_to(4 << 20);
  Buffer out(fabric, length), in(fabric, 100);
  Context received, sent;
  ASSERT_EQ(pair.b().recv(in, 100, &received), 0);
  ASSERT_EQ(pair.a().send(out, length, &sent), 0);
  const Completion completion = pair.b().rx().wait();
  // Soft-RoCE reports it as malformed.
  EXPECT_TRUE(completion.err() == FI_ETRUNC || completion.err() == FI_EINVAL) << completion;
  EXPECT_EQ(completion.context(), &received);
  EXPECT_FALSE(sentence(pair.b().rx(), completion).empty());
}

TEST_P(TransferErrors, SelectiveEndpointsReportFailuresToo) {
  CONNECTED_ONLY();
  NEEDS(kRma, "FI_RMA");
  Fabric fabric(target(), kRma);
  NodeOptions selective;
  selective.tx_flags = FI_SELECTIVE_COMPLETION;
  Pair pair(fabric, selective, {});
  Buffer local(fabric, 64, 'l', FI_READ | FI_WRITE), remote(fabric, 64, 'r', FI_REMOTE_READ);
  Context quiet;
  ASSERT_EQ(retry([&] {
              return fi_read(pair.a().ep(), local.data(), 64, local.desc(), pair.a().peer, remote.remote_address(),
                             remote.key() + 1000, &quiet);
            }),
            0);
  const Completion completion = pair.a().tx().wait();
  EXPECT_NE(completion.err(), 0) << completion;
  EXPECT_EQ(completion.context(), &quiet);
}

namespace {

// The number of injected operations that fail when their peer is closed. It has made no progress meanwhile.
size_t failed_injections(const Target& target, uint64_t level) {
  const Fabric fabric(target, completing_at(level));
  Injected injected(fabric);
  Pair pair(fabric, injected.options(), {});
  Buffer remote(fabric, 64, 0, FI_REMOTE_WRITE);
  expect_exchange(pair);
  injected.post(pair.a(), {remote.remote_address(), remote.key()});
  injected.fill(pair.a());
  pair.b().close();
  return injected.ends(pair.a()).size();
}

}  // namespace

TEST_P(TransferErrors, InjectedOperationsThatFailAreReportedOnceAndOthersAreNot) {
  if (target().ep_type == FI_EP_DGRAM) GTEST_SKIP() << "plain datagrams have no acknowledgement";
  failed_injections(target(), 0);
}

TEST_P(TransferErrors, InjectedOperationsThatAreNotDeliveredFail) {
  if (target().ep_type == FI_EP_DGRAM) GTEST_SKIP() << "plain datagrams have no acknowledgement";
  NEEDS(completing_at(FI_DELIVERY_COMPLETE), "FI_DELIVERY_COMPLETE");
  EXPECT_GT(failed_injections(target(), FI_DELIVERY_COMPLETE), 0u);
}

TEST_P(TransferErrors, InjectedMessagesOfAnEndpointWithoutCountersFailToo) {
  if (target().ep_type == FI_EP_DGRAM) GTEST_SKIP() << "plain datagrams have no acknowledgement";
  NEEDS(completing_at(FI_DELIVERY_COMPLETE), "FI_DELIVERY_COMPLETE");
  const Fabric fabric(target(), completing_at(FI_DELIVERY_COMPLETE));
  Pair pair(fabric);
  expect_exchange(pair);
  // A call that found no room would make progress, for the peer too.
  const size_t most = std::min<size_t>(500, fabric.info()->tx_attr->size / 2);
  size_t posted = 0;
  while (posted < most && fi_inject(pair.a().ep(), "x", 1, pair.a().peer) == 0) ++posted;
  EXPECT_EQ(posted, most);
  pair.b().close();
  for (size_t i = 0; i < posted; ++i) {
    const Completion end = pair.a().tx().wait();
    ASSERT_NE(end.err(), 0) << end << " after " << i << " of " << posted;
    ASSERT_EQ(end.context(), nullptr) << end;
  }
  EXPECT_TRUE(pair.a().tx().stays_silent());
}

namespace {

constexpr Injected::Remote kAnywhere{64, 64};

child::Environment peer_is(const Target& target, const Address& own) {
  return {{"WEFT_CONFORMANCE_PEER", target.address + " " + std::to_string(own.port())}};
}

void inject_over_a_connection_and_kill(const Fabric& fabric) {
  Injected injected(fabric);
  Listener listener(fabric);
  child::Running peer("connect_and_stay", peer_is(fabric.target(), listener.address()));
  const InfoPtr request = listener.next_request();
  Node node(fabric, injected.options(), request.get());
  ASSERT_EQ(node.accept(), 0);
  node.eq().expect(FI_CONNECTED, node.fid());
  peer.stop();
  injected.post(node, kAnywhere);
  injected.fill(node);
  peer.kill();
  injected.expect_failures(node);
}

// After some messages two ends of one host may share memory.
void inject_after_messages_and_kill(const Fabric& fabric, int messages) {
  SCOPED_TRACE(messages);
  Injected injected(fabric);
  DatagramEnd end(fabric, injected.options());
  child::Running peer("echo", peer_is(fabric.target(), end.address()));
  ASSERT_TRUE(end.meet_child([&] { return peer.ended(); }));
  Buffer bytes(fabric, 8);
  for (int i = 0; i < messages; ++i) {
    Context sent, returned;
    ASSERT_EQ(end->trecv(bytes, 8, 3, 0, &returned), 0);
    ASSERT_EQ(end->tsend(bytes, 8, 2, &sent), 0);
    ASSERT_TRUE(end->rx().wait().ok());
    ASSERT_TRUE(end->tx().wait().ok());
  }
  peer.stop();
  injected.post(*end, kAnywhere);
  injected.fill(*end);
  peer.kill();
  injected.expect_failures(*end);
}

}  // namespace

// The process that dies makes no progress any more when the operations are posted.
TEST_P(TransferErrors, InjectedOperationsNameTheirKindAfterTheProcessIsKilled) {
  if (target().ep_type == FI_EP_DGRAM) GTEST_SKIP() << "plain datagrams have no acknowledgement";
  NEEDS(completing_at(FI_DELIVERY_COMPLETE), "FI_DELIVERY_COMPLETE");
  const Fabric fabric(target(), completing_at(FI_DELIVERY_COMPLETE));
  if (target().connected()) return inject_over_a_connection_and_kill(fabric);
  for (const int messages : {0, 20}) inject_after_messages_and_kill(fabric, messages);
}

}  // namespace transfer_errors
