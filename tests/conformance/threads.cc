// SPDX-License-Identifier: BSD-2-Clause
// FI_THREAD_SAFE: any thread may make any call; most telling under ThreadSanitizer. fi_domain(3).
#include <pthread.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "fixture/node.h"
#include "fixture/process.h"

namespace threads {

CONFORMANCE_TOPIC(Threads);

namespace {

const HintsEditor kSafe = [](fi_info& hints) { hints.domain_attr->threading = FI_THREAD_SAFE; };
constexpr int kThreads = 4;

// A node of one thread: only that thread reads its queues, so the fixture's driver (which polls all) is not used.
Completion spin(CompletionQueue& cq) {
  Completion completion;
  for (const auto deadline = after(kPatience); completion.rc == -FI_EAGAIN && Clock::now() < deadline;)
    completion = cq.read();
  return completion;
}

Event spin(EventQueue& eq) {
  for (const auto deadline = after(kPatience);;) {
    Event event = eq.read();
    if (event.type != Event::kNothing || Clock::now() > deadline) return event;
    std::this_thread::yield();
  }
}

void run_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

// pthread_cancel(3) of threads that call `body` again and again, a moment after they have started.
void expect_cancelled(int count, const std::function<void()>& body) {
  std::vector<pthread_t> threads(static_cast<size_t>(count));
  const auto run = [](void* argument) -> void* {
    for (;;) (*static_cast<const std::function<void()>*>(argument))();
  };
  for (pthread_t& thread : threads)
    ASSERT_EQ(pthread_create(&thread, nullptr, run, const_cast<std::function<void()>*>(&body)), 0);
  std::this_thread::sleep_for(milliseconds(20));
  for (const pthread_t thread : threads) pthread_cancel(thread);
  for (const pthread_t thread : threads) {
    void* result = nullptr;
    ASSERT_EQ(pthread_join(thread, &result), 0);
    EXPECT_EQ(result, PTHREAD_CANCELED);
  }
}

}  // namespace

TEST_P(Threads, ConnectionsOfOneDomainWorkInParallel) {
  NEEDS(kSafe, "FI_THREAD_SAFE");
  Fabric fabric(target(), kSafe);
  std::unique_ptr<Pair> pairs[kThreads];
  for (auto& pair : pairs) pair = std::make_unique<Pair>(fabric);
  run_threads(kThreads, [&](int which) {
    Pair& pair = *pairs[which];
    Buffer out(fabric, 512), in(fabric, 512);
    Context sent, received;
    for (unsigned i = 0; i < 200; ++i) {
      out.fill_pattern(i);
      for (const auto& [from, to] : {std::pair(&pair.a(), &pair.b()), std::pair(&pair.b(), &pair.a())}) {
        ASSERT_EQ(fi_recv(to->ep(), in.data(), 512, in.desc(), FI_ADDR_UNSPEC, &received), 0);
        ASSERT_EQ(fi_send(from->ep(), out.data(), 512, out.desc(), from->peer, &sent), 0);
        ASSERT_TRUE(spin(to->rx()).ok());
        ASSERT_TRUE(spin(from->tx()).ok());
        ASSERT_TRUE(in.holds_pattern(i, 512));
      }
    }
  });
}

TEST_P(Threads, OneEndpointIsSharedBySendersAndReaders) {
  NEEDS(kSafe, "FI_THREAD_SAFE");
  if (target().ep_type == FI_EP_DGRAM) GTEST_SKIP() << "datagrams may be dropped";
  Fabric fabric(target(), kSafe);
  Pair pair(fabric);
  constexpr int kEach = 250, kTotal = 2 * kEach;
  Buffer in(fabric, 64);
  std::vector<Context> received(kTotal);
  std::atomic<int> arrived{0}, injected{0};
  std::atomic<bool> failed{false};
  std::thread poster([&] {
    for (Context& context : received)
      while (fi_recv(pair.b().ep(), in.data(), 64, in.desc(), FI_ADDR_UNSPEC, &context) == -FI_EAGAIN)
        if (failed) return;
  });
  ProgressLimit limit;
  run_threads(4, [&](int which) {
    if (which < 2) {  // two senders on one endpoint
      for (int i = 0; i < kEach; ++i) {
        const char byte = static_cast<char>(i);
        ssize_t rc;
        while ((rc = fi_inject(pair.a().ep(), &byte, 1, pair.a().peer)) == -FI_EAGAIN && !limit.expired())
          fi_cq_read(pair.a().tx().get(), nullptr, 0);
        if (rc == 0) ++injected;
      }
    } else {  // two readers on one queue
      while (arrived < kTotal && !limit.expired()) {
        if (pair.b().rx().read().ok()) {
          ++arrived;
          limit.progressed();
        }
        fi_cq_read(pair.a().tx().get(), nullptr, 0);
      }
    }
  });
  failed = arrived < kTotal;
  poster.join();
  EXPECT_EQ(injected, kTotal);
  EXPECT_EQ(arrived, kTotal) << "each message counted by exactly one reader";
}

TEST_P(Threads, ConnectAndCloseInParallelOnOneListener) {
  CONNECTED_ONLY();
  NEEDS(kSafe, "FI_THREAD_SAFE");
  Fabric fabric(target(), kSafe);
  Listener listener(fabric);
  constexpr int kEach = 40;
  std::atomic<int> asking{kThreads}, connected{0}, accepted{0};
  std::thread server([&] {
    std::vector<std::unique_ptr<Node>> answerers;
    while (asking > 0) {
      const Event event = listener.eq().read();
      if (event.type == FI_CONNREQ) {
        answerers.push_back(std::make_unique<Node>(fabric, NodeOptions{}, event.info.get()));
        if (answerers.back()->accept() == 0) ++accepted;
      }
      if (answerers.size() > 16) answerers.erase(answerers.begin());
      for (auto& answerer : answerers) answerer->eq().read();
    }
  });
  run_threads(kThreads, [&](int) {
    for (int i = 0; i < kEach; ++i) {
      Node client(fabric);
      if (client.connect(listener.address()) == 0 && spin(client.eq()).type == FI_CONNECTED) ++connected;
    }
    --asking;
  });
  server.join();
  EXPECT_EQ(connected, kThreads * kEach);
  EXPECT_EQ(accepted, kThreads * kEach);
}

TEST_P(Threads, ObjectsAreOpenedAndClosedInParallel) {
  NEEDS(kSafe, "FI_THREAD_SAFE");
  Fabric fabric(target(), kSafe);
  run_threads(kThreads, [&](int) {
    for (int i = 0; i < 50; ++i) {
      Node node(fabric);
      Buffer buffer(fabric, 64, 0, FI_REMOTE_READ);
    }
  });
}

// A domain may make what its children share when the first of them is opened.
TEST_P(Threads, FirstChildrenOfADomainAreOpenedInParallel) {
  NEEDS(kSafe, "FI_THREAD_SAFE");
  for (int round = 0; round < 20; ++round) {
    Fabric fabric(target(), kSafe);
    fid_cq* cq = nullptr;
    fid_cntr* counter = nullptr;
    fid_ep* ep = nullptr;
    std::atomic<int> missing{3};
    run_threads(3, [&](int which) {
      fi_cq_attr cq_attr{};
      fi_cntr_attr counter_attr{};
      for (--missing; missing != 0;) std::this_thread::yield();
      if (which == 0) {
        EXPECT_EQ(fi_cq_open(fabric.domain(), &cq_attr, &cq, nullptr), 0);
      }
      if (which == 1) {
        EXPECT_EQ(fi_cntr_open(fabric.domain(), &counter_attr, &counter, nullptr), 0);
      }
      if (which == 2) {
        EXPECT_EQ(fi_endpoint(fabric.domain(), fabric.info(), &ep, nullptr), 0);
      }
    });
    const Handle<fid_cq> close_cq(cq);
    const Handle<fid_cntr> close_counter(counter);
    const Handle<fid_ep> close_ep(ep);
    ASSERT_TRUE(cq != nullptr && counter != nullptr && ep != nullptr);
    EXPECT_EQ(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), 0) << "one domain";
    EXPECT_EQ(fi_ep_bind(ep, &counter->fid, FI_SEND), 0) << "one domain";
  }
}

