// SPDX-License-Identifier: BSD-2-Clause
// Blocking reads of a completion queue: timeouts, thresholds, signals; fi_cq(3).
#include <atomic>
#include <thread>

#include "fixture/node.h"
#include "fixture/signals.h"

namespace completion_waits {

CONFORMANCE_TOPIC(CompletionWaits);

namespace {

NodeOptions with_wait(fi_wait_obj wait_obj, fi_cq_wait_cond condition = FI_CQ_COND_NONE) {
  NodeOptions options;
  options.tx_cq.wait_obj = options.rx_cq.wait_obj = wait_obj;
  options.tx_cq.wait_cond = options.rx_cq.wait_cond = condition;
  return options;
}

ssize_t sread(CompletionQueue& cq, fi_cq_tagged_entry* entries, size_t count, int timeout_ms,
              const void* condition = nullptr) {
  return fi_cq_sread(cq.get(), entries, count, condition, timeout_ms);
}

}  // namespace

TEST_P(CompletionWaits, SreadTimesOutOnAnAbsoluteDeadline) {
  Fabric fabric(target());
  for (fi_wait_obj wait_obj : {FI_WAIT_UNSPEC, FI_WAIT_FD}) {
    Pair pair(fabric, with_wait(wait_obj));
    fi_cq_tagged_entry entry;
    const auto start = Clock::now();
    EXPECT_EQ(sread(pair.a().rx(), &entry, 1, 100), -FI_EAGAIN);
    EXPECT_GE(elapsed_ms(start), 99);
    EXPECT_LE(elapsed_ms(start), kPromptMs);
    EXPECT_LE(quickest_ms([&] { EXPECT_EQ(sread(pair.a().rx(), &entry, 1, 0), -FI_EAGAIN); }), 50);
  }
}

TEST_P(CompletionWaits, TrafficWithoutCompletionsDoesNotExtendSread) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  NodeOptions selective = with_wait(FI_WAIT_UNSPEC);
  selective.rx_flags = FI_SELECTIVE_COMPLETION;
  Pair pair(fabric, with_wait(FI_WAIT_UNSPEC), selective);
  std::atomic<bool> stop{false};
  Buffer in(fabric, 8);
  std::thread sender([&] {  // arrivals wake the receiver, but produce no completion
    const char byte = 0;
    while (!stop) {
      fi_inject(pair.a().ep(), &byte, 1, pair.a().peer);
      fi_cq_read(pair.a().tx().get(), nullptr, 0);
      std::this_thread::sleep_for(milliseconds(10));
    }
  });
  const iovec iov{in.data(), in.size()};
  void* desc = in.desc();
  fi_msg message{};
  message.msg_iov = &iov;
  message.desc = &desc;
  message.iov_count = 1;
  for (int i = 0; i < 100; ++i) ASSERT_EQ(fi_recvmsg(pair.b().ep(), &message, 0), 0);
  fi_cq_tagged_entry entry;
  const auto start = Clock::now();
  EXPECT_EQ(sread(pair.b().rx(), &entry, 1, 200), -FI_EAGAIN);
  EXPECT_GE(elapsed_ms(start), 199);
  EXPECT_LE(elapsed_ms(start), kPromptMs);
  stop = true;
  sender.join();
}

TEST_P(CompletionWaits, SreadIsWokenByAMessage) {
  Fabric fabric(target());
  for (fi_wait_obj wait_obj : {FI_WAIT_UNSPEC, FI_WAIT_FD}) {
    Pair pair(fabric, with_wait(wait_obj));
    Buffer in(fabric, 64), out(fabric, 64);
    Context received, sent;
    ASSERT_EQ(pair.b().recv(in, 64, &received), 0);
    std::thread sender([&] {
      std::this_thread::sleep_for(milliseconds(50));
      pair.a().send(out, 8, &sent);
      fi_cq_tagged_entry entry;
      EXPECT_EQ(sread(pair.a().tx(), &entry, 1, kWaitMs), 1);
    });
    fi_cq_tagged_entry entry{};
    const auto start = Clock::now();
    EXPECT_EQ(sread(pair.b().rx(), &entry, 1, kWaitMs), 1);
    EXPECT_EQ(entry.op_context, &received);
    EXPECT_LT(elapsed_ms(start), kPromptMs);
    sender.join();
  }
}

