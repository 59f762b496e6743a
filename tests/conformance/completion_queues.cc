// SPDX-License-Identifier: BSD-2-Clause
// Completion queues: errors, cancelling, selective completion, sizes, sharing; fi_cq(3), fi_endpoint(3).
#include <set>

#include "fixture/counter.h"
#include "fixture/driver.h"
#include "fixture/node.h"

namespace completion_queues {

CONFORMANCE_TOPIC(CompletionQueues);

namespace {

// An error entry in pair.a().rx(), not read yet.
struct CanceledReceive {
  explicit CanceledReceive(const Target& target) : fabric(target), pair(fabric), in(fabric, 64) {
    require_ok(pair.a().recv(in, 64, &received), "fi_recv");
    pair.a().cancel_receives({&received});
  }

  Fabric fabric;
  Pair pair;
  Buffer in;
  Context received;
};

}  // namespace

TEST_P(CompletionQueues, EmptyQueueAnswersAgain) {
  Fabric fabric(target());
  Pair pair(fabric);
  EXPECT_EQ(pair.a().rx().read().rc, -FI_EAGAIN);
  fi_cq_err_entry entry{};
  EXPECT_EQ(fi_cq_readerr(pair.a().rx().get(), &entry, 0), -FI_EAGAIN);
}

TEST_P(CompletionQueues, CanceledReceiveGivesAnErrorEntry) {
  CanceledReceive canceled(target());
  auto& [fabric, pair, in, received] = canceled;
  const Completion completion = pair.a().rx().wait();
  EXPECT_EQ(completion.err(), FI_ECANCELED) << completion;
  EXPECT_EQ(completion.context(), &received);
  EXPECT_EQ(completion.error.flags & (FI_MSG | FI_RECV), FI_MSG | FI_RECV);
  EXPECT_TRUE(pair.a().rx().stays_silent(milliseconds(20)));
}

TEST_P(CompletionQueues, CancelPicksTheOperationOfTheContext) {
  Fabric fabric(target());
  Pair pair(fabric);
  Buffer in(fabric, 64), out(fabric, 64);
  Context received[3], sent;
  for (Context& context : received) ASSERT_EQ(pair.b().recv(in, 64, &context), 0);
  CANCEL_OR_SKIP(pair.b().fid(), &received[1]);
  EXPECT_EQ(pair.b().rx().wait().context(), &received[1]);
  for (int i : {0, 2}) {
    ASSERT_EQ(pair.a().send(out, 8, &sent), 0);
    const Completion completion = pair.b().rx().wait();
    EXPECT_TRUE(completion.ok()) << completion;
    EXPECT_EQ(completion.context(), &received[i]);
  }
}

TEST_P(CompletionQueues, CancelingACompletedOperationChangesNothing) {
  Fabric fabric(target());
  const auto counter = open_counter(fabric);
  Pair pair(fabric, {}, counting(counter.get(), FI_RECV));
  Buffer in(fabric, 64), out(fabric, 64);
  Context received, sent, unknown;
  ASSERT_EQ(pair.b().recv(in, 64, &received), 0);
  ASSERT_EQ(pair.a().send(out, 8, &sent), 0);
  ASSERT_TRUE(pair.a().tx().wait().ok());
  ASSERT_TRUE(reaches(counter.get(), 1)) << "the message has arrived";
  fi_cancel(pair.b().fid(), &received);
  fi_cancel(pair.b().fid(), &unknown);
  const Completion completion = pair.b().rx().wait();
  EXPECT_TRUE(completion.ok()) << completion;
  EXPECT_EQ(completion.context(), &received);
  EXPECT_TRUE(pair.b().rx().stays_silent(milliseconds(20)));
}

TEST_P(CompletionQueues, EveryErrorOfManyIsKept) {
  Fabric fabric(target());
  Pair pair(fabric);
  constexpr size_t kCount = 32;
  Buffer in(fabric, 64);
  Context received[kCount];
  for (Context& context : received) ASSERT_EQ(pair.a().recv(in, 64, &context), 0);
  std::vector<void*> contexts;
  for (Context& context : received) contexts.push_back(&context);
  pair.a().cancel_receives(contexts.data(), kCount);
  for (size_t i = 0; i < kCount; ++i) {
    const Completion completion = pair.a().rx().wait();
    EXPECT_EQ(completion.err(), FI_ECANCELED);
    EXPECT_EQ(completion.context(), &received[i]);
  }
}

TEST_P(CompletionQueues, ErrorEntryOfAnOldProgramIsNotOverrun) {
  CanceledReceive canceled(target());
  auto& [fabric, pair, in, received] = canceled;
  struct {
    fi_cq_err_entry entry;
    char guard[64];
  } room;
  std::memset(&room, 0, sizeof room);
  std::memset(room.guard, '#', sizeof room.guard);
  const auto deadline = after(kPatience);
  ssize_t rc;
  while ((rc = fi_cq_readerr(pair.a().rx().get(), &room.entry, 0)) == -FI_EAGAIN && Clock::now() < deadline)
    driver::poke_and_rest();
  ASSERT_EQ(rc, 1);
  EXPECT_EQ(room.entry.op_context, &received);
  EXPECT_EQ(std::string(room.guard, sizeof room.guard), std::string(sizeof room.guard, '#'));
}

TEST_P(CompletionQueues, StrerrorFillsTheCallersBuffer) {
  CanceledReceive canceled(target());
  auto& [fabric, pair, in, received] = canceled;
  const Completion completion = pair.a().rx().wait();
  ASSERT_EQ(completion.rc, -FI_EAVAIL);
  char text[256] = "";
  const char* sentence = fi_cq_strerror(pair.a().rx().get(), completion.error.prov_errno, nullptr, text, sizeof text);
  ASSERT_NE(sentence, nullptr);
  EXPECT_STRNE(sentence, "");
  EXPECT_NE(fi_cq_strerror(pair.a().rx().get(), completion.error.prov_errno, nullptr, nullptr, 0), nullptr);
}

TEST_P(CompletionQueues, OneQueueServesBothDirectionsAndManyEndpoints) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  CompletionQueue shared(fabric);
  Listener listener(fabric);
  EventQueue eq(fabric);
  std::vector<Handle<fid_ep>> eps;
  const auto endpoint = [&](fi_info* info) {
    eps.push_back(
        opened<fid_ep>("fi_endpoint", [&](fid_ep** e) { return fi_endpoint(fabric.domain(), info, e, nullptr); }));
    require_ok(fi_ep_bind(eps.back().get(), eq.fid(), 0), "fi_ep_bind");
    require_ok(fi_ep_bind(eps.back().get(), shared.fid(), FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    return eps.back().get();
  };
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(fi_connect(endpoint(fabric.info()), listener.address().get(), nullptr, 0), 0);
    const InfoPtr request = listener.next_request();
    ASSERT_EQ(fi_accept(endpoint(request.get()), nullptr, 0), 0);
    for (int side = 0; side < 2; ++side) ASSERT_EQ(eq.wait().type, static_cast<int>(FI_CONNECTED));
  }
  Buffer buffer(fabric, 64);
  Context contexts[6];
  std::set<void*> expected, seen;
  for (size_t i = 0; i < 6; i += 2) {
    ASSERT_EQ(fi_recv(eps[i + 1].get(), buffer.data(), 64, buffer.desc(), 0, &contexts[i + 1]), 0);
    ASSERT_EQ(fi_send(eps[i].get(), buffer.data(), 8, buffer.desc(), 0, &contexts[i]), 0);
    expected.insert({&contexts[i], &contexts[i + 1]});
  }
  for (int i = 0; i < 6; ++i) {
    const Completion completion = shared.wait();
    ASSERT_TRUE(completion.ok()) << completion;
    EXPECT_TRUE(seen.insert(completion.context()).second) << "each operation once";
  }
  EXPECT_EQ(seen, expected);
}

TEST_P(CompletionQueues, SelectiveCompletionSuppressesUnrequestedEntries) {
  Fabric fabric(target());
  NodeOptions selective;
  selective.tx_flags = selective.rx_flags = FI_SELECTIVE_COMPLETION;
  Pair pair(fabric, selective);
  Buffer in(fabric, 64), out(fabric, 64);
  Context quiet, loud, loud_receive;
  const iovec in_iov{in.data(), in.size()}, out_iov{out.data(), 8};
  void *in_desc = in.desc(), *out_desc = out.desc();
  fi_msg receive{&in_iov, &in_desc, 1, FI_ADDR_UNSPEC, &loud_receive, 0};
  fi_msg send{&out_iov, &out_desc, 1, pair.a().peer, &loud, 0};
  ASSERT_EQ(pair.b().recv(in, 64, &quiet), 0);
  ASSERT_EQ(retry([&] { return fi_recvmsg(pair.b().ep(), &receive, FI_COMPLETION); }), 0);
  ASSERT_EQ(pair.a().send(out, 8, &quiet), 0);
  ASSERT_EQ(retry([&] { return fi_sendmsg(pair.a().ep(), &send, FI_COMPLETION); }), 0);
  EXPECT_EQ(pair.a().tx().wait().context(), &loud);
  EXPECT_EQ(pair.b().rx().wait().context(), &loud_receive);
  EXPECT_TRUE(pair.a().tx().stays_silent(milliseconds(20)));
  EXPECT_TRUE(pair.b().rx().stays_silent(milliseconds(20)));
}

TEST_P(CompletionQueues, ErrorsAreReportedWithoutARequestedCompletion) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  NodeOptions selective;
  selective.tx_flags = selective.rx_flags = FI_SELECTIVE_COMPLETION;
  Pair pair(fabric, selective);
  Buffer in(fabric, 64);
  Context quiet;
  ASSERT_EQ(pair.a().recv(in, 64, &quiet), 0);
  ASSERT_EQ(fi_shutdown(pair.a().ep(), 0), 0);
  EXPECT_EQ(pair.a().rx().read().err(), FI_ECANCELED);
}

TEST_P(CompletionQueues, QueueHoldsAtLeastTheRequestedNumber) {
  Fabric fabric(target());
  const size_t count = std::min<size_t>(200, fabric.info()->rx_attr->size);
  NodeOptions options;
  options.rx_cq.size = count;
  Pair pair(fabric, options);
  Buffer in(fabric, 64), out(fabric, 64);
  std::vector<Context> received(count);
  Context sent;
  for (Context& context : received) ASSERT_EQ(pair.b().recv(in, 64, &context), 0);
  for (size_t i = 0; i < count; ++i) {
    ASSERT_EQ(pair.a().send(out, 8, &sent), 0);
    ASSERT_TRUE(pair.a().tx().wait().ok());
  }
  for (Context& context : received) ASSERT_EQ(pair.b().rx().wait().context(), &context);
}

}  // namespace completion_queues