TEST_P(Threads, InformationIsQueriedInParallel) {
  run_threads(kThreads, [&](int) {
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(Fabric::offers(target(), {}));
      const uint64_t caps = FI_MSG | FI_RMA;
      char text[256];
      EXPECT_STREQ(fi_tostr_r(text, sizeof text, &caps, FI_TYPE_CAPS), text);
    }
  });
}

TEST_P(Threads, BothEndsBlockInThreadsOfTheirOwn) {
  NEEDS(kSafe, "FI_THREAD_SAFE");
  Fabric fabric(target(), kSafe);
  NodeOptions blocking;
  blocking.tx_cq.wait_obj = blocking.rx_cq.wait_obj = FI_WAIT_UNSPEC;
  Pair pair(fabric, blocking);
  constexpr int kRounds = 100;
  run_threads(2, [&](int which) {  // thread 0 sends first, thread 1 receives first
    Node& node = pair.node(which);
    Buffer in(fabric, 64), out(fabric, 64);
    Context sent, received;
    fi_cq_tagged_entry entry;
    const auto send = [&] {
      return fi_send(node.ep(), out.data(), 8, out.desc(), node.peer, &sent) == 0 &&
             fi_cq_sread(node.tx().get(), &entry, 1, nullptr, 10'000) == 1;
    };
    for (int i = 0; i < kRounds; ++i) {
      ASSERT_EQ(fi_recv(node.ep(), in.data(), 64, in.desc(), FI_ADDR_UNSPEC, &received), 0);
      const bool went = which == 1 || send();
      ASSERT_TRUE(went) << "round " << i;
      ASSERT_EQ(fi_cq_sread(node.rx().get(), &entry, 1, nullptr, 10'000), 1) << "round " << i;
      const bool answered = which == 0 || send();
      ASSERT_TRUE(answered) << "round " << i;
    }
  });
}

// The other thread has made progress since the sleeper fell asleep, and makes none afterwards.
TEST_P(Threads, SleeperIsWokenOverAConnectionThatAnotherThreadHasAccepted) {
  CONNECTED_ONLY();
  NEEDS(kSafe, "FI_THREAD_SAFE");
  Fabric fabric(target(), kSafe), peers(target(), kSafe);
  NodeOptions blocking;
  blocking.tx_cq.wait_obj = blocking.rx_cq.wait_obj = blocking.eq.wait_obj = FI_WAIT_UNSPEC;
  Listener listener(fabric);
  Node client(peers, blocking);
  ASSERT_EQ(client.connect(listener.address()), 0);
  const InfoPtr request = listener.next_request();
  Node answerer(fabric, blocking, request.get());
  answerer.enable();
  Buffer in(fabric, 8);
  Context received;
  ASSERT_EQ(fi_recv(answerer.ep(), in.data(), 8, in.desc(), FI_ADDR_UNSPEC, &received), 0);
  std::thread sleeper([&] {
    fi_cq_tagged_entry entry;
    EXPECT_EQ(fi_cq_sread(answerer.rx().get(), &entry, 1, nullptr, kWaitMs), 1);
  });
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(answerer.eq().read().type, Event::kNothing);
  EXPECT_EQ(answerer.accept(), 0);
  EXPECT_EQ(spin(client.eq()).type, FI_CONNECTED);
  EXPECT_EQ(spin(answerer.eq()).type, FI_CONNECTED);
  std::this_thread::sleep_for(milliseconds(50));
  const char byte = 0;
  const auto start = Clock::now();
  EXPECT_EQ(fi_inject(client.ep(), &byte, 1, client.peer), 0);
  sleeper.join();
  EXPECT_LT(elapsed_ms(start), kWaitMs / 2) << "only the end of its wait woke the sleeper";
}

TEST_P(Threads, SleeperIsWokenByAMessageThatWaitsForAReceiveOfAnotherThread) {
  NEEDS(kSafe, "FI_THREAD_SAFE");
  Fabric fabric(target(), kSafe);
  NodeOptions blocking;
  blocking.tx_cq.wait_obj = blocking.rx_cq.wait_obj = FI_WAIT_UNSPEC;
  Pair pair(fabric, blocking);
  Buffer in(fabric, 8);
  Context received;
  std::thread sleeper([&] {
    fi_cq_tagged_entry entry;
    EXPECT_EQ(fi_cq_sread(pair.b().rx().get(), &entry, 1, nullptr, kWaitMs), 1);
  });
  std::this_thread::sleep_for(milliseconds(50));
  const char byte = 0;
  EXPECT_EQ(fi_inject(pair.a().ep(), &byte, 1, pair.a().peer), 0);
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(pair.a().tx().read().rc, -FI_EAGAIN);
  const auto start = Clock::now();
  EXPECT_EQ(fi_recv(pair.b().ep(), in.data(), 8, in.desc(), FI_ADDR_UNSPEC, &received), 0);
  sleeper.join();
  EXPECT_LT(elapsed_ms(start), kWaitMs / 2) << "only the end of its wait woke the sleeper";
}

TEST_P(Threads, BlockedReadersOfOneQueueWaitUntilTheyHaveAnEntry) {
  NEEDS(kSafe, "FI_THREAD_SAFE");
  if (target().ep_type == FI_EP_DGRAM) GTEST_SKIP() << "datagrams may be dropped";
  Fabric fabric(target(), kSafe);
  NodeOptions blocking;
  blocking.tx_cq.wait_obj = blocking.rx_cq.wait_obj = FI_WAIT_UNSPEC;
  Pair pair(fabric, blocking);
  constexpr int kEach = 500;
  Buffer in(fabric, 8);
  Context received;
  std::atomic<int> arrived{0}, early{0};
  std::thread sender([&] {
    const char byte = 0;
    ProgressLimit limit;
    for (int sent = 0; sent < kThreads * kEach && !limit.expired(); ++sent) {
      EXPECT_EQ(pair.b().recv(in, 8, &received), 0);
      EXPECT_EQ(repeat([&] { return fi_inject(pair.a().ep(), &byte, 1, pair.a().peer); }), 0);
      while (arrived <= sent && !limit.expired()) std::this_thread::sleep_for(std::chrono::microseconds(20));
      limit.progressed();
    }
  });
  run_threads(kThreads, [&](int) {
    for (int i = 0; i < kEach;) {
      fi_cq_tagged_entry entry;
      const ssize_t rc = fi_cq_sread(pair.b().rx().get(), &entry, 1, nullptr, kWaitMs);
      rc == 1 ? ++i, ++arrived : ++early;
      ASSERT_TRUE(rc == 1 || rc == -FI_EAGAIN);
    }
  });
  sender.join();
  EXPECT_EQ(early, 0) << "calls ended before their time-out";
}

TEST_P(Threads, BlockedThreadsAreCancelled) {
  if (kFollowsThreads) GTEST_SKIP() << "ThreadSanitizer loses cancelled threads";
  NEEDS(kSafe, "FI_THREAD_SAFE");
  Fabric fabric(target(), kSafe);
  NodeOptions blocking;
  blocking.tx_cq.wait_obj = blocking.rx_cq.wait_obj = blocking.eq.wait_obj = FI_WAIT_UNSPEC;
  Pair pair(fabric, blocking);
  for (int round = 0; round < 5; ++round) {
    expect_cancelled(2, [&] {  // one of them sleeps on descriptors, the other one on it
      fi_cq_tagged_entry entry;
      fi_cq_sread(pair.a().rx().get(), &entry, 1, nullptr, -1);
    });
    expect_cancelled(1, [&] {
      fi_cq_tagged_entry entry;
      fi_addr_t from = 0;
      fi_cq_sreadfrom(pair.a().tx().get(), &entry, 1, &from, nullptr, 60'000);
    });
    expect_cancelled(2, [&] {
      uint32_t event = 0;
      char entry[256];
      fi_eq_sread(pair.a().eq().get(), &event, entry, sizeof entry, -1, 0);
    });
    expect_exchange(pair);
  }
}

// Runtimes with light threads give each a few pages.
TEST_P(Threads, SmallStacksAreEnough) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's frames are larger";
  pthread_attr_t attributes;
  pthread_t thread;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, 32 * 1024), 0);
  const auto run = [](void* argument) -> void* {
    const Target& target = *static_cast<const Target*>(argument);
    Fabric fabric(target);
    Pair pair(fabric);
    expect_exchange(pair);
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, const_cast<Target*>(&target())), 0);
  EXPECT_EQ(pthread_join(thread, nullptr), 0);
  pthread_attr_destroy(&attributes);
}

}  // namespace threads
