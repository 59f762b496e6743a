// SPDX-License-Identifier: BSD-2-Clause
// Counters: values, waiting, errors, and the operations of bound endpoints; fi_cntr(3), fi_ep_bind of fi_endpoint(3).
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>

#include "fixture/counter.h"
#include "fixture/driver.h"
#include "fixture/member.h"
#include "fixture/parameter.h"
#include "fixture/signals.h"

namespace counters {

CONFORMANCE_TOPIC(Counters);

TEST_P(Counters, StartAtZero) {
  Fabric fabric(target());
  const auto counter = open_counter(fabric);
  EXPECT_EQ(fi_cntr_read(counter.get()), 0u);
  EXPECT_EQ(fi_cntr_readerr(counter.get()), 0u);
}

TEST_P(Counters, AddAndSetChangeTheValue) {
  Fabric fabric(target());
  const auto counter = open_counter(fabric);
  ASSERT_EQ(fi_cntr_add(counter.get(), 5), 0);
  ASSERT_EQ(fi_cntr_add(counter.get(), 7), 0);
  EXPECT_TRUE(reaches(counter.get(), 12));
  ASSERT_EQ(fi_cntr_set(counter.get(), 3), 0);
  EXPECT_TRUE(reaches(counter.get(), 3));
  EXPECT_EQ(fi_cntr_readerr(counter.get()), 0u);
}

TEST_P(Counters, ErrorValueIsSeparate) {
  Fabric fabric(target());
  const auto counter = open_counter(fabric);
  ASSERT_EQ(fi_cntr_adderr(counter.get(), 2), 0);
  ASSERT_EQ(fi_cntr_adderr(counter.get(), 3), 0);
  EXPECT_TRUE(error_reaches(counter.get(), 5));
  EXPECT_EQ(fi_cntr_read(counter.get()), 0u);
  ASSERT_EQ(fi_cntr_seterr(counter.get(), 1), 0);
  EXPECT_TRUE(error_reaches(counter.get(), 1));
}

TEST_P(Counters, WaitReturnsAtOnceWhenTheThresholdIsReached) {
  Fabric fabric(target());
  const auto counter = open_counter(fabric);
  ASSERT_EQ(fi_cntr_set(counter.get(), 10), 0);
  EXPECT_EQ(fi_cntr_wait(counter.get(), 10, kWaitMs), 0);
  EXPECT_EQ(fi_cntr_wait(counter.get(), 4, -1), 0);
}

TEST_P(Counters, WaitTimesOutOnAnAbsoluteDeadline) {
  Fabric fabric(target());
  const auto counter = open_counter(fabric);
  const auto start = Clock::now();
  EXPECT_EQ(fi_cntr_wait(counter.get(), 1, 100), -FI_ETIMEDOUT);
  EXPECT_GE(elapsed_ms(start), 99);
  EXPECT_LE(elapsed_ms(start), kPromptMs);
}

TEST_P(Counters, ASignalEndsAnEndlessWait) {
  Fabric fabric(target());
  const auto counter = open_counter(fabric);
  const Signals signals;
  EXPECT_EQ(fi_cntr_wait(counter.get(), 1, -1), -FI_EINTR);
}

TEST_P(Counters, ASignalEndsAnEndlessWaitThatPolls) {
  Fabric fabric(target());
  for (fi_wait_obj wait_obj : {FI_WAIT_NONE, FI_WAIT_YIELD}) {
    const auto counter = open_counter(fabric, wait_obj);
    const Signals signals;
    EXPECT_EQ(fi_cntr_wait(counter.get(), 1, -1), -FI_EINTR);
  }
}

TEST_P(Counters, IncrementsBelowTheThresholdDoNotExtendTheWait) {
  Fabric fabric(target());
  const auto counter = open_counter(fabric);
  std::atomic<bool> stop{false};
  std::thread adder([&] {
    // Lasts much longer than the wait may take, so that a time-out which restarts with each increment is detected.
    for (const auto end = after(milliseconds(3 * kPromptMs)); !stop && Clock::now() < end;) {
      std::this_thread::sleep_for(milliseconds(20));
      fi_cntr_add(counter.get(), 1);
    }
  });
  const auto start = Clock::now();
  EXPECT_EQ(fi_cntr_wait(counter.get(), 1'000'000, 150), -FI_ETIMEDOUT);
  EXPECT_GE(elapsed_ms(start), 149);
  EXPECT_LE(elapsed_ms(start), kPromptMs);
  stop = true;
  adder.join();
}

TEST_P(Counters, WaitIsWokenWhenTheThresholdIsReached) {
  Fabric fabric(target());
  const auto counter = open_counter(fabric);
  std::thread adder([&] {
    for (int i = 0; i < 4; ++i) {
      std::this_thread::sleep_for(milliseconds(20));
      fi_cntr_add(counter.get(), 1);
    }
  });
  const auto start = Clock::now();
  EXPECT_EQ(fi_cntr_wait(counter.get(), 4, kWaitMs), 0);
  EXPECT_GE(fi_cntr_read(counter.get()), 4u);
  EXPECT_LT(elapsed_ms(start), kPromptMs);
  adder.join();
}

TEST_P(Counters, AnErrorUnblocksTheWait) {
  Fabric fabric(target());
  const auto counter = open_counter(fabric);
  std::thread adder([&] {
    std::this_thread::sleep_for(milliseconds(50));
    fi_cntr_adderr(counter.get(), 1);
  });
  const auto start = Clock::now();
  const int rc = fi_cntr_wait(counter.get(), 5, kWaitMs);
  EXPECT_LT(rc, 0);
  EXPECT_NE(rc, -FI_ETIMEDOUT);
  EXPECT_LT(elapsed_ms(start), kPromptMs);
  adder.join();
}

// The manual forbids it to the application, but programs do it.
TEST_P(Counters, WaitWorksWithoutAWaitObjectToo) {
  Fabric fabric(target());
  const auto counter = open_counter(fabric, FI_WAIT_NONE);
  EXPECT_EQ(fi_cntr_wait(counter.get(), 0, kWaitMs), 0);
  auto start = Clock::now();
  EXPECT_EQ(fi_cntr_wait(counter.get(), 1, 100), -FI_ETIMEDOUT);
  EXPECT_GE(elapsed_ms(start), 99);
  std::thread adder([&] {
    std::this_thread::sleep_for(milliseconds(50));
    fi_cntr_add(counter.get(), 1);
  });
  start = Clock::now();
  EXPECT_EQ(fi_cntr_wait(counter.get(), 1, kWaitMs), 0);
  EXPECT_LT(elapsed_ms(start), kPromptMs);
  adder.join();
}

TEST_P(Counters, SendsAndReceivesAreCounted) {
  Fabric fabric(target());
  const auto sends = open_counter(fabric), receives = open_counter(fabric);
  Pair pair(fabric, counting(sends.get(), FI_SEND), counting(receives.get(), FI_RECV));
  for (uint64_t i = 1; i <= 5; ++i) {
    expect_round_trip(pair.a(), pair.b());
    EXPECT_TRUE(reaches(sends.get(), i));
    EXPECT_TRUE(reaches(receives.get(), i));
  }
  expect_round_trip(pair.b(), pair.a());
  EXPECT_EQ(fi_cntr_read(sends.get()), 5u) << "receives of that endpoint are not sends";
}

TEST_P(Counters, InjectedAndUnreportedOperationsAreCounted) {
  Fabric fabric(target());
  const auto sends = open_counter(fabric);
  NodeOptions options = counting(sends.get(), FI_SEND);
  options.tx_flags = FI_SELECTIVE_COMPLETION;
  Pair pair(fabric, options, {});
  Buffer buffer(fabric, 64);
  Context context;
  for (int i = 0; i < 4; ++i) ASSERT_EQ(pair.b().recv(buffer, 64, &context), 0);
  for (int i = 0; i < 2; ++i)
    ASSERT_EQ(retry([&] { return fi_inject(pair.a().ep(), buffer.data(), 8, pair.a().peer); }), 0);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(pair.a().send(buffer, 8, &context), 0);
  EXPECT_TRUE(reaches(sends.get(), 4)) << "separately from whether an entry is generated";
  EXPECT_TRUE(pair.a().tx().stays_silent(milliseconds(20)));
}

TEST_P(Counters, WaitDrivesTheTransfer) {
  Fabric fabric(target());
  const auto receives = open_counter(fabric);
  Pair pair(fabric, {}, counting(receives.get(), FI_RECV));
  Buffer in(fabric, 64), out(fabric, 64);
  Context received, sent;
  ASSERT_EQ(pair.b().recv(in, 64, &received), 0);
  ASSERT_EQ(pair.a().send(out, 8, &sent), 0);
  ASSERT_TRUE(pair.a().tx().wait().ok());
  EXPECT_EQ(fi_cntr_wait(receives.get(), 1, kWaitMs), 0);
}

TEST_P(Counters, ReadsAndWritesAreCounted) {
  const HintsEditor rma = [](fi_info& hints) { hints.caps = FI_MSG | FI_RMA; };
  NEEDS(rma, "FI_RMA");
  Fabric fabric(target(), rma);
  const auto reads = open_counter(fabric), writes = open_counter(fabric);
  NodeOptions options;
  options.configure = [&](fid_ep* ep) {
    ASSERT_EQ(fi_ep_bind(ep, &reads->fid, FI_READ), 0);
    ASSERT_EQ(fi_ep_bind(ep, &writes->fid, FI_WRITE), 0);
  };
  Pair pair(fabric, options, {});
  Buffer remote(fabric, 64, 0, FI_REMOTE_READ | FI_REMOTE_WRITE), local(fabric, 64, 0, FI_READ | FI_WRITE);
  Context context;
  ASSERT_EQ(retry([&] {
              return fi_write(pair.a().ep(), local.data(), 64, local.desc(), pair.a().peer, remote.remote_address(),
                              remote.key(), &context);
            }),
            0);
  ASSERT_TRUE(pair.a().tx().wait().ok());
  EXPECT_TRUE(reaches(writes.get(), 1));
  EXPECT_EQ(fi_cntr_read(reads.get()), 0u);
  ASSERT_EQ(retry([&] {
              return fi_read(pair.a().ep(), local.data(), 64, local.desc(), pair.a().peer, remote.remote_address(),
                             remote.key(), &context);
            }),
            0);
  ASSERT_TRUE(pair.a().tx().wait().ok());
  EXPECT_TRUE(reaches(reads.get(), 1));
  EXPECT_EQ(fi_cntr_read(writes.get()), 1u);
}

TEST_P(Counters, RemoteAccessIsCountedAtTheTarget) {
  const HintsEditor events = [](fi_info& hints) { hints.caps = FI_MSG | FI_RMA | FI_RMA_EVENT; };
  if (!Fabric::offers(target(), events)) GTEST_SKIP() << "FI_RMA_EVENT is not offered";
  Fabric fabric(target(), events);
  const auto remote_writes = open_counter(fabric), remote_reads = open_counter(fabric);
  NodeOptions options;
  options.configure = [&](fid_ep* ep) {
    ASSERT_EQ(fi_ep_bind(ep, &remote_writes->fid, FI_REMOTE_WRITE), 0);
    ASSERT_EQ(fi_ep_bind(ep, &remote_reads->fid, FI_REMOTE_READ), 0);
  };
  Pair pair(fabric, {}, options);
  Buffer remote(fabric, 64, 0, FI_REMOTE_READ | FI_REMOTE_WRITE), local(fabric, 64, 0, FI_READ | FI_WRITE);
  Context context;
  ASSERT_EQ(retry([&] {
              return fi_write(pair.a().ep(), local.data(), 64, local.desc(), pair.a().peer, remote.remote_address(),
                              remote.key(), &context);
            }),
            0);
  EXPECT_TRUE(reaches(remote_writes.get(), 1));
  ASSERT_EQ(retry([&] {
              return fi_read(pair.a().ep(), local.data(), 64, local.desc(), pair.a().peer, remote.remote_address(),
                             remote.key(), &context);
            }),
            0);
  EXPECT_TRUE(reaches(remote_reads.get(), 1));
}

namespace {

const HintsEditor kRemoteEvents = [](fi_info& hints) { hints.caps = FI_MSG | FI_RMA | FI_RMA_EVENT; };
const HintsEditor kAtomicEvents = [](fi_info& hints) { hints.caps = FI_MSG | FI_ATOMIC | FI_RMA_EVENT; };

NodeOptions counting_remote(fid_cntr* writes, fid_cntr* reads) {
  NodeOptions options;
  options.configure = [=](fid_ep* ep) {
    ASSERT_EQ(fi_ep_bind(ep, &writes->fid, FI_REMOTE_WRITE), 0);
    ASSERT_EQ(fi_ep_bind(ep, &reads->fid, FI_REMOTE_READ), 0);
  };
  return options;
}

void write_one(Node& from, Buffer& local, Buffer& remote) {
  Context context;
  ASSERT_EQ(retry([&] {
              return fi_write(from.ep(), local.data(), 8, local.desc(), from.peer, remote.remote_address(),
                              remote.key(), &context);
            }),
            0);
  ASSERT_TRUE(from.tx().wait().ok());
}

void read_one(Node& from, Buffer& local, Buffer& remote) {
  Context context;
  ASSERT_EQ(retry([&] {
              return fi_read(from.ep(), local.data(), 8, local.desc(), from.peer, remote.remote_address(), remote.key(),
                             &context);
            }),
            0);
  ASSERT_TRUE(from.tx().wait().ok());
}

}  // namespace

TEST_P(Counters, RegionCountsItsAccesses) {
  if (!Fabric::offers(target(), kRemoteEvents)) GTEST_SKIP() << "FI_RMA_EVENT is not offered";
  constexpr uint64_t kBoth = FI_REMOTE_READ | FI_REMOTE_WRITE;
  Fabric fabric(target(), kRemoteEvents);
  const auto writes = open_counter(fabric), reads = open_counter(fabric), all = open_counter(fabric);
  {
    Pair pair(fabric);
    Buffer first(fabric, 64, 0, kBoth), second(fabric, 64, 0, kBoth), local(fabric, 64, 0, FI_READ | FI_WRITE);
    ASSERT_EQ(fi_mr_bind(first.mr(), &writes->fid, FI_REMOTE_WRITE), 0);
    ASSERT_EQ(fi_mr_bind(first.mr(), &reads->fid, FI_REMOTE_READ), 0);
    ASSERT_EQ(fi_mr_bind(second.mr(), &all->fid, kBoth), 0);
    EXPECT_EQ(fi_close(&all->fid), -FI_EBUSY);
    for (int i = 0; i < 3; ++i) write_one(pair.a(), local, first);
    for (int i = 0; i < 2; ++i) read_one(pair.a(), local, first);
    write_one(pair.a(), local, second);
    read_one(pair.a(), local, second);
    EXPECT_TRUE(reaches(writes.get(), 3));
    EXPECT_TRUE(reaches(reads.get(), 2));
    EXPECT_TRUE(reaches(all.get(), 2));
  }
}

TEST_P(Counters, RemoteAccessesWakeAWaitingThread) {
  if (!Fabric::offers(target(), kRemoteEvents)) GTEST_SKIP() << "FI_RMA_EVENT is not offered";
  if (target().connected()) GTEST_SKIP() << "endpoints with addresses only";
  Fabric ours(target(), kRemoteEvents), theirs(target(), kRemoteEvents);
  const auto writes = open_counter(theirs), reads = open_counter(theirs);
  DatagramEnd from(ours), to(theirs, counting_remote(writes.get(), reads.get()));
  Buffer remote(theirs, 64, 0, FI_REMOTE_WRITE), local(ours, 64, 0, FI_WRITE);
  from->peer = from.insert(to.address());
  std::thread waiter([&] { EXPECT_EQ(fi_cntr_wait(writes.get(), 2, kWaitMs), 0); });
  for (int i = 0; i < 2; ++i) write_one(*from, local, remote);
  waiter.join();
  EXPECT_EQ(fi_cntr_read(writes.get()), 2u);
}

// With every protocol.
TEST_P(Counters, LongMessagesAreNotCountedAsRemoteAccesses) {
  if (!Fabric::offers(target(), kRemoteEvents)) GTEST_SKIP() << "FI_RMA_EVENT is not offered";
  constexpr size_t kLength = 300'000;
  for (const char* by_write : {"0", "1"}) {
    const Parameter writes_it("FI_OFI_RXM_USE_RNDV_WRITE", by_write);
    Fabric fabric(target(), kRemoteEvents);
    const auto writes = open_counter(fabric), reads = open_counter(fabric);
    Pair pair(fabric, counting_remote(writes.get(), reads.get()));
    Buffer out(fabric, kLength), in(fabric, kLength), local(fabric, 64, 0, FI_READ | FI_WRITE);
    Buffer remote(fabric, 64, 0, FI_REMOTE_READ | FI_REMOTE_WRITE);
    out.fill_pattern(7);
    Context contexts[2];
    for (int from = 0; from < 2; ++from) {
      Node &sender = pair.node(from), &receiver = pair.node(1 - from);
      iovec into[] = {{in.data(), 100'000}, {in.data() + 100'000, 200'000}};
      iovec out_of[] = {{out.data(), 50'000}, {out.data() + 50'000, 250'000}};
      void *in_desc[] = {in.desc(), in.desc()}, *out_desc[] = {out.desc(), out.desc()};
      ASSERT_EQ(fi_recvv(receiver.ep(), into, in_desc, 2, FI_ADDR_UNSPEC, &contexts[0]), 0);
      ASSERT_EQ(retry([&] { return fi_sendv(sender.ep(), out_of, out_desc, 2, sender.peer, &contexts[1]); }), 0);
      ASSERT_TRUE(receiver.rx().wait().ok());
      ASSERT_TRUE(sender.tx().wait().ok());
      EXPECT_TRUE(in.holds_pattern(7, kLength));
      std::memset(in.data(), 0, kLength);
    }
    write_one(pair.a(), local, remote);
    read_one(pair.b(), local, remote);
    EXPECT_TRUE(reaches(writes.get(), 1));
    EXPECT_TRUE(reaches(reads.get(), 1));
  }
}

TEST_P(Counters, AtomicOperationsOfPeersAreCounted) {
  if (!Fabric::offers(target(), kAtomicEvents)) GTEST_SKIP() << "FI_RMA_EVENT or FI_ATOMIC is not offered";
  Fabric fabric(target(), kAtomicEvents);
  const auto writes = open_counter(fabric), reads = open_counter(fabric), of_region = open_counter(fabric);
  Pair pair(fabric, {}, counting_remote(writes.get(), reads.get()));
  Buffer remote(fabric, 64, 0, FI_REMOTE_READ | FI_REMOTE_WRITE), local(fabric, 64, 0, FI_READ | FI_WRITE);
  ASSERT_EQ(fi_mr_bind(remote.mr(), &of_region->fid, FI_REMOTE_WRITE), 0);
  Context context;
  const Node& a = pair.a();
  ASSERT_EQ(retry([&] {
              return fi_atomic(a.ep(), local.data(), 1, local.desc(), a.peer, remote.remote_address(), remote.key(),
                               FI_UINT64, FI_SUM, &context);
            }),
            0);
  ASSERT_TRUE(pair.a().tx().wait().ok());
  ASSERT_EQ(retry([&] {
              return fi_fetch_atomic(a.ep(), local.data(), 1, local.desc(), local.data() + 8, local.desc(), a.peer,
                                     remote.remote_address(), remote.key(), FI_UINT64, FI_SUM, &context);
            }),
            0);
  ASSERT_TRUE(pair.a().tx().wait().ok());
  EXPECT_TRUE(reaches(writes.get(), 1));
  EXPECT_TRUE(reaches(reads.get(), 1));
  EXPECT_TRUE(reaches(of_region.get(), 2)) << "both have modified it";
}

TEST_P(Counters, FailedOperationsIncrementTheErrorValue) {
  Fabric fabric(target());
  const auto receives = open_counter(fabric);
  Pair pair(fabric, {}, counting(receives.get(), FI_RECV));
  Buffer in(fabric, 64);
  Context received;
  ASSERT_EQ(pair.b().recv(in, 64, &received), 0);
  pair.b().cancel_receives({&received});
  ASSERT_EQ(pair.b().rx().wait().err(), FI_ECANCELED);
  EXPECT_TRUE(error_reaches(receives.get(), 1));
  EXPECT_EQ(fi_cntr_read(receives.get()), 0u);
}

namespace {

// Operations of the first node default to FI_DELIVERY_COMPLETE; it counts its sends and writes.
class DeliveredScene {
 public:
  static HintsEditor hints(fi_progress progress) {
    return [progress](fi_info& hints) {
      hints.tx_attr->op_flags = FI_DELIVERY_COMPLETE;
      hints.domain_attr->control_progress = hints.domain_attr->data_progress = progress;
    };
  }
  // The ends are in domains of their own, where the target permits it: progress of one is none of the other.
  DeliveredScene(const Target& target, fi_progress progress)
      : ours_(target, hints(progress)),
        theirs_(target, hints(progress)),
        sends_(open_counter(ours_)),
        writes_(open_counter(ours_)) {
    if (target.connected()) {
      pair_ = std::make_unique<Pair>(ours_, counting_both(), NodeOptions{});
    } else {
      ends_[0] = std::make_unique<DatagramEnd>(ours_, counting_both());
      ends_[1] = std::make_unique<DatagramEnd>(theirs_);
      from().peer = ends_[0]->insert(ends_[1]->address());
    }
    remote_.emplace(to().fabric(), 64, 0, FI_REMOTE_READ | FI_REMOTE_WRITE);
    in_.emplace(to().fabric(), 64);
  }

  bool has(uint64_t capability) const { return (ours_.info()->caps & capability) != 0; }
  // A write without a completion at the target.
  template <class Call>
  void expect_write(const char* name, uint64_t value, Call call) {
    put(*remote_, 0);
    ASSERT_EQ(retry([&] { return call(from(), value, *remote_); }), 0) << name;
    ASSERT_TRUE(counts(writes_.get(), ++written_)) << name;
    ASSERT_EQ(get(*remote_), value) << name << " was counted before its data was there";
  }
  template <class Call>
  void expect_write_with_data(uint64_t value, Call call) {
    Context receive;
    if (takes_receives()) {
      ASSERT_EQ(to().recv(*in_, 64, &receive), 0);
    }
    expect_write("fi_inject_writedata", value, call);
    ASSERT_TRUE(to().rx().wait().ok());
  }
  template <class Call>
  void expect_message(bool tagged, uint64_t value, Call call) {
    Context receive;
    put(*in_, 0);
    ASSERT_EQ(tagged ? to().trecv(*in_, 64, 1, 0, &receive) : to().recv(*in_, 64, &receive), 0);
    ASSERT_EQ(retry([&] { return call(from(), value); }), 0);
    ASSERT_TRUE(counts(sends_.get(), ++sent_));
    ASSERT_EQ(get(*in_), value) << "a message was counted before it arrived, tagged: " << tagged;
    ASSERT_TRUE(to().rx().wait().ok());
  }
  bool adds() {
    size_t count = 0;
    return has(FI_ATOMIC) && fi_atomicvalid(from().ep(), FI_UINT64, FI_SUM, &count) == 0;
  }
  bool has_data() const { return has(FI_RMA) && ours_.info()->domain_attr->cq_data_size != 0; }

 private:
  NodeOptions counting_both() {
    NodeOptions options;
    options.configure = [this](fid_ep* ep) {
      require_ok(fi_ep_bind(ep, &sends_->fid, FI_SEND), "fi_ep_bind");
      require_ok(fi_ep_bind(ep, &writes_->fid, FI_WRITE), "fi_ep_bind");
    };
    return options;
  }
  bool takes_receives() const { return (ours_.info()->mode & FI_RX_CQ_DATA) != 0; }
  static void put(Buffer& buffer, uint64_t value) { std::memcpy(buffer.data(), &value, sizeof value); }
  static uint64_t get(Buffer& buffer) {
    uint64_t value = 0;
    std::memcpy(&value, buffer.data(), sizeof value);
    return value;
  }

  Node& from() { return pair_ != nullptr ? pair_->a() : **ends_[0]; }
  Node& to() { return pair_ != nullptr ? pair_->b() : **ends_[1]; }
  // The other end makes progress only while the counter has not reached the value.
  static bool counts(fid_cntr* counter, uint64_t value) {
    const auto deadline = after(kPatience);
    while (fi_cntr_read(counter) < value && Clock::now() < deadline) driver::poke();
    return fi_cntr_wait(counter, value, 0) == 0;
  }

  Fabric ours_, theirs_;
  Handle<fid_cntr> sends_, writes_;
  std::unique_ptr<Pair> pair_;
  std::unique_ptr<DatagramEnd> ends_[2];
  std::optional<Buffer> remote_, in_;
  uint64_t sent_ = 0, written_ = 0;
};

}  // namespace

// Injecting suppresses the entry in the queue, not the completion level.
TEST_P(Counters, InjectedOperationsAreCountedWhenTheirDataIsThere) {
  if (target().ep_type == FI_EP_DGRAM) GTEST_SKIP() << "applies to reliable endpoints";
  constexpr size_t kLen = sizeof(uint64_t);
  for (const fi_progress progress : {FI_PROGRESS_MANUAL, FI_PROGRESS_AUTO}) {
    if (!Fabric::offers(target(), DeliveredScene::hints(progress))) continue;
    DeliveredScene scene(target(), progress);
    for (uint64_t value = 1; value <= 100 && !HasFatalFailure(); ++value) {
      SCOPED_TRACE(testing::Message() << "round " << value << ", automatic: " << (progress == FI_PROGRESS_AUTO));
      scene.expect_message(false, value,
                           [](Node& from, uint64_t sent) { return fi_inject(from.ep(), &sent, kLen, from.peer); });
      if (scene.has(FI_TAGGED))
        scene.expect_message(
            true, value, [](Node& from, uint64_t sent) { return fi_tinject(from.ep(), &sent, kLen, from.peer, 1); });
      if (scene.has(FI_RMA))
        scene.expect_write("fi_inject_write", value, [](Node& from, uint64_t sent, Buffer& to) {
          return fi_inject_write(from.ep(), &sent, kLen, from.peer, to.remote_address(), to.key());
        });
      if (scene.has(FI_RMA))
        scene.expect_write("fi_inject_write of an alias", value, [](Node& from, uint64_t sent, Buffer& to) {
          fid_ep* alias = nullptr;
          require_ok(fi_ep_alias(from.ep(), &alias, FI_TRANSMIT | FI_DELIVERY_COMPLETE), "fi_ep_alias");
          const ssize_t rc = fi_inject_write(alias, &sent, kLen, from.peer, to.remote_address(), to.key());
          return fi_close(&alias->fid) == 0 ? rc : ssize_t{-FI_EOTHER};
        });
      if (scene.has_data())
        scene.expect_write_with_data(value, [](Node& from, uint64_t sent, Buffer& to) {
          return fi_inject_writedata(from.ep(), &sent, kLen, 1, from.peer, to.remote_address(), to.key());
        });
      if (scene.adds())
        scene.expect_write("fi_inject_atomic", value, [](Node& from, uint64_t sent, Buffer& to) {
          return fi_inject_atomic(from.ep(), &sent, 1, from.peer, to.remote_address(), to.key(), FI_UINT64, FI_SUM);
        });
    }
  }
}

// Runtimes enable an endpoint first.
TEST_P(Counters, EnabledEndpointTakesCounters) {
  Fabric fabric(target());
  const auto sends = open_counter(fabric), receives = open_counter(fabric), writes = open_counter(fabric);
  Pair pair(fabric);
  expect_round_trip(pair.a(), pair.b());
  Buffer out(fabric, 64), in(fabric, 64);
  Context sent, received;
  ASSERT_EQ(pair.b().recv(in, 64, &received), 0);
  ASSERT_EQ(fi_ep_bind(pair.a().ep(), &sends->fid, FI_SEND), 0);
  ASSERT_EQ(fi_ep_bind(pair.b().ep(), &receives->fid, FI_RECV), 0);
  EXPECT_EQ(fi_close(&sends->fid), -FI_EBUSY);
  ASSERT_EQ(pair.a().send(out, 64, &sent), 0);
  EXPECT_TRUE(pair.b().rx().wait().ok());
  EXPECT_TRUE(pair.a().tx().wait().ok());
  EXPECT_TRUE(reaches(receives.get(), 1)) << "the receive was posted before";
  for (uint64_t i = 2; i <= 4; ++i) {
    expect_round_trip(pair.a(), pair.b());
    EXPECT_TRUE(reaches(sends.get(), i));
    EXPECT_TRUE(reaches(receives.get(), i));
  }
  CompletionQueue queue(fabric);
  EXPECT_EQ(fi_ep_bind(pair.a().ep(), queue.fid(), FI_TRANSMIT), -FI_EOPBADSTATE) << "queues are bound in time";
  if ((fabric.info()->caps & FI_RMA) == 0) return;
  ASSERT_EQ(fi_ep_bind(pair.a().ep(), &writes->fid, FI_WRITE), 0);
  Buffer remote(fabric, 64, 0, FI_REMOTE_WRITE), local(fabric, 64, 0, FI_WRITE);
  write_one(pair.a(), local, remote);
  EXPECT_TRUE(reaches(writes.get(), 1));
}

// A second one would replace the first, which would not count any more.
TEST_P(Counters, EachDirectionHasOneCounter) {
  Fabric fabric(target());
  const auto first = open_counter(fabric), second = open_counter(fabric);
  Node node(fabric, counting(first.get(), FI_SEND));
  Pair pair(fabric, counting(first.get(), FI_SEND));
  for (Node* each : {&node, &pair.a()}) {
    SCOPED_TRACE(each == &node ? "before it is enabled" : "enabled");
    EXPECT_EQ(fi_ep_bind(each->ep(), &second->fid, FI_SEND), -FI_EINVAL);
    EXPECT_EQ(fi_ep_bind(each->ep(), &second->fid, FI_RECV | FI_SEND), -FI_EINVAL);
    EXPECT_EQ(fi_ep_bind(each->ep(), &first->fid, FI_SEND), -FI_EINVAL);
    EXPECT_EQ(fi_ep_bind(each->ep(), &second->fid, FI_RECV), 0) << "nothing of a refused call was bound";
  }
}

TEST_P(Counters, EnabledEndpointTakesCountersOfRemoteAccesses) {
  if (!Fabric::offers(target(), kRemoteEvents)) GTEST_SKIP() << "FI_RMA_EVENT is not offered";
  Fabric fabric(target(), kRemoteEvents);
  const auto writes = open_counter(fabric), reads = open_counter(fabric);
  Pair pair(fabric);
  Buffer remote(fabric, 64, 0, FI_REMOTE_READ | FI_REMOTE_WRITE), local(fabric, 64, 0, FI_READ | FI_WRITE);
  read_one(pair.a(), local, remote);  // the read has ended at both ends
  counting_remote(writes.get(), reads.get()).configure(pair.b().ep());
  write_one(pair.a(), local, remote);
  read_one(pair.a(), local, remote);
  EXPECT_TRUE(reaches(writes.get(), 1));
  EXPECT_TRUE(reaches(reads.get(), 1));
}

TEST_P(Counters, CloseWhileBoundAnswersBusy) {
  Fabric fabric(target());
  const auto counter = open_counter(fabric);
  Node node(fabric, counting(counter.get(), FI_SEND | FI_RECV));
  EXPECT_EQ(fi_close(&counter->fid), -FI_EBUSY);
}

}  // namespace counters
