// SPDX-License-Identifier: BSD-2-Clause
// Wait objects that the application blocks on itself: FI_GETWAIT and fi_trywait; fi_poll(3), fi_cq(3), fi_eq(3).
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "fixture/child.h"
#include "fixture/node.h"
#include "fixture/shared_ends.h"

namespace wait_objects {

CONFORMANCE_TOPIC(WaitObjects);

namespace {

NodeOptions with_wait(fi_wait_obj wait_obj) {
  NodeOptions options;
  options.eq.wait_obj = options.tx_cq.wait_obj = options.rx_cq.wait_obj = wait_obj;
  return options;
}

// Blocks in poll(2) as the manual requires: only after fi_trywait has returned 0.
bool block(const Fabric& fabric, fid_t fid, int timeout_ms) {
  fid_t fids[] = {fid};
  const int rc = fi_trywait(fabric.fabric(), fids, 1);
  if (rc == -FI_EAGAIN) return true;
  EXPECT_EQ(rc, 0);
  int fd = -1;
  EXPECT_EQ(fi_control(fid, FI_GETWAIT, &fd), 0);
  pollfd entry{fd, POLLIN, 0};
  return poll(&entry, 1, timeout_ms) > 0;
}

// A set with one member.
struct EpollSet {
  explicit EpollSet(int member) {
    epoll_event event{.events = EPOLLIN, .data = {}};
    EXPECT_EQ(epoll_ctl(fd, EPOLL_CTL_ADD, member, &event), 0) << std::strerror(errno);
  }
  ~EpollSet() { close(fd); }

