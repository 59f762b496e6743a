// SPDX-License-Identifier: BSD-2-Clause
// A blocked wait uses no processor time, for every kind of wait.
#include <rdma/fi_domain.h>
#include <sys/resource.h>

#include <memory>
#include <thread>
#include <vector>

#include "fixture/member.h"
#include "fixture/mortal.h"
#include "fixture/no_descriptors.h"

namespace idle_cpu {

CONFORMANCE_TOPIC(IdleCpu);

namespace {

constexpr int kIdleMs = 400;
constexpr int64_t kAllowedUs =
    40'000;  // 10 %, so that a loaded machine does not fail a correct wait; a spin takes 100 %
// A wait that nothing can wake looks 1000 times a second, which takes 6 % with AddressSanitizer on an idle machine.
constexpr int64_t kAllowedWithoutDescriptorsUs = 160'000;

int64_t processor_us() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);  // service threads included
  return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1'000'000 + usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
}

template <class Wait>
void expect_idle(const char* what, Wait wait, int64_t allowed_us = kAllowedUs) {
  const int64_t before = processor_us();
  const auto start = Clock::now();
  wait();
  EXPECT_GE(elapsed_ms(start), kIdleMs - 1) << what << " did not wait";
  EXPECT_LE(processor_us() - before, allowed_us) << what << ": microseconds of processor time in " << kIdleMs << " ms";
}

NodeOptions waiting(fi_wait_obj wait_obj) {
  NodeOptions options;
  options.tx_cq.wait_obj = options.rx_cq.wait_obj = options.eq.wait_obj = wait_obj;
  return options;
}

}  // namespace

TEST_P(IdleCpu, CompletionQueueOfAConnection) {
  Fabric fabric(target());
  for (fi_wait_obj wait_obj : {FI_WAIT_UNSPEC, FI_WAIT_FD}) {
    Pair pair(fabric, waiting(wait_obj));
    expect_exchange(pair);
    expect_idle("fi_cq_sread", [&] {
      fi_cq_tagged_entry entry;
      EXPECT_EQ(fi_cq_sread(pair.a().rx().get(), &entry, 1, nullptr, kIdleMs), -FI_EAGAIN);
    });
  }
}

// Nothing can wake the thread then, so it looks from time to time.
TEST_P(IdleCpu, CompletionQueueOfAProcessWithoutAFreeDescriptor) {
  if (target().provider.starts_with("verbs")) GTEST_SKIP() << "a device's objects need descriptors";
  Fabric fabric(target());
  Pair pair(fabric, waiting(FI_WAIT_FD));
  ssize_t outcome = 0;
  const auto wait = [&] {
    const NoDescriptors none;  // ends before a failure is printed: sanitizers need descriptors for that
    fi_cq_tagged_entry entry;
    outcome = fi_cq_sread(pair.a().rx().get(), &entry, 1, nullptr, kIdleMs);
  };
  expect_idle("fi_cq_sread", wait, kAllowedWithoutDescriptorsUs);
  EXPECT_EQ(outcome, -FI_EAGAIN);
}

// The receiver lives in another domain, whose progress nobody makes.
TEST_P(IdleCpu, CompletionQueueOfASenderWhosePeerMakesNoProgress) {
  RELIABLE_DATAGRAMS_ONLY();
  constexpr size_t kLength = 12'000, kMost = 4000;
  Fabric ours(target()), theirs(target());
  DatagramEnd sender(ours, waiting(FI_WAIT_FD)), receiver(theirs);
  sender->peer = sender.insert(receiver.address());
  Buffer out(ours, kLength), in(theirs, kLength);
  Context first, arrived;
  ASSERT_EQ(receiver->recv(in, kLength, &arrived), 0);
  ASSERT_EQ(sender->send(out, kLength, &first), 0);
  ASSERT_TRUE(receiver->rx().wait().ok());
  ASSERT_TRUE(sender->tx().wait().ok());
  std::vector<Context> contexts(kMost);
  size_t posted = 0;
  while (posted < kMost && fi_send(sender->ep(), out.data(), kLength, out.desc(), sender->peer, &contexts[posted]) == 0)
    ++posted;
  fi_cq_tagged_entry entry;
  while (fi_cq_sread(sender->tx().get(), &entry, 1, nullptr, 20) == 1) continue;
  expect_idle("fi_cq_sread",
              [&] { EXPECT_EQ(fi_cq_sread(sender->tx().get(), &entry, 1, nullptr, kIdleMs), -FI_EAGAIN); });
}

