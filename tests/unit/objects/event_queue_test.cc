// SPDX-License-Identifier: BSD-2-Clause
// Event queues through their ops tables; fi_eq(3), fi_cm(3) (events).
#include "objects/event_queue.h"

#include <gtest/gtest.h>
#include <rdma/fi_errno.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include "fake_engine.h"

namespace weft {
namespace {

using namespace std::chrono_literals;

struct EventQueueTest : testing::Test {
  using Queue = EventQueue<FakeEngine>;

  void open(uint64_t flags = FI_WRITE, fi_wait_obj wait = FI_WAIT_FD, uint32_t api = FI_VERSION(2, 6)) {
    fi_eq_attr attr{};
    attr.flags = flags;
    attr.wait_obj = wait;
    queue = Queue::open(parent.ref(), &attr, api, &context).value();
    ASSERT_TRUE(queue->attach(engine).ok());
    eq = &queue->abi;
  }
  void TearDown() override {
    if (eq != nullptr) {
      queue->detach(engine);
      EXPECT_EQ(fi_close(&eq->fid), 0);
    }
    EXPECT_FALSE(parent.in_use());
  }
  void post(uint64_t data) {
    const fi_eq_entry entry{&object, &context, data};
    queue->post(EventQueueCore::reserve_result(), FI_MR_COMPLETE, entry);
  }
  void post_error(int err, std::string sentence = {}, std::vector<std::byte> data = {}) {
    EqError error;
    error.fid = &object;
    error.err = err;
    error.prov_errno = err + 1000;
    error.sentence = std::move(sentence);
    error.err_data = std::move(data);
    queue->post_error(std::move(error), EventQueueCore::reserve(0));
  }
  uint64_t read_data() {
    fi_eq_entry entry{};
    uint32_t event = 0;
    EXPECT_EQ(fi_eq_read(eq, &event, &entry, sizeof entry, 0), static_cast<ssize_t>(sizeof entry));
    return entry.data;
  }

