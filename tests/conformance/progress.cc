// SPDX-License-Identifier: BSD-2-Clause
// FI_PROGRESS_AUTO: operations complete without reading a queue; fi_domain(3). With manual progress, every endpoint of
// a domain advances when a queue is read.
#include <rdma/fi_rma.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <thread>

#include "fixture/child.h"
#include "fixture/counter.h"
#include "fixture/member.h"
#include "fixture/node.h"
#include "fixture/raw_peer.h"

namespace progress {

CONFORMANCE_TOPIC(Progress);

namespace {

const HintsEditor kAuto = [](fi_info& hints) {
  hints.caps = FI_MSG | FI_RMA;
  hints.domain_attr->control_progress = FI_PROGRESS_AUTO;
  hints.domain_attr->data_progress = FI_PROGRESS_AUTO;
};

// Reads memory while the library writes it. That is intended here, so ThreadSanitizer is disabled for it.
__attribute__((no_sanitize("thread"), noinline)) char peek(const volatile char* at) {
  return *at;
}

// Waits until the byte has that value, without touching any fabric object.
bool becomes(const char* at, char value) {
  const auto deadline = after(kPatience);
  while (peek(at) != value && Clock::now() < deadline) std::this_thread::sleep_for(milliseconds(1));
  return peek(at) == value;
}

}  // namespace

TEST_P(Progress, AutoIsGrantedOnRequest) {
  NEEDS(kAuto, "FI_PROGRESS_AUTO");
  Fabric fabric(target(), kAuto);
  EXPECT_EQ(fabric.info()->domain_attr->control_progress, FI_PROGRESS_AUTO);
  EXPECT_EQ(fabric.info()->domain_attr->data_progress, FI_PROGRESS_AUTO);
}

TEST_P(Progress, ReceivedDataAppearsWithoutReadingTheQueue) {
  NEEDS(kAuto, "FI_PROGRESS_AUTO");
  Fabric fabric(target(), kAuto);
  Pair pair(fabric);
  Buffer in(fabric, 64), out(fabric, 64, 'x');
  Context received, sent;
  ASSERT_EQ(pair.b().recv(in, 64, &received), 0);
  ASSERT_EQ(fi_send(pair.a().ep(), out.data(), 64, out.desc(), pair.a().peer, &sent), 0);
  EXPECT_TRUE(becomes(in.data() + 63, 'x'));
  EXPECT_TRUE(pair.b().rx().wait().ok());
}

// A program that keeps a signal for sigwait(3) blocks it in its own threads, perhaps after it has opened a domain.
TEST_P(Progress, ThreadsOfTheLibraryLeaveSignalsToTheProgram) {
  NEEDS(kAuto, "FI_PROGRESS_AUTO");
  Fabric fabric(target(), kAuto);
  NodeOptions options;
  options.tx_cq.wait_obj = options.rx_cq.wait_obj = FI_WAIT_MUTEX_COND;
  Pair pair(fabric, options);
  sigset_t kept, before;
  sigemptyset(&kept);
  sigaddset(&kept, SIGUSR1);
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &kept, &before), 0);
  ASSERT_EQ(kill(getpid(), SIGUSR1), 0);
  const timespec most{.tv_sec = 20, .tv_nsec = 0};
  EXPECT_EQ(sigtimedwait(&kept, nullptr, &most), SIGUSR1);
  EXPECT_EQ(pthread_sigmask(SIG_SETMASK, &before, nullptr), 0);
}

TEST_P(Progress, LargeTransferFinishesWithoutReadingTheQueues) {
  NEEDS(kAuto, "FI_PROGRESS_AUTO");
  if (target().ep_type == FI_EP_DGRAM) GTEST_SKIP() << "datagrams are small";
  Fabric fabric(target(), kAuto);
  Pair pair(fabric);
  const size_t size = fabric.length_up_to(16 << 20);
  Buffer in(fabric, size), out(fabric, size, 'x');
  Context received, sent;
  ASSERT_EQ(pair.b().recv(in, size, &received), 0);
  ASSERT_EQ(fi_send(pair.a().ep(), out.data(), size, out.desc(), pair.a().peer, &sent), 0);
  EXPECT_TRUE(becomes(in.data() + size - 1, 'x'));
  EXPECT_TRUE(pair.b().rx().wait().ok());
}