TEST_P(CompletionWaits, NegativeTimeoutWaitsForAnEntry) {
  Fabric fabric(target());
  Pair pair(fabric, with_wait(FI_WAIT_UNSPEC));
  Buffer in(fabric, 64), out(fabric, 64);
  Context received, sent;
  ASSERT_EQ(pair.b().recv(in, 64, &received), 0);
  std::thread sender([&] {
    std::this_thread::sleep_for(milliseconds(100));
    pair.a().send(out, 8, &sent);
    fi_cq_tagged_entry entry;
    EXPECT_EQ(sread(pair.a().tx(), &entry, 1, -1), 1);
  });
  fi_cq_tagged_entry entry{};
  EXPECT_EQ(sread(pair.b().rx(), &entry, 1, -1), 1);
  sender.join();
}

TEST_P(CompletionWaits, SreadfromWaitsAsWell) {
  Fabric fabric(target());
  Pair pair(fabric, with_wait(FI_WAIT_UNSPEC));
  fi_cq_tagged_entry entry{};
  fi_addr_t source = 0;
  const auto start = Clock::now();
  EXPECT_EQ(fi_cq_sreadfrom(pair.b().rx().get(), &entry, 1, &source, nullptr, 50), -FI_EAGAIN);
  EXPECT_GE(elapsed_ms(start), 49);
  EXPECT_LE(elapsed_ms(start), kPromptMs);
}

TEST_P(CompletionWaits, ThresholdGathersCompletions) {
  Fabric fabric(target());
  Pair pair(fabric, with_wait(FI_WAIT_UNSPEC, FI_CQ_COND_THRESHOLD));
  constexpr size_t kCount = 4;
  Buffer in(fabric, 64), out(fabric, 64);
  Context received[kCount], sent[kCount];
  for (Context& context : received) ASSERT_EQ(pair.b().recv(in, 64, &context), 0);
  std::thread sender([&] {
    for (Context& context : sent) {
      pair.a().send(out, 8, &context);
      fi_cq_tagged_entry entry;
      EXPECT_EQ(sread(pair.a().tx(), &entry, 1, kWaitMs, nullptr), 1);
      std::this_thread::sleep_for(milliseconds(20));
    }
  });
  // "Applications should not rely on the condition necessarily being true": fewer entries are allowed, waiting for ever
  // is not.
  fi_cq_tagged_entry entries[kCount]{};
  size_t total = 0;
  while (total < kCount) {
    const size_t wanted = kCount - total;
    const ssize_t rc = sread(pair.b().rx(), entries + total, wanted, kWaitMs, reinterpret_cast<const void*>(wanted));
    ASSERT_GT(rc, 0);
    total += static_cast<size_t>(rc);
  }
  sender.join();
  for (size_t i = 0; i < kCount; ++i) EXPECT_EQ(entries[i].op_context, &received[i]);
}

TEST_P(CompletionWaits, TimeoutBelowTheThresholdReturnsTheEntries) {
  Fabric fabric(target());
  Pair pair(fabric, with_wait(FI_WAIT_UNSPEC, FI_CQ_COND_THRESHOLD));
  Buffer in(fabric, 64), out(fabric, 64);
  Context received, sent;
  ASSERT_EQ(pair.b().recv(in, 64, &received), 0);
  ASSERT_EQ(pair.a().send(out, 8, &sent), 0);
  ASSERT_TRUE(pair.a().tx().wait().ok());
  fi_cq_tagged_entry entries[4]{};
  const size_t threshold = 4;
  EXPECT_EQ(sread(pair.b().rx(), entries, 4, 200, reinterpret_cast<const void*>(threshold)), 1);
  EXPECT_EQ(entries[0].op_context, &received);
}