  int context = 0;
  ::fid object{};
  FakeParent parent;
  FakeEngine engine;
  Queue* queue = nullptr;
  fid_eq* eq = nullptr;
};

TEST_F(EventQueueTest, ReadsEventsInOrderAndDrivesWhenEmpty) {
  open();
  fi_eq_entry entry{};
  uint32_t event = 0;
  EXPECT_EQ(fi_eq_read(eq, &event, &entry, sizeof entry, 0), -FI_EAGAIN);
  EXPECT_EQ(engine.drives, 1);
  post(1);
  post(2);
  EXPECT_EQ(read_data(), 1u);
  EXPECT_EQ(fi_eq_read(eq, &event, &entry, sizeof entry, 0), static_cast<ssize_t>(sizeof entry));
  EXPECT_EQ(event, static_cast<uint32_t>(FI_MR_COMPLETE));
  EXPECT_EQ(entry.fid, &object);
  EXPECT_EQ(entry.context, &context);
  EXPECT_EQ(engine.drives, 1);
}

TEST_F(EventQueueTest, PeekLeavesTheEvent) {
  open();
  post(1);
  fi_eq_entry entry{};
  uint32_t event = 0;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(fi_eq_read(eq, &event, &entry, sizeof entry, FI_PEEK), static_cast<ssize_t>(sizeof entry));
    EXPECT_EQ(fi_eq_sread(eq, &event, &entry, sizeof entry, 0, FI_PEEK), static_cast<ssize_t>(sizeof entry));
  }
  EXPECT_EQ(read_data(), 1u);
  EXPECT_EQ(fi_eq_read(eq, &event, &entry, sizeof entry, FI_PEEK), -FI_EAGAIN);
  post(2);
  EXPECT_EQ(fi_eq_read(eq, &event, &entry, sizeof entry, 10), static_cast<ssize_t>(sizeof entry)) << "ignored";
}

TEST_F(EventQueueTest, TooSmallABufferLosesNoEvent) {
  open();
  post(1);
  char byte;
  uint32_t event = 77;
  EXPECT_EQ(fi_eq_read(eq, &event, &byte, 1, 0), -FI_ETOOSMALL);
  EXPECT_EQ(fi_eq_sread(eq, &event, &byte, 1, -1, 0), -FI_ETOOSMALL);
  EXPECT_EQ(event, 77u);
  EXPECT_EQ(read_data(), 1u);
}

TEST_F(EventQueueTest, ConnectionDataIsCutToTheBuffer) {
  open();
  alignas(fi_eq_cm_entry) std::array<char, sizeof(fi_eq_cm_entry) + 8> bytes;
  const auto* entry = reinterpret_cast<const fi_eq_cm_entry*>(bytes.data());
  uint32_t event = 0;
  for (auto [room, expected] : {std::pair{8, 5}, std::pair{3, 3}, std::pair{0, 0}}) {
    queue->post_cm(EventQueueCore::reserve(5), FI_CONNECTED, &object, nullptr, "hello", 5);
    EXPECT_EQ(fi_eq_read(eq, &event, bytes.data(), sizeof(fi_eq_cm_entry) - 1, 0), -FI_ETOOSMALL);
    bytes.fill(0);
    EXPECT_EQ(fi_eq_read(eq, &event, bytes.data(), sizeof(fi_eq_cm_entry) + static_cast<size_t>(room), 0),
              static_cast<ssize_t>(sizeof(fi_eq_cm_entry)) + expected);
    EXPECT_EQ(event, static_cast<uint32_t>(FI_CONNECTED));
    EXPECT_EQ(entry->fid, &object);
    EXPECT_EQ(entry->info, nullptr);
    EXPECT_EQ(std::string(&bytes[sizeof(fi_eq_cm_entry)]),
              std::string("hello").substr(0, static_cast<size_t>(expected)));
  }
}

TEST_F(EventQueueTest, LastEventIsTheHeldErrorOrAShutdown) {
  open();
  auto entry = EventQueueCore::reserve(0);
  ASSERT_NE(entry, nullptr);
  EventQueueCore::hold(*entry, EqError(object, FI_EIO, 0, "the port is down"));
  queue->post_end(std::move(entry), &object);
  queue->post_end(EventQueueCore::reserve(0), &object);
  fi_eq_err_entry error{};
  ASSERT_GT(fi_eq_readerr(eq, &error, 0), 0);
  EXPECT_EQ(error.err, FI_EIO);
  EXPECT_STREQ(fi_eq_strerror(eq, error.prov_errno, error.err_data, nullptr, 0), "the port is down");
  fi_eq_cm_entry last{};
  uint32_t event = 0;
  EXPECT_EQ(fi_eq_read(eq, &event, &last, sizeof last, 0), static_cast<ssize_t>(sizeof last));
  EXPECT_EQ(event, static_cast<uint32_t>(FI_SHUTDOWN));
  EXPECT_EQ(last.fid, &object);
}

TEST_F(EventQueueTest, HoldsAnyNumberOfErrorsInOrderWithEvents) {
  open();
  post(1);
  for (int i = 1; i <= 100; ++i) post_error(i);
  post(2);
  EXPECT_EQ(read_data(), 1u);
  fi_eq_entry entry;
  uint32_t event;
  for (int i = 1; i <= 100; ++i) {
    EXPECT_EQ(fi_eq_read(eq, &event, &entry, sizeof entry, 0), -FI_EAVAIL);
    fi_eq_err_entry error{};
    ASSERT_EQ(fi_eq_readerr(eq, &error, 0), static_cast<ssize_t>(sizeof error));
    EXPECT_EQ(error.err, i);
    EXPECT_EQ(error.prov_errno, i + 1000);
    EXPECT_EQ(error.fid, &object);
  }
  EXPECT_EQ(read_data(), 2u);
  fi_eq_err_entry none{};
  EXPECT_EQ(fi_eq_readerr(eq, &none, 0), -FI_EAGAIN);
}

TEST_F(EventQueueTest, ErrorDataIsCopiedOrLent) {
  open();
  const std::vector<std::byte> data(6, std::byte{'x'});
  post_error(1, {}, data);
  post_error(2, {}, data);
  post_error(3);
  char room[4] = {};
  fi_eq_err_entry error{};
  error.err_data = room;
  error.err_data_size = 3;
  ASSERT_GT(fi_eq_readerr(eq, &error, FI_PEEK), 0);
  ASSERT_GT(fi_eq_readerr(eq, &error, 0), 0);
  EXPECT_EQ(error.err, 1);
  EXPECT_EQ(error.err_data, room);
  EXPECT_EQ(error.err_data_size, 3u);
  EXPECT_STREQ(room, "xxx");
  error.err_data_size = 0;
  ASSERT_GT(fi_eq_readerr(eq, &error, 0), 0);
  ASSERT_EQ(error.err_data_size, 6u);
  EXPECT_EQ(std::memcmp(error.err_data, data.data(), 6), 0);
  error.err_data_size = 0;
  ASSERT_GT(fi_eq_readerr(eq, &error, 0), 0);
  EXPECT_EQ(error.err_data, nullptr);
}

TEST_F(EventQueueTest, BeforeApi15ErrorDataIsAlwaysLent) {
  open(FI_WRITE, FI_WAIT_FD, FI_VERSION(1, 4));
  post_error(1, {}, std::vector<std::byte>(6));
  char room[4];
  fi_eq_err_entry error{};
  error.err_data = room;
  error.err_data_size = 3;
  ASSERT_GT(fi_eq_readerr(eq, &error, 0), 0);
  EXPECT_NE(error.err_data, room);
  EXPECT_EQ(error.err_data_size, 6u);
}

TEST_F(EventQueueTest, StrerrorReturnsTheSentenceOfTheErrorReadLast) {
  open();
  post_error(1, "connect to 127.0.0.1:1 was refused after 2 ms");
  fi_eq_err_entry error{};
  ASSERT_GT(fi_eq_readerr(eq, &error, 0), 0);
  char text[64];
  EXPECT_EQ(fi_eq_strerror(eq, error.prov_errno, error.err_data, text, sizeof text), text);
  EXPECT_STREQ(text, "connect to 127.0.0.1:1 was refused after 2 ms");
  EXPECT_STREQ(fi_eq_strerror(eq, error.prov_errno, nullptr, nullptr, 0), text);
  EXPECT_STREQ(fi_eq_strerror(eq, 5, nullptr, text, sizeof text), "some error");
}

TEST_F(EventQueueTest, WriteInsertsUserEventsIfOpenedForWriting) {
  open();
  EXPECT_EQ(fi_eq_write(eq, FI_NOTIFY, "user", 5, 0), 5);
  EXPECT_EQ(fi_eq_write(eq, FI_NOTIFY, nullptr, 0, 0), 0);
  EXPECT_EQ(fi_eq_write(eq, FI_NOTIFY, nullptr, 5, 0), -FI_EINVAL);
  EXPECT_EQ(fi_eq_write(eq, FI_NOTIFY, "user", 5, FI_MORE), -FI_EBADFLAGS);
  char buf[8];
  uint32_t event = 0;
  EXPECT_EQ(fi_eq_read(eq, &event, buf, 4, 0), -FI_ETOOSMALL);
  EXPECT_EQ(fi_eq_read(eq, &event, buf, sizeof buf, 0), 5);
  EXPECT_STREQ(buf, "user");
  EXPECT_EQ(fi_eq_read(eq, &event, buf, sizeof buf, 0), 0);
  TearDown();
  open(0);
  EXPECT_EQ(fi_eq_write(eq, FI_NOTIFY, "user", 5, 0), -FI_EINVAL);
}

TEST_F(EventQueueTest, RemoveDropsTheEventsOfAClosedObject) {
  open();
  ::fid other{};
  fi_info* const infos[] = {allocate_info(), allocate_info()};
  queue->post_cm(EventQueueCore::reserve(4), FI_CONNREQ, &object, infos[0], "data", 4);
  post_error(1);
  queue->post_cm(EventQueueCore::reserve(0), FI_CONNREQ, &object, infos[1], nullptr, 0);
  queue->post_cm(EventQueueCore::reserve(0), FI_SHUTDOWN, &other, nullptr, nullptr, 0);
  const InfoPtr removed = queue->remove(&object);
  ASSERT_EQ(removed.get(), infos[1]);
  EXPECT_EQ(removed->next, infos[0]);
  EXPECT_EQ(infos[0]->next, nullptr);
  fi_eq_cm_entry entry{};
  uint32_t event = 0;
  EXPECT_EQ(fi_eq_read(eq, &event, &entry, sizeof entry, 0), static_cast<ssize_t>(sizeof entry));
  EXPECT_EQ(entry.fid, &other);
  EXPECT_FALSE(queue->ready());
}

TEST_F(EventQueueTest, DrivesAttachedEnginesUntilTheLastDetach) {
  open();
  FakeEngine domain;
  ASSERT_TRUE(queue->attach(domain).ok());
  ASSERT_TRUE(queue->attach(domain).ok());
  queue->detach(domain);
  queue->drive();
  EXPECT_EQ(domain.drives, 1);
  domain.may_sleep = false;
  EXPECT_EQ(queue->trywait(), -FI_EAGAIN);
  queue->detach(domain);
  EXPECT_EQ(queue->trywait(), 0);
  queue->drive();
  EXPECT_EQ(domain.drives, 1);
}

TEST_F(EventQueueTest, SreadSleepsOnManyEnginesAndNoticesNewOnes) {
  open();
  std::vector<FakeEngine> domains(12);
  for (size_t i = 0; i < 11; ++i) ASSERT_TRUE(queue->attach(domains[i]).ok());
  std::atomic<bool> arrived{false};
  domains[11].on_drive = [&] {
    if (arrived.exchange(false)) post(9);
  };
  std::jthread connector([&] {
    std::this_thread::sleep_for(20ms);
    ASSERT_TRUE(queue->attach(domains[11]).ok());
    std::this_thread::sleep_for(20ms);
    arrived = true;
    domains[11].stir();
  });
  fi_eq_entry entry{};
  uint32_t event = 0;
  EXPECT_EQ(fi_eq_sread(eq, &event, &entry, sizeof entry, 20000, 0), static_cast<ssize_t>(sizeof entry));
  EXPECT_EQ(entry.data, 9u);
  connector.join();
  for (FakeEngine& domain : domains) queue->detach(domain);
}

TEST_F(EventQueueTest, SreadRespectsItsDeadlineAndItsWaitObject) {
  open();
  fi_eq_entry entry;
  uint32_t event;
  const auto start = Clock::now();
  EXPECT_EQ(fi_eq_sread(eq, &event, &entry, sizeof entry, 30, 0), -FI_EAGAIN);
  EXPECT_GE(Clock::now() - start, 30ms);
  TearDown();
  open(0, FI_WAIT_NONE);
  EXPECT_EQ(fi_eq_sread(eq, &event, &entry, sizeof entry, 30, 0), -FI_EAGAIN);
  TearDown();
  open(0, FI_WAIT_MUTEX_COND);
  fi_mutex_cond pair{};
  EXPECT_EQ(fi_control(&eq->fid, FI_GETWAIT, &pair), 0);
  EXPECT_NE(pair.mutex, nullptr);
}

// The descriptor of a wait object is opened for the first sleeper.
TEST_F(EventQueueTest, WithoutAFreeDescriptorEventsStillArrive) {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  open();
  // Started here, because a sanitizer opens descriptors of its own when a thread starts.
  std::atomic<bool> started{false}, goes_on{false};
  std::thread poster([&] {
    started = true;
    while (!goes_on) std::this_thread::yield();
    std::this_thread::sleep_for(30ms);
    post(7);
  });
  while (!started) std::this_thread::yield();
  const int next = dup(0);
  ASSERT_GE(next, 0);
  ::close(next);
  const rlimit none{static_cast<rlim_t>(next), limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  int fd = -1;
  EXPECT_EQ(fi_control(&eq->fid, FI_GETWAIT, &fd), -FI_EMFILE);
  fi_eq_entry entry{};
  uint32_t event = 0;
  timespec before{}, after{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
  const auto start = Clock::now();
  EXPECT_EQ(fi_eq_sread(eq, &event, &entry, sizeof entry, 200, 0), -FI_EAGAIN);
  EXPECT_GE(Clock::now() - start, 200ms);
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
  const auto used = (after.tv_sec - before.tv_sec) * 1'000'000'000 + after.tv_nsec - before.tv_nsec;
  EXPECT_LT(used, 60'000'000) << "it sleeps";
  goes_on = true;
  EXPECT_EQ(fi_eq_sread(eq, &event, &entry, sizeof entry, 10'000, 0), static_cast<ssize_t>(sizeof entry));
  EXPECT_EQ(entry.data, 7u);
  poster.join();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(fi_control(&eq->fid, FI_GETWAIT, &fd), 0);
}

TEST_F(EventQueueTest, CloseIsBusyWhileInUse) {
  open();
  const Ref<EventQueueCore> user(*queue);
  EXPECT_EQ(fi_close(&eq->fid), -FI_EBUSY);
}

}  // namespace
}  // namespace weft