  const int fd = epoll_create1(EPOLL_CLOEXEC);
};

// Waits for the completion of `node`'s queue by blocking on the descriptor only: nothing else is driven.
Completion awaited(const Fabric& fabric, CompletionQueue& cq) {
  const auto deadline = after(kPatience);
  for (;;) {
    const Completion completion = cq.read();
    if (completion.rc != -FI_EAGAIN || Clock::now() > deadline) return completion;
    block(fabric, cq.fid(), 2000);
  }
}

}  // namespace

TEST_P(WaitObjects, KindOfWaitObjectIsReported) {
  Fabric fabric(target());
  for (fi_wait_obj wait_obj : {FI_WAIT_FD, FI_WAIT_NONE}) {
    fi_cq_attr attr{};
    attr.wait_obj = wait_obj;
    CompletionQueue cq(fabric, attr);
    fi_wait_obj reported = FI_WAIT_UNSPEC;
    EXPECT_EQ(fi_control(cq.fid(), FI_GETWAITOBJ, &reported), 0);
    EXPECT_EQ(reported, wait_obj);
  }
}

TEST_P(WaitObjects, ConditionOfAQueueWithoutOneIsIgnored) {
  Fabric fabric(target());
  fi_cq_attr attr{};
  attr.wait_obj = FI_WAIT_NONE;
  const int unknown = 77;
  std::memcpy(&attr.wait_cond, &unknown, sizeof unknown);
  fid_cq* queue = nullptr;
  ASSERT_EQ(fi_cq_open(fabric.domain(), &attr, &queue, nullptr), 0);
  EXPECT_EQ(fi_close(&queue->fid), 0);
}

TEST_P(WaitObjects, DescriptorOfAQueueWithoutOneIsRefused) {
  Fabric fabric(target());
  fi_cq_attr attr{};
  attr.wait_obj = FI_WAIT_NONE;
  CompletionQueue cq(fabric, attr);
  int fd = -1;
  EXPECT_LT(fi_control(cq.fid(), FI_GETWAIT, &fd), 0);
  EXPECT_EQ(fd, -1);
}

// The kernel limits the nesting of epoll descriptors, which queues of one domain must not add up to.
TEST_P(WaitObjects, HundredsOfQueuesHaveDescriptors) {
  Fabric fabric(target());
  fi_cq_attr attr{};
  attr.wait_obj = FI_WAIT_FD;
  std::vector<std::unique_ptr<CompletionQueue>> queues;
  for (int i = 0; i < 300; ++i) {
    queues.push_back(std::make_unique<CompletionQueue>(fabric, attr));
    int fd = -1;
    ASSERT_EQ(fi_control(queues.back()->fid(), FI_GETWAIT, &fd), 0) << i;
    pollfd entry{fd, POLLIN, 0};
    EXPECT_GE(poll(&entry, 1, 0), 0);
  }
}

// Programs have an event loop in an event loop; the kernel allows five levels, and some are ours.
TEST_P(WaitObjects, ADescriptorNestsInTwoEpollSetsOfTheApplication) {
  Fabric fabric(target());
  Pair pair(fabric, with_wait(FI_WAIT_FD));
  int queue = -1;
  ASSERT_EQ(fi_control(pair.b().rx().fid(), FI_GETWAIT, &queue), 0);
  const EpollSet inner(queue), outer(inner.fd);
  Buffer out(fabric, 64), in(fabric, 64);
  Context sent, received;
  ASSERT_EQ(pair.b().recv(in, 64, &received), 0);
  std::thread reader([&] {
    fid_t fids[] = {pair.b().rx().fid()};
    Completion completion;
    for (const auto limit = after(kPatience); !completion.ok() && Clock::now() < limit;
         completion = pair.b().rx().read()) {
      if (fi_trywait(fabric.fabric(), fids, 1) != 0) continue;
      epoll_event event{};
      EXPECT_EQ(epoll_wait(outer.fd, &event, 1, 10'000), 1);
    }
    EXPECT_TRUE(completion.ok()) << completion;
  });
  EXPECT_EQ(pair.a().send(out, 64, &sent), 0);
  EXPECT_TRUE(pair.a().tx().wait().ok());
  reader.join();
}

TEST_P(WaitObjects, PingPongByDescriptorsAlone) {
  Fabric fabric(target());
  Pair pair(fabric, with_wait(FI_WAIT_FD));
  constexpr int kRounds = 200;
  std::thread echo([&] {
    Buffer buffer(fabric, 64);
    Context received, sent;
    for (int i = 0; i < kRounds; ++i) {
      require_ok(fi_recv(pair.b().ep(), buffer.data(), 64, buffer.desc(), pair.b().peer, &received), "fi_recv");
      ASSERT_TRUE(awaited(fabric, pair.b().rx()).ok());
      require_ok(fi_send(pair.b().ep(), buffer.data(), 8, buffer.desc(), pair.b().peer, &sent), "fi_send");
      ASSERT_TRUE(awaited(fabric, pair.b().tx()).ok());
    }
  });
  Buffer buffer(fabric, 64);
  Context received, sent;
  for (int i = 0; i < kRounds; ++i) {
    EXPECT_EQ(fi_recv(pair.a().ep(), buffer.data(), 64, buffer.desc(), pair.a().peer, &received), 0);
    EXPECT_EQ(fi_send(pair.a().ep(), buffer.data(), 8, buffer.desc(), pair.a().peer, &sent), 0);
    EXPECT_TRUE(awaited(fabric, pair.a().tx()).ok());
    EXPECT_TRUE(awaited(fabric, pair.a().rx()).ok());
    if (HasFailure()) break;
  }
  echo.join();
}

TEST_P(WaitObjects, LargeTransferByDescriptorsAlone) {
  if (target().ep_type == FI_EP_DGRAM) GTEST_SKIP() << "datagrams are small";
  Fabric fabric(target());
  Pair pair(fabric, with_wait(FI_WAIT_FD));
  const size_t size = fabric.length_up_to(16 << 20);
  Buffer out(fabric, size), in(fabric, size);
  out.fill_pattern(1);
  Context sent, received;
  ASSERT_EQ(pair.b().recv(in, size, &received), 0);
  std::thread receiver([&] { EXPECT_TRUE(awaited(fabric, pair.b().rx()).ok()); });
  EXPECT_EQ(pair.a().send(out, size, &sent), 0);
  EXPECT_TRUE(awaited(fabric, pair.a().tx()).ok());
  receiver.join();
  EXPECT_TRUE(in.holds_pattern(1, size));
}

TEST_P(WaitObjects, ConnectionByEventQueueDescriptorsAlone) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  fi_eq_attr attr{};
  attr.wait_obj = FI_WAIT_FD;
  EventQueue listening(fabric, attr);
  const auto pep = opened<fid_pep>(
      "fi_passive_ep", [&](fid_pep** p) { return fi_passive_ep(fabric.fabric(), fabric.info(), p, nullptr); });
  ASSERT_EQ(fi_pep_bind(pep.get(), listening.fid(), 0), 0);
  ASSERT_EQ(fi_listen(pep.get()), 0);
  const Address address = Address::local_name(&pep->fid);
  const auto next = [&](EventQueue& eq) {
    for (const auto deadline = after(kPatience);;) {
      Event event = eq.read();
      if (event.type != Event::kNothing || Clock::now() > deadline) return event;
      block(fabric, eq.fid(), 2000);
    }
  };
  std::thread server([&] {
    const Event event = next(listening);
    ASSERT_EQ(event.type, static_cast<int>(FI_CONNREQ)) << event;
    Node answerer(fabric, with_wait(FI_WAIT_FD), event.info.get());
    EXPECT_EQ(answerer.accept("hi"), 0);
    EXPECT_EQ(next(answerer.eq()).type, static_cast<int>(FI_CONNECTED));
    EXPECT_EQ(next(answerer.eq()).type, static_cast<int>(FI_SHUTDOWN));
  });
  {
    Node client(fabric, with_wait(FI_WAIT_FD));
    EXPECT_EQ(client.connect(address), 0);
    EXPECT_EQ(next(client.eq()).type, static_cast<int>(FI_CONNECTED));
  }
  server.join();
}

// Programs older than fi_trywait poll the descriptor of an event queue without calling it.
TEST_P(WaitObjects, EventQueueDescriptorWorksWithoutTrywait) {
  CONNECTED_ONLY();
  Fabric served(target()), fabric(target());
  Listener listener(served);
  Node client(fabric, with_wait(FI_WAIT_FD));
  int fd = -1;
  ASSERT_EQ(fi_control(client.eq().fid(), FI_GETWAIT, &fd), 0);
  ASSERT_EQ(client.connect(listener.address()), 0);
  const auto next = [](EventQueue& eq) {  // does not drive the client
    for (const auto deadline = after(milliseconds(kWaitMs));;)
      if (Event event = eq.read(); event.type != Event::kNothing || Clock::now() > deadline) return event;
  };
  std::thread server([&] {
    const Event request = next(listener.eq());
    ASSERT_EQ(request.type, static_cast<int>(FI_CONNREQ)) << request;
    Node answerer(served, {}, request.info.get());
    EXPECT_EQ(answerer.accept(""), 0);
    EXPECT_EQ(next(answerer.eq()).type, static_cast<int>(FI_CONNECTED));
    EXPECT_EQ(next(answerer.eq()).type, static_cast<int>(FI_SHUTDOWN));
  });
  pollfd entry{fd, POLLIN, 0};
  Event event;
  while (event.type == Event::kNothing && poll(&entry, 1, kWaitMs) > 0) event = client.eq().read();
  EXPECT_EQ(event.type, static_cast<int>(FI_CONNECTED)) << event;
  EXPECT_EQ(fi_shutdown(client.ep(), 0), 0);
  server.join();
}

// Programs like the last one fetch the descriptor of a completion queue before an endpoint could use it.
TEST_P(WaitObjects, QueueDescriptorFetchedBeforeEnablingWorksWithoutTrywait) {
  RELIABLE_DATAGRAMS_ONLY();
  if (!target().provider.starts_with("tcp")) GTEST_SKIP() << "fi_trywait arms the queue of a device";
  Fabric fabric(target()), other(target());
  const Handle<fid_av> vector = open_vector(fabric), others = open_vector(other);
  const auto bound_to = [](const Handle<fid_av>& av, fi_wait_obj wait_obj) {
    NodeOptions options = with_wait(wait_obj);
    options.configure = [&av](fid_ep* ep) { require_ok(fi_ep_bind(ep, &av->fid, 0), "fi_ep_bind AV"); };
    return options;
  };
  Node sleeper(fabric, bound_to(vector, FI_WAIT_FD)), sender(other, bound_to(others, FI_WAIT_NONE));
  int fd = -1;
  ASSERT_EQ(fi_control(sleeper.rx().fid(), FI_GETWAIT, &fd), 0);
  sleeper.enable();
  sender.enable();
  fi_addr_t peer = FI_ADDR_UNSPEC;
  ASSERT_EQ(fi_av_insert(others.get(), Address::local_name(sleeper.fid()).get(), 1, &peer, 0, nullptr), 1);
  Buffer in(fabric, 64), out(other, 64);
  Context received, sent;
  ASSERT_EQ(fi_recv(sleeper.ep(), in.data(), 64, in.desc(), FI_ADDR_UNSPEC, &received), 0);
  std::thread sending([&] {  // does not drive the sleeper
    const auto deadline = after(milliseconds(kWaitMs));
    ssize_t rc = -FI_EAGAIN;
    bool done = false;
    while (!done && Clock::now() < deadline) {
      if (rc == -FI_EAGAIN) rc = fi_send(sender.ep(), out.data(), 8, out.desc(), peer, &sent);
      done = sender.tx().read().rc != -FI_EAGAIN;
    }
    EXPECT_TRUE(done);
  });
  pollfd entry{fd, POLLIN, 0};
  Completion completion;
  while (completion.rc == -FI_EAGAIN && poll(&entry, 1, kWaitMs) > 0) completion = sleeper.rx().read();
  EXPECT_EQ(completion.context(), &received);
  sending.join();
}

TEST_P(WaitObjects, TrywaitRefusesSleepWithAPendingEvent) {
  Fabric fabric(target());
  Pair pair(fabric, with_wait(FI_WAIT_FD));
  Buffer in(fabric, 64), out(fabric, 64);
  Context received, sent;
  ASSERT_EQ(pair.b().recv(in, 64, &received), 0);
  ASSERT_EQ(pair.a().send(out, 8, &sent), 0);
  ASSERT_TRUE(pair.a().tx().wait().ok());
  const auto start = Clock::now();
  while (pair.b().rx().read().rc == -FI_EAGAIN) ASSERT_TRUE(block(fabric, pair.b().rx().fid(), kWaitMs));
  EXPECT_LT(elapsed_ms(start), kPromptMs);
}

TEST_P(WaitObjects, SetOfDescriptorsIsReportedForPollfd) {
  Fabric fabric(target());
  fi_cq_attr attr{};
  attr.wait_obj = FI_WAIT_POLLFD;
  NodeOptions options;
  options.rx_cq = attr;
  Pair pair(fabric, {}, options);
  fi_wait_pollfd wait{};
  EXPECT_EQ(fi_control(pair.b().rx().fid(), FI_GETWAIT, &wait), -FI_ETOOSMALL) << "no room for any";
  ASSERT_GE(wait.nfds, 1u);
  std::vector<pollfd> entries(wait.nfds);
  wait.fd = entries.data();
  ASSERT_EQ(fi_control(pair.b().rx().fid(), FI_GETWAIT, &wait), 0);
  ASSERT_EQ(wait.nfds, entries.size());
  Buffer in(fabric, 64), out(fabric, 64);
  Context received, sent;
  ASSERT_EQ(pair.b().recv(in, 64, &received), 0);
  std::thread sender([&] {
    std::this_thread::sleep_for(milliseconds(50));
    pair.a().send(out, 8, &sent);
    for (const auto deadline = after(kPatience); !pair.a().tx().read().ok() && Clock::now() < deadline;) continue;
  });
  Completion completion;
  fid_t fids[] = {pair.b().rx().fid()};
  for (const auto deadline = after(kPatience); completion.rc == -FI_EAGAIN && Clock::now() < deadline;) {
    if (fi_trywait(fabric.fabric(), fids, 1) == 0) poll(entries.data(), entries.size(), kWaitMs);
    completion = pair.b().rx().read();
  }
  sender.join();
  EXPECT_EQ(completion.context(), &received);
}

TEST_P(WaitObjects, MutexAndConditionWakeTheApplication) {
  Fabric fabric(target());
  fi_eq_attr attr{};
  attr.flags = FI_WRITE;
  attr.wait_obj = FI_WAIT_MUTEX_COND;
  EventQueue eq(fabric, attr);
  fi_mutex_cond wait{};
  ASSERT_EQ(fi_control(eq.fid(), FI_GETWAIT, &wait), 0);
  ASSERT_NE(wait.mutex, nullptr);
  ASSERT_NE(wait.cond, nullptr);
  std::thread writer([&] {
    std::this_thread::sleep_for(milliseconds(50));
    const fi_eq_entry event{};
    EXPECT_GT(fi_eq_write(eq.get(), 1, &event, sizeof event, 0), 0);
  });
  timespec deadline{};
  clock_gettime(CLOCK_REALTIME, &deadline);
  deadline.tv_sec += 8;
  fid_t fids[] = {eq.fid()};
  pthread_mutex_lock(wait.mutex);
  int rc = 0;
  while (rc == 0 && fi_trywait(fabric.fabric(), fids, 1) == 0)
    rc = pthread_cond_timedwait(wait.cond, wait.mutex, &deadline);
  pthread_mutex_unlock(wait.mutex);
  writer.join();
  EXPECT_EQ(rc, 0);
  EXPECT_EQ(eq.read().type, 1);
}

// Otherwise what the program prints, and the log, would be sent to a peer.
TEST_P(WaitObjects, StandardDescriptorsStayClosed) {
  int status = -1;
  child::output_of("close_standard_descriptors", {{"FI_LOG_LEVEL", "debug"}}, &status);
  EXPECT_EQ(status, 0);
}

}  // namespace wait_objects