TEST_P(IdleCpu, EventQueueOfAListener) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Listener listener(fabric);
  expect_idle("fi_eq_sread", [&] {
    uint32_t type = 0;
    char entry[256];
    EXPECT_EQ(fi_eq_sread(listener.eq().get(), &type, entry, sizeof entry, kIdleMs, 0), -FI_EAGAIN);
  });
}

TEST_P(IdleCpu, EventQueueOfAPendingConnect) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Listener listener(fabric);
  Node client(fabric, waiting(FI_WAIT_UNSPEC));
  ASSERT_EQ(client.connect(listener.address()), 0);
  const InfoPtr request = listener.next_request();
  expect_idle("fi_eq_sread", [&] {
    uint32_t type = 0;
    char entry[256];
    EXPECT_EQ(fi_eq_sread(client.eq().get(), &type, entry, sizeof entry, kIdleMs, 0), -FI_EAGAIN);
  });
}

TEST_P(IdleCpu, CounterOfAConnection) {
  Fabric fabric(target());
  fi_cntr_attr attr{};
  attr.wait_obj = FI_WAIT_UNSPEC;
  const auto counter =
      opened<fid_cntr>("fi_cntr_open", [&](fid_cntr** c) { return fi_cntr_open(fabric.domain(), &attr, c, nullptr); });
  NodeOptions options;
  options.configure = [&](fid_ep* ep) { ASSERT_EQ(fi_ep_bind(ep, &counter->fid, FI_RECV), 0); };
  Pair pair(fabric, options, {});
  expect_idle("fi_cntr_wait", [&] { EXPECT_EQ(fi_cntr_wait(counter.get(), 1, kIdleMs), -FI_ETIMEDOUT); });
}

TEST_P(IdleCpu, UnreadMessagesDoNotSpinAnotherWait) {
  if (target().ep_type == FI_EP_DGRAM) GTEST_SKIP() << "datagrams without a buffer are lost";
  Fabric fabric(target());
  Pair pair(fabric, waiting(FI_WAIT_FD));
  Buffer out(fabric, 1 << 20);
  Context sent;
  ASSERT_EQ(pair.a().send(out, out.size(), &sent), 0);  // no receive is posted: the data stays in the socket
  pair.b().rx().stays_silent(milliseconds(50));
  expect_idle("fi_cq_sread over unread data", [&] {
    fi_cq_tagged_entry entry;
    EXPECT_EQ(fi_cq_sread(pair.b().rx().get(), &entry, 1, nullptr, kIdleMs), -FI_EAGAIN);
  });
}

// Reading a queue makes progress for all endpoints of the domain, but its system calls do not multiply.
TEST_P(IdleCpu, ReadMakesAsFewCallsForManyEndpointsAsForOne) {
  if (target().connected() || !mortal::polls()) GTEST_SKIP() << "connections have no progress in common";
  if (target().provider.starts_with("verbs")) GTEST_SKIP() << "devices are read without system calls";
  Fabric fabric(target());
  std::vector<std::unique_ptr<DatagramEnd>> ends;
  constexpr size_t kEnds = 40, kReads = 2000, kCallsPerRead = 4;
  for (size_t i = 0; i < kEnds; ++i) {
    ends.push_back(std::make_unique<DatagramEnd>(fabric));
    if (i == 0) continue;
    (*ends[i])->peer = ends[i]->insert(ends[0]->address());
    expect_round_trip(**ends[i], **ends[0]);
  }
  const auto read = [&] { EXPECT_EQ(fi_cq_read((*ends[1])->rx().get(), nullptr, 0), -FI_EAGAIN); };
  for (size_t i = 0; i < kReads; ++i) read();  // the last connections come to rest
  const unsigned before = *mortal::polls();
  for (size_t i = 0; i < kReads; ++i) read();
  EXPECT_LE(*mortal::polls() - before, kReads * kCallsPerRead);
}

TEST_P(IdleCpu, OpenFabricWithoutWaiters) {
  Fabric fabric(target());
  Pair pair(fabric);
  expect_exchange(pair);
  expect_idle("a process that does nothing", [&] { std::this_thread::sleep_for(milliseconds(kIdleMs)); });
}

}  // namespace idle_cpu
