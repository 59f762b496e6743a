// SPDX-License-Identifier: BSD-2-Clause
// When the locks of a domain are on: the threading model decides, until other threads may use it.
#include "objects/engine_base.h"

#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include "fake_engine.h"
#include "objects/completion_queue.h"
#include "objects/counter.h"
#include "objects/event_queue.h"

namespace weft {
namespace {

class TurnsEngine : public EngineBase {
 public:
  explicit TurnsEngine(Turns turns) : EngineBase(turns) { EXPECT_TRUE(open_descriptors().ok()); }
  ~TurnsEngine() { stop_service(); }
  void drive() noexcept {}
  bool prepare_wait() noexcept { return true; }
  std::atomic<unsigned> watchers{0};
  Status start_service_thread() {
    return start_service([]() noexcept {});
  }

  // Enables an endpoint with `bound` queues and counters.
  void enable_endpoint(std::size_t bound) {
    Lock lock(mutex_);
    on_enabled(bound);
  }
};

struct EngineBaseTest : testing::Test {
  using Queue = CompletionQueue<TurnsEngine>;
  Queue* open_queue(TurnsEngine& engine, fi_wait_obj wait = FI_WAIT_NONE) {
    fi_cq_attr attr{};
    attr.wait_obj = wait;
    return Queue::open(parent.ref(), &attr, engine, FI_VERSION(2, 6), engine.locking_with(&attr), nullptr, nullptr)
        .value();
  }
  FakeParent parent;
};

// The kernel refuses the 501st epoll descriptor that watches another one. Each queue is one of the application's, too.
TEST_F(EngineBaseTest, AnyNumberOfEventQueuesHasADescriptor) {
  using Events = EventQueue<TurnsEngine>;
  TurnsEngine engine(Turns::kDomain);
  fi_eq_attr attr{};
  attr.wait_obj = FI_WAIT_FD;
  const UniqueFd own(::epoll_create1(EPOLL_CLOEXEC));
  std::vector<Events*> queues;
  for (int i = 0; i < 600; ++i) {
    queues.push_back(Events::open(parent.ref(), &attr, FI_VERSION(2, 6), nullptr).value());
    ASSERT_TRUE(queues.back()->attach(engine).ok()) << i;
    int fd = -1;
    ASSERT_EQ(queues.back()->control(FI_GETWAIT, &fd), 0) << i;
    epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
    ASSERT_EQ(::epoll_ctl(own.get(), EPOLL_CTL_ADD, fd, &event), 0) << i;
  }
  for (Events* queue : queues) {
    queue->detach(engine);
    EXPECT_EQ(queue->close(), 0);
  }
  EXPECT_EQ(engine.watchers, 0u);
}

TEST_F(EngineBaseTest, ThreadingModelsSelectTurns) {
  fi_domain_attr attr{};
  const std::pair<fi_threading, Turns> models[] = {
      {FI_THREAD_UNSPEC, Turns::kNone},   {FI_THREAD_SAFE, Turns::kNone},
      {FI_THREAD_FID, Turns::kNone},      {FI_THREAD_ENDPOINT, Turns::kNone},
      {FI_THREAD_DOMAIN, Turns::kDomain}, {FI_THREAD_COMPLETION, Turns::kCompletion},
  };
  for (const auto& [threading, turns] : models) {
    attr.threading = threading;
    attr.progress = FI_PROGRESS_MANUAL;
    EXPECT_EQ(turns_of(attr), turns) << threading;
    attr.progress = FI_PROGRESS_AUTO;
    EXPECT_EQ(turns_of(attr), Turns::kNone) << threading;
  }
}

TEST_F(EngineBaseTest, SerialisedDomainLocksOnlyWithOtherThreads) {
  TurnsEngine engine(Turns::kDomain);
  Queue* first = open_queue(engine);
  Queue* second = open_queue(engine);
  Mutex other(false);
  engine.lock_along(other);
  engine.on_endpoint_opened();
  engine.on_endpoint_opened();
  engine.enable_endpoint(1);
  EXPECT_FALSE(engine.locking());
  engine.expect_groups();
  EXPECT_FALSE(engine.locking());
  engine.expect_others();
  EXPECT_TRUE(engine.locking());
  EXPECT_TRUE(other.enabled());
  engine.enable_endpoint(2);
  EXPECT_TRUE(engine.locking()) << "for good";
  EXPECT_EQ(first->close(), 0);
  EXPECT_EQ(second->close(), 0);
}

TEST_F(EngineBaseTest, EventQueueTurnsLocksOn) {
  TurnsEngine engine(Turns::kDomain);
  fi_eq_attr attr{};
  auto* events = EventQueue<TurnsEngine>::open(parent.ref(), &attr, FI_VERSION(2, 6), nullptr).value();
  ASSERT_TRUE(events->attach(engine).ok());
  EXPECT_TRUE(engine.locking());
  events->detach(engine);
  EXPECT_EQ(events->close(), 0);
}

TEST_F(EngineBaseTest, QueueWithADriverThreadTurnsLocksOn) {
  TurnsEngine engine(Turns::kDomain);
  Queue* queue = open_queue(engine, FI_WAIT_MUTEX_COND);
  EXPECT_TRUE(engine.locking());
  EXPECT_EQ(queue->close(), 0);
}

TEST_F(EngineBaseTest, OnlyEndpointWithAllQueuesHasNoLocks) {
  TurnsEngine engine(Turns::kCompletion);
  EXPECT_TRUE(engine.locking());
  Queue* first = open_queue(engine);
  Queue* second = open_queue(engine);
  engine.on_endpoint_opened();
  engine.enable_endpoint(1);
  EXPECT_TRUE(engine.locking()) << "another thread may read the other queue";
  engine.enable_endpoint(2);
  EXPECT_FALSE(engine.locking());
  Queue* third = open_queue(engine);
  EXPECT_TRUE(engine.locking()) << "another thread may read this queue";
  EXPECT_EQ(third->close(), 0);
  engine.enable_endpoint(2);
  EXPECT_FALSE(engine.locking());
  engine.on_endpoint_opened();
  EXPECT_TRUE(engine.locking()) << "another thread may use the other endpoint";
  engine.enable_endpoint(2);
  EXPECT_TRUE(engine.locking());
  engine.on_endpoint_closed();
  engine.enable_endpoint(2);
  EXPECT_FALSE(engine.locking());
  engine.expect_groups();
  EXPECT_TRUE(engine.locking());
  engine.enable_endpoint(2);
  EXPECT_TRUE(engine.locking()) << "for good";
  EXPECT_EQ(first->close(), 0);
  EXPECT_EQ(second->close(), 0);
}

TEST_F(EngineBaseTest, CountersCountLikeQueues) {
  TurnsEngine engine(Turns::kCompletion);
  fi_cntr_attr attr{};
  attr.wait_obj = FI_WAIT_NONE;
  auto* counter = Counter<TurnsEngine>::open(parent.ref(), &attr, engine, engine.locking_with(&attr), nullptr).value();
  Queue* queue = open_queue(engine);
  engine.on_endpoint_opened();
  engine.enable_endpoint(1);
  EXPECT_TRUE(engine.locking());
  engine.enable_endpoint(2);
  EXPECT_FALSE(engine.locking());
  EXPECT_EQ(counter->close(), 0);
  EXPECT_EQ(queue->close(), 0);
}

}  // namespace
}  // namespace weft