TEST_P(CompletionWaits, SignalUnblocksAWaitingThread) {
  Fabric fabric(target());
  for (fi_wait_obj wait_obj : {FI_WAIT_UNSPEC, FI_WAIT_FD}) {
    Pair pair(fabric, with_wait(wait_obj));
    std::thread waker([&] {
      std::this_thread::sleep_for(milliseconds(80));
      EXPECT_EQ(fi_cq_signal(pair.a().rx().get()), 0);
    });
    fi_cq_tagged_entry entry;
    const auto start = Clock::now();
    EXPECT_EQ(sread(pair.a().rx(), &entry, 1, kWaitMs), -FI_EAGAIN);
    EXPECT_LT(elapsed_ms(start), kPromptMs);
    waker.join();
  }
}

// The manual forbids it to the application, but programs do it.
TEST_P(CompletionWaits, SreadWaitsWithoutAWaitObjectToo) {
  Fabric fabric(target());
  Pair pair(fabric, with_wait(FI_WAIT_NONE));
  fi_cq_tagged_entry entry;
  auto start = Clock::now();
  EXPECT_EQ(sread(pair.b().rx(), &entry, 1, 100), -FI_EAGAIN);
  EXPECT_GE(elapsed_ms(start), 99);

  Buffer in(fabric, 64), out(fabric, 64);
  Context received, sent;
  ASSERT_EQ(pair.b().recv(in, 64, &received), 0);
  std::thread sender([&] {
    std::this_thread::sleep_for(milliseconds(50));
    EXPECT_EQ(pair.a().send(out, 8, &sent), 0);
    EXPECT_TRUE(pair.a().tx().wait().ok());
  });
  start = Clock::now();
  EXPECT_EQ(sread(pair.b().rx(), &entry, 1, kWaitMs), 1);
  EXPECT_EQ(entry.op_context, &received);
  sender.join();

  std::thread waker([&] {
    std::this_thread::sleep_for(milliseconds(50));
    EXPECT_EQ(fi_cq_signal(pair.b().rx().get()), 0);
  });
  EXPECT_EQ(sread(pair.b().rx(), &entry, 1, kWaitMs), -FI_EAGAIN);
  EXPECT_LT(elapsed_ms(start), kPromptMs);
  waker.join();
}

TEST_P(CompletionWaits, SreadAnswersErrorAvailable) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Pair pair(fabric, with_wait(FI_WAIT_UNSPEC));
  Buffer in(fabric, 64);
  Context received;
  ASSERT_EQ(pair.a().recv(in, 64, &received), 0);
  pair.a().cancel_receives({&received});
  fi_cq_tagged_entry entry;
  EXPECT_EQ(sread(pair.a().rx(), &entry, 1, kWaitMs), -FI_EAVAIL);
  EXPECT_EQ(pair.a().rx().read().err(), FI_ECANCELED);
}

namespace {

void expect_that_a_signal_ends_it(const Target& target, std::initializer_list<fi_wait_obj> wait_objects) {
  Fabric fabric(target);
  for (const fi_wait_obj wait_obj : wait_objects) {
    Pair pair(fabric, with_wait(wait_obj));
    const Signals signals;
    fi_cq_tagged_entry entry;
    EXPECT_EQ(sread(pair.a().rx(), &entry, 1, -1), -FI_EAGAIN);
  }
}

}  // namespace

TEST_P(CompletionWaits, ASignalEndsAnEndlessWait) {
  expect_that_a_signal_ends_it(target(), {FI_WAIT_UNSPEC, FI_WAIT_FD});
}

TEST_P(CompletionWaits, ASignalEndsAnEndlessWaitThatPolls) {
  expect_that_a_signal_ends_it(target(), {FI_WAIT_NONE, FI_WAIT_YIELD});
}

}  // namespace completion_waits