TEST_P(Progress, TargetOfRmaNeedNotTakePart) {
  NEEDS(kAuto, "FI_PROGRESS_AUTO");
  Fabric fabric(target(), kAuto);
  Pair pair(fabric);
  constexpr size_t kSize = 4 << 20;
  Buffer remote(fabric, kSize, 'r', FI_REMOTE_READ), local(fabric, kSize, 0, FI_READ);
  Context context;
  ASSERT_EQ(fi_read(pair.a().ep(), local.data(), kSize, local.desc(), pair.a().peer, remote.remote_address(),
                    remote.key(), &context),
            0);
  EXPECT_TRUE(becomes(local.data() + kSize - 1, 'r'));
  EXPECT_TRUE(pair.a().tx().wait().ok());
}

TEST_P(Progress, RequestIsSentAndQueuedWithoutReadingTheQueue) {
  NEEDS(kAuto, "FI_PROGRESS_AUTO");
  CONNECTED_ONLY();
  if (!speaks_tcp()) GTEST_SKIP() << "observes the request with a bare socket";
  Fabric fabric(target(), kAuto);
  const raw::Socket hole = raw::Socket::listening(target().address);
  Node client(fabric);
  ASSERT_EQ(client.connect(hole.address(), "auto"), 0);
  raw::Socket peer(::accept4(hole.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  std::string request(raw::kCmHeader + 4, '\0');
  EXPECT_EQ(::recv(peer.fd(), request.data(), request.size(), MSG_WAITALL), static_cast<ssize_t>(request.size()));
  EXPECT_EQ(request.substr(raw::kCmHeader), "auto");
}

// Only the other side's queues are read: each alone, because the fixture's waits drive all queues.
TEST_P(Progress, ConnectionIsEstablishedWithoutReadingTheClientsQueue) {
  NEEDS(kAuto, "FI_PROGRESS_AUTO");
  CONNECTED_ONLY();
  Fabric by_itself(target(), kAuto), fabric(target());
  Listener listener(fabric);
  Node client(by_itself);
  const auto next_of = [](EventQueue& eq) {
    const auto deadline = after(kPatience);
    Event event = eq.read();
    while (event.type == Event::kNothing && Clock::now() < deadline) {
      std::this_thread::sleep_for(milliseconds(1));
      event = eq.read();
    }
    return event;
  };
  ASSERT_EQ(client.connect(listener.address()), 0);
  const Event request = next_of(listener.eq());
  ASSERT_EQ(request.type, static_cast<int>(FI_CONNREQ)) << request;
  Node answerer(fabric, {}, request.info.get());
  ASSERT_EQ(answerer.accept(), 0);
  const Event connected = next_of(answerer.eq());
  EXPECT_EQ(connected.type, static_cast<int>(FI_CONNECTED)) << connected;
  client.eq().expect(FI_CONNECTED, client.fid());
  expect_round_trip(client, answerer);
}

TEST_P(Progress, ManualIsGrantedOnRequest) {
  const HintsEditor manual = [](fi_info& hints) {
    hints.domain_attr->control_progress = FI_PROGRESS_MANUAL;
    hints.domain_attr->data_progress = FI_PROGRESS_MANUAL;
  };
  NEEDS(manual, "FI_PROGRESS_MANUAL");
  Fabric fabric(target(), manual);
  Pair pair(fabric);
  expect_exchange(pair);
}

// A server that opens its domain before it forks its workers.
TEST_P(Progress, ChildrenMayOpenObjectsInADomainOfTheirParent) {
  if (target().provider.starts_with("verbs")) GTEST_SKIP() << "a device is its parent's";
  int status = -1;
  const std::string output = child::output_of("fork_workers", {}, &status);
  EXPECT_EQ(status, 0) << output;
}

// Each reading of a queue finds a message of the busy pair. An atomic operation that a process polls on itself looks
// like that, and the message it waits for comes from another one.
TEST_P(Progress, BusyEndpointsDoNotStarveOthers) {
  Fabric fabric(target());
  Pair quiet(fabric), busy(fabric);
  expect_exchange(quiet);
  Buffer in(fabric, 64), out(fabric, 64, 'x'), ball(fabric, 8);
  Context received, sent, caught;
  ASSERT_EQ(quiet.b().recv(in, 64, &received), 0);
  const auto pass = [&](Node& from, Node& to) {
    require_ok(static_cast<int>(to.recv(ball, 8, &caught)), "fi_recv");
    ASSERT_EQ(retry([&] { return fi_inject(from.ep(), "12345678", 8, from.peer); }), 0);
    for (Completion got = to.rx().read(); got.context() != &caught; got = to.rx().read()) ASSERT_EQ(got.rc, -FI_EAGAIN);
  };
  for (int i = 0; i < 100; ++i) pass(busy.node(i % 2), busy.node((i + 1) % 2));
  ASSERT_EQ(fi_send(quiet.a().ep(), out.data(), 64, out.desc(), quiet.a().peer, &sent), 0);
  for (int i = 0; i < 20'000 && peek(in.data() + 63) != 'x'; ++i) pass(busy.node(i % 2), busy.node((i + 1) % 2));
  EXPECT_EQ(peek(in.data() + 63), 'x');
}

// Contact with every endpoint needs its connection events, and few polls read all of them.
TEST_P(Progress, SeldomPollsReachEveryEndpoint) {
  if (target().ep_type != FI_EP_RDM) GTEST_SKIP() << "FI_EP_RDM only";
  constexpr size_t kEnds = 24, kFewPolls = kEnds / 2;
  Fabric fabric(target()), others(target());
  DatagramEnd sender(others);
  std::vector<std::unique_ptr<DatagramEnd>> ends;
  std::vector<std::unique_ptr<Buffer>> in;
  Buffer out(others, 8, 'x');
  Context received[kEnds], sent[kEnds];
  for (size_t i = 0; i < kEnds; ++i) {
    ends.push_back(std::make_unique<DatagramEnd>(fabric));
    in.push_back(std::make_unique<Buffer>(fabric, 8));
    ASSERT_EQ((*ends[i])->recv(*in[i], 8, &received[i]), 0);
  }
  for (size_t i = 0; i < 2000; ++i) (*ends[0])->rx().read();  // all is quiet
  for (size_t i = 0; i < kEnds; ++i) {
    sender->peer = sender.insert(ends[i]->address());
    ASSERT_EQ(fi_send(sender->ep(), out.data(), 8, out.desc(), sender->peer, &sent[i]), 0);
  }
  const auto all_have_it = [&] {
    return std::all_of(in.begin(), in.end(), [](const auto& each) { return peek(each->data() + 7) == 'x'; });
  };
  size_t polls = 0;
  for (; !all_have_it() && polls < 10 * kEnds; ++polls) {
    // Long enough for an emulated device on a busy machine: the polls are counted, not the device's time.
    for (const auto end = after(milliseconds(20)); Clock::now() < end;) sender->rx().read();
    fi_cq_read((*ends[0])->rx().get(), nullptr, 0);
  }
  EXPECT_LE(polls, kFewPolls);
}

// That thread sleeps on the descriptors of the endpoints that were there before.
TEST_P(Progress, AnEndpointThatOpensWhileAThreadSleepsIsServed) {
  RELIABLE_DATAGRAMS_ONLY();
  const HintsEditor rma = [](fi_info& hints) {
    hints.caps = FI_MSG | FI_RMA;
    hints.tx_attr->op_flags = FI_DELIVERY_COMPLETE;
  };
  Fabric here(target(), rma), there(target(), rma);
  Buffer in(here, 64, 0, FI_REMOTE_WRITE), out(there, 64, 'x', FI_WRITE);
  fi_cq_attr attr{};
  attr.wait_obj = FI_WAIT_UNSPEC;
  CompletionQueue queue(here, attr);
  fi_av_attr plain{};
  const auto vector =
      opened<fid_av>("fi_av_open", [&](fid_av** av) { return fi_av_open(here.domain(), &plain, av, nullptr); });
  std::jthread reader([&] {
    fi_cq_tagged_entry entry{};
    EXPECT_EQ(fi_cq_sread(queue.get(), &entry, 1, nullptr, kWaitMs), -FI_EAGAIN);
  });
  std::this_thread::sleep_for(milliseconds(100));
  const auto late =
      opened<fid_ep>("fi_endpoint", [&](fid_ep** ep) { return fi_endpoint(here.domain(), here.info(), ep, nullptr); });
  ASSERT_EQ(fi_ep_bind(late.get(), &vector->fid, 0), 0);
  ASSERT_EQ(fi_ep_bind(late.get(), queue.fid(), FI_TRANSMIT | FI_RECV), 0);
  ASSERT_EQ(fi_enable(late.get()), 0);
  DatagramEnd sender(there);
  sender->peer = sender.insert(Address::local_name(&late->fid));
  Context written;
  ASSERT_EQ(fi_write(sender->ep(), out.data(), 64, out.desc(), sender->peer, in.remote_address(), in.key(), &written),
            0);
  EXPECT_TRUE(sender->tx().wait(after(milliseconds(kPromptMs))).ok());
  EXPECT_EQ(fi_cq_signal(queue.get()), 0);
}

// Each end waits for the other's write, so a wake-up that is lost stops both.
TEST_P(Progress, NoAccessIsMissedBetweenALookAndASleep) {
  const HintsEditor events = [](fi_info& hints) { hints.caps = FI_MSG | FI_RMA | FI_RMA_EVENT; };
  if (target().connected() || !Fabric::offers(target(), events)) GTEST_SKIP() << "FI_RMA_EVENT is not offered";
  struct End {
    End(const Target& target, const HintsEditor& events) : fabric(target, events) {
      for (Buffer* each : {&first, &second}) require_ok(fi_mr_bind(each->mr(), &writes->fid, FI_REMOTE_WRITE), "bind");
    }
    void run(Buffer& to, uint64_t from) {
      for (uint64_t round = from; round < 10'000; ++round) {
        const auto write = [&] { return fi_inject_write(end->ep(), "", 1, end->peer, to.remote_address(), to.key()); };
        ASSERT_EQ(repeat(write), 0);
        ASSERT_EQ(fi_cntr_wait(writes.get(), round, kWaitMs), 0) << round;
      }
    }
    Fabric fabric;
    Handle<fid_cntr> writes = open_counter(fabric);
    DatagramEnd end{fabric};
    Buffer first{fabric, 8, 0, FI_REMOTE_WRITE}, second{fabric, 8, 0, FI_REMOTE_WRITE};
  } a(target(), events), b(target(), events);
  a.end->peer = a.end.insert(b.end.address());
  b.end->peer = b.end.insert(a.end.address());
  std::jthread other([&] { b.run(a.second, 0); });
  a.run(b.first, 1);
}

// The server reads its queue every few milliseconds, and finds messages of one peer each time.
TEST_P(Progress, ABusyServerThatReadsSeldomAcceptsOtherPeers) {
  RELIABLE_DATAGRAMS_ONLY();
  Fabric there(target()), here(target());  // apart, or driving one drives the other
  DatagramEnd server(there), busy(here), late(here);
  busy->peer = busy.insert(server.address());
  late->peer = late.insert(server.address());
  Buffer in(there, 64), out(here, 64, 'x');
  Context received, sent;
  for (int i = 0; i < 64; ++i) ASSERT_EQ(server->recv(in, 64, &received), 0);
  int read = 0;
  const auto serve = [&] {
    fi_cq_tagged_entry entries[16];  // enough for any format
    for (ssize_t left = fi_cq_read(server->rx().get(), entries, 16); left > 0; --left, ++read)
      ASSERT_EQ(server->recv(in, 64, &received), 0);
  };
  const auto inject = [&] { return fi_inject(busy->ep(), out.data(), 8, busy->peer); };
  for (const auto limit = after(kPatience); inject() != 0 && Clock::now() < limit;) serve();
  for (const auto limit = after(kPatience); read == 0 && Clock::now() < limit; serve())
    fi_cq_read(busy->tx().get(), nullptr, 0);
  ASSERT_EQ(read, 1);
  constexpr int kBefore = 50, kAfter = 200;
  bool arrived = false;
  for (int polls = 0; polls < kBefore + kAfter && !arrived; ++polls) {
    if (polls == kBefore) ASSERT_EQ(fi_send(late->ep(), out.data(), 64, out.desc(), late->peer, &sent), 0);
    for (int i = 0; i < 2; ++i) ASSERT_EQ(inject(), 0);
    std::this_thread::sleep_for(milliseconds(2));
    serve();
    fi_cq_read(late->tx().get(), nullptr, 0);
    arrived = in.data()[63] == 'x';
  }
  EXPECT_TRUE(arrived);
}

}  // namespace progress
