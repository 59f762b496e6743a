// SPDX-License-Identifier: BSD-2-Clause
// Completion queues through their ops tables, as an application sees them; fi_cq(3).
#include "objects/completion_queue.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <cstring>
#include <thread>
#include <vector>

#include "fake_engine.h"
#include "public_symbols.h"

namespace weft {
namespace {

using namespace std::chrono_literals;

struct CompletionQueueTest : testing::Test {
  using Queue = CompletionQueue<FakeEngine>;
  static constexpr uint32_t kApi = FI_VERSION(2, 6);

  Queue& open(fi_cq_format format, fi_wait_obj wait = FI_WAIT_NONE, uint32_t api = kApi, bool locking = true,
              fi_cq_wait_cond cond = FI_CQ_COND_NONE) {
    attr.format = format;
    attr.wait_obj = wait;
    attr.wait_cond = cond;
    queue = Queue::open(parent.ref(), &attr, engine, api, locking, nullptr, &context).value();
    cq = &queue->abi;
    return *queue;
  }
  void TearDown() override {
    if (cq == nullptr) return;
    EXPECT_EQ(fi_close(&cq->fid), 0);
    EXPECT_FALSE(parent.in_use());
  }
  void write(uint64_t number, fi_addr_t source = FI_ADDR_NOTAVAIL) {
    queue->write({.context = reinterpret_cast<void*>(number),
                  .flags = FI_RECV | FI_MSG,
                  .len = number + 1,
                  .buf = &context,
                  .data = number + 2,
                  .tag = number + 3,
                  .src_addr = source});
  }
  void write_error(uint64_t number, const void* data = nullptr, size_t size = 0) {
    CompletionError error;
    error.context = reinterpret_cast<void*>(number);
    error.flags = FI_SEND;
    error.tag = 7;
    error.olen = 8;
    error.err = FI_ETRUNC;
    error.prov_errno = 9;
    error.err_data = data;
    error.err_data_size = size;
    error.src_addr = 10;
    queue->write_error(error);
  }
  uint64_t read_context() {
    fi_cq_tagged_entry entry{};
    EXPECT_EQ(fi_cq_read(cq, &entry, 1), 1);
    return reinterpret_cast<uint64_t>(entry.op_context);
  }

  int context = 0;
  fi_cq_attr attr{};
  FakeParent parent;
  FakeEngine engine;
  Queue* queue = nullptr;
  fid_cq* cq = nullptr;
};

TEST_F(CompletionQueueTest, HandleHasClassContextAndFullTables) {
  open(FI_CQ_FORMAT_TAGGED);
  EXPECT_EQ(cq->fid.fclass, static_cast<size_t>(FI_CLASS_CQ));
  EXPECT_EQ(cq->fid.context, &context);
  EXPECT_EQ(Queue::from(&cq->fid), queue);
  EXPECT_EQ(Queue::from(nullptr), nullptr);
  EXPECT_TRUE(parent.in_use());
}

TEST_F(CompletionQueueTest, EachFormatGetsItsPrefix) {
  for (auto [format, size] :
       {std::pair{FI_CQ_FORMAT_UNSPEC, 8}, std::pair{FI_CQ_FORMAT_CONTEXT, 8}, std::pair{FI_CQ_FORMAT_MSG, 24},
        std::pair{FI_CQ_FORMAT_DATA, 40}, std::pair{FI_CQ_FORMAT_TAGGED, 48}}) {
    open(format);
    write(100);
    write(200);
    std::array<unsigned char, 2 * 48 + 8> bytes;
    bytes.fill(0xEE);
    ASSERT_EQ(fi_cq_read(cq, bytes.data(), 2), 2);
    for (uint64_t i : {0, 1}) {
      const uint64_t number = 100 * (i + 1);
      fi_cq_tagged_entry expected{
          reinterpret_cast<void*>(number), FI_RECV | FI_MSG, number + 1, &context, number + 2, number + 3};
      EXPECT_EQ(std::memcmp(&bytes[i * static_cast<size_t>(size)], &expected, static_cast<size_t>(size)), 0) << size;
    }
    EXPECT_EQ(bytes[2 * static_cast<size_t>(size)], 0xEE) << "wrote too much for entries of " << size;
    TearDown();
    cq = nullptr;
  }
}

TEST_F(CompletionQueueTest, EmptyReadDrivesTheEngineOnceAndFullReadDoesNot) {
  open(FI_CQ_FORMAT_CONTEXT);
  fi_cq_entry entry;
  EXPECT_EQ(fi_cq_read(cq, &entry, 1), -FI_EAGAIN);
  EXPECT_EQ(engine.drives, 1);
  write(1);
  EXPECT_EQ(fi_cq_read(cq, &entry, 1), 1);
  EXPECT_EQ(engine.drives, 1);
  engine.on_drive = [this] { write(2); };
  EXPECT_EQ(fi_cq_read(cq, &entry, 1), 1) << "a completion made by driving is read at once";
  EXPECT_EQ(engine.drives, 2);
  EXPECT_EQ(fi_cq_read(cq, nullptr, 0), 0) << "count 0 drives";
  EXPECT_EQ(engine.drives, 3);
  engine.on_drive = nullptr;
  EXPECT_EQ(read_context(), 2u);
}

TEST_F(CompletionQueueTest, GrowsAcrossTheEndOfTheBufferAndKeepsOrder) {
  open(FI_CQ_FORMAT_TAGGED);
  uint64_t written = 0;
  uint64_t read = 0;
  std::vector<fi_cq_tagged_entry> batch(1000);
  for (size_t round = 1; round < 120; ++round) {  // writes more than it reads, in odd steps
    for (size_t i = 0; i < 3 * round; ++i) write(written++);
    const ssize_t got = fi_cq_read(cq, batch.data(), 2 * round + 1);
    ASSERT_GT(got, 0);
    for (ssize_t i = 0; i < got; ++i)
      ASSERT_EQ(reinterpret_cast<uint64_t>(batch[static_cast<size_t>(i)].op_context), read++);
  }
  while (read != written) ASSERT_EQ(read_context(), read++);
}

TEST_F(CompletionQueueTest, AnySizeMayBeAskedFor) {
  attr.size = SIZE_MAX;
  open(FI_CQ_FORMAT_TAGGED);
  for (uint64_t i = 0; i < 200; ++i) write(i);
  for (uint64_t i = 0; i < 200; ++i) ASSERT_EQ(read_context(), i);
}

TEST_F(CompletionQueueTest, SteadyStateAllocatesNothing) {
  open(FI_CQ_FORMAT_DATA, FI_WAIT_FD);
  std::array<fi_cq_data_entry, 16> entries;
  for (int i = 0; i < 16; ++i) write(1);
  ASSERT_EQ(fi_cq_read(cq, entries.data(), 16), 16);
  const unsigned long before = allocations();
  for (int round = 0; round < 1000; ++round) {
    for (int i = 0; i < 16; ++i) write(1);
    ASSERT_EQ(fi_cq_read(cq, entries.data(), 16), 16);
  }
  EXPECT_EQ(allocations(), before);
}

TEST_F(CompletionQueueTest, SourcesAreReadWithTheirEntries) {
  open(FI_CQ_FORMAT_CONTEXT);
  std::array<fi_cq_entry, 4> entries;
  std::array<fi_addr_t, 4> sources;
  write(1);
  EXPECT_EQ(fi_cq_readfrom(cq, entries.data(), 4, sources.data()), 1);
  EXPECT_EQ(sources[0], FI_ADDR_NOTAVAIL);
  write(2);
  write(3, 33);
  for (uint64_t i = 4; i < 200; ++i) write(i, i * 10);  // grows with sources
  EXPECT_EQ(fi_cq_readfrom(cq, entries.data(), 4, sources.data()), 4);
  EXPECT_EQ(sources, (std::array<fi_addr_t, 4>{FI_ADDR_NOTAVAIL, 33, 40, 50}));
  EXPECT_EQ(fi_cq_readfrom(cq, entries.data(), 1, nullptr), 1);
}

TEST_F(CompletionQueueTest, ErrorsKeepTheirPlace) {
  open(FI_CQ_FORMAT_CONTEXT);
  write(1);
  write_error(2);
  write_error(3);
  write(4);
  std::array<fi_cq_entry, 8> entries;
  EXPECT_EQ(fi_cq_read(cq, entries.data(), 8), 1);
  for (uint64_t number : {2, 3}) {
    EXPECT_EQ(fi_cq_read(cq, entries.data(), 8), -FI_EAVAIL);
    EXPECT_EQ(fi_cq_read(cq, nullptr, 0), -FI_EAVAIL);
    fi_cq_err_entry error{};
    ASSERT_EQ(fi_cq_readerr(cq, &error, 0), 1);
    EXPECT_EQ(error.op_context, reinterpret_cast<void*>(number));
    EXPECT_EQ(error.err, FI_ETRUNC);
    EXPECT_EQ(error.prov_errno, 9);
    EXPECT_EQ(error.olen, 8u);
    EXPECT_EQ(error.tag, 7u);
    EXPECT_EQ(error.src_addr, 10u);
    EXPECT_EQ(error.err_data, nullptr);
    EXPECT_EQ(error.err_data_size, 0u);
  }
  EXPECT_EQ(read_context(), 4u);
  fi_cq_err_entry none{};
  EXPECT_EQ(fi_cq_readerr(cq, &none, 0), -FI_EAGAIN);
}

TEST_F(CompletionQueueTest, ErrorEntryHasTheSizeOfTheApiVersion) {
  for (auto [api, size] :
       {std::pair{FI_VERSION(1, 4), 72}, std::pair{FI_VERSION(1, 5), 80}, std::pair{FI_VERSION(1, 19), 80},
        std::pair{FI_VERSION(1, 20), 88}, std::pair{FI_VERSION(2, 6), 88}}) {
    open(FI_CQ_FORMAT_CONTEXT, FI_WAIT_NONE, api);
    write_error(1, "abc", 4);
    alignas(fi_cq_err_entry) std::array<unsigned char, sizeof(fi_cq_err_entry) + 1> bytes;
    bytes.fill(0);
    std::fill(bytes.begin() + size, bytes.end(), 0xEE);
    auto* entry = reinterpret_cast<fi_cq_err_entry*>(bytes.data());
    // Around the inline, which writes src_addr itself.
    ASSERT_EQ(cq->ops->readerr(cq, entry, 0), 1);
    EXPECT_STREQ(static_cast<char*>(entry->err_data), "abc");
    for (size_t i = static_cast<size_t>(size); i < bytes.size(); ++i) EXPECT_EQ(bytes[i], 0xEE) << api << " at " << i;
    TearDown();
    cq = nullptr;
  }
}

TEST_F(CompletionQueueTest, ErrorDataIsCopiedOrLent) {
  open(FI_CQ_FORMAT_CONTEXT);
  write_error(1, "abcdef", 6);
  write_error(2, "ghijkl", 6);
  write_error(3);
  char room[4] = {};
  fi_cq_err_entry error{};
  error.err_data = room;
  error.err_data_size = 3;
  ASSERT_EQ(fi_cq_readerr(cq, &error, 0), 1);
  EXPECT_EQ(error.err_data, room);
  EXPECT_EQ(error.err_data_size, 3u);
  EXPECT_STREQ(room, "abc");
  error.err_data_size = 0;
  ASSERT_EQ(fi_cq_readerr(cq, &error, 0), 1);
  ASSERT_EQ(error.err_data_size, 6u);
  EXPECT_EQ(std::memcmp(error.err_data, "ghijkl", 6), 0);
  error.err_data_size = 0;
  ASSERT_EQ(fi_cq_readerr(cq, &error, 0), 1);
  EXPECT_EQ(error.err_data, nullptr);
}

TEST_F(CompletionQueueTest, StrerrorFillsTheBuffer) {
  open(FI_CQ_FORMAT_CONTEXT);
  char text[5];
  EXPECT_EQ(fi_cq_strerror(cq, 9, nullptr, text, sizeof text), text);
  EXPECT_STREQ(text, "some");
  EXPECT_STREQ(fi_cq_strerror(cq, 9, nullptr, nullptr, 0), "some error");
}

TEST_F(CompletionQueueTest, StrerrorReturnsTheSentenceOfTheErrorReadLast) {
  open(FI_CQ_FORMAT_CONTEXT);
  CompletionError error;
  error.err = error.prov_errno = FI_ETIMEDOUT;
  error.sentence = "nobody was there";
  queue->write_error(error);
  write_error(1);
  EXPECT_STREQ(fi_cq_strerror(cq, FI_ETIMEDOUT, nullptr, nullptr, 0), "some error") << "the error has not been read";
  fi_cq_err_entry entry{};
  ASSERT_EQ(fi_cq_readerr(cq, &entry, 0), 1);
  char text[7];
  EXPECT_EQ(fi_cq_strerror(cq, entry.prov_errno, entry.err_data, text, sizeof text), text);
  EXPECT_STREQ(text, "nobody");
  EXPECT_STREQ(fi_cq_strerror(cq, entry.prov_errno, nullptr, nullptr, 0), "nobody was there");
  EXPECT_STREQ(fi_cq_strerror(cq, entry.prov_errno + 1, nullptr, nullptr, 0), "some error");
  ASSERT_EQ(fi_cq_readerr(cq, &entry, 0), 1);
  EXPECT_STREQ(fi_cq_strerror(cq, FI_ETIMEDOUT, nullptr, nullptr, 0), "some error") << "another error has been read";
}

TEST_F(CompletionQueueTest, StrerrorHasTheTextOfAnErrorWithoutANumberOfTheProvider) {
  open(FI_CQ_FORMAT_CONTEXT);
  CompletionError error;
  error.err = FI_ECONNRESET;
  queue->write_error(error);
  fi_cq_err_entry entry{};
  ASSERT_EQ(fi_cq_readerr(cq, &entry, 0), 1);
  EXPECT_EQ(entry.prov_errno, 0);
  EXPECT_STREQ(fi_cq_strerror(cq, entry.prov_errno, nullptr, nullptr, 0), fi_strerror(FI_ECONNRESET));
}

TEST_F(CompletionQueueTest, RefusesInvalidArguments) {
  fi_cq_attr attr{};
  const auto error_of = [&](const fi_cq_attr* a, bool locking = true) {
    return Queue::open(parent.ref(), a, engine, kApi, locking, nullptr, nullptr).error().code();
  };
  EXPECT_EQ(error_of(nullptr), -FI_EINVAL);
  attr.flags = FI_WRITE;
  EXPECT_EQ(error_of(&attr), -FI_EBADFLAGS);
  attr.flags = 0;
  attr.format = static_cast<fi_cq_format>(77);
  EXPECT_EQ(error_of(&attr), -FI_EINVAL);
  attr.format = FI_CQ_FORMAT_MSG;
  attr.wait_obj = static_cast<fi_wait_obj>(77);
  EXPECT_EQ(error_of(&attr), -FI_EINVAL);
  attr.wait_obj = FI_WAIT_SET;  // without a set
  EXPECT_EQ(error_of(&attr), -FI_EINVAL);
  attr.wait_obj = FI_WAIT_MUTEX_COND;  // needs a thread, which needs locks
  EXPECT_EQ(error_of(&attr, false), -FI_ENOSYS);
}

TEST_F(CompletionQueueTest, CloseIsBusyWhileInUse) {
  open(FI_CQ_FORMAT_CONTEXT);
  {
    const Ref<CompletionQueueCore> user(*queue);
    EXPECT_EQ(fi_close(&cq->fid), -FI_EBUSY);
  }
}

TEST_F(CompletionQueueTest, SreadTimesOutAtOneDeadline) {
  for (fi_wait_obj wait :
       {FI_WAIT_NONE, FI_WAIT_UNSPEC, FI_WAIT_FD, FI_WAIT_POLLFD, FI_WAIT_MUTEX_COND, FI_WAIT_YIELD}) {
    open(FI_CQ_FORMAT_CONTEXT, wait);
    fi_cq_entry entry;
    EXPECT_EQ(fi_cq_sread(cq, &entry, 1, nullptr, 0), -FI_EAGAIN);
    // Wake-ups without an entry must not restart the timeout.
    std::atomic<bool> stop{false};
    std::jthread disturber([&] {
      while (!stop) {
        engine.stir();
        std::this_thread::sleep_for(5ms);
        engine.quiet();
      }
    });
    const auto start = Clock::now();
    EXPECT_EQ(fi_cq_sread(cq, &entry, 1, nullptr, 60), -FI_EAGAIN);
    const auto took = Clock::now() - start;
    stop = true;
    EXPECT_GE(took, 60ms);
    EXPECT_LT(took, 1s) << "wait object " << wait;
    disturber.join();
    TearDown();
    cq = nullptr;
  }
}

TEST_F(CompletionQueueTest, SreadWakesForEachKindOfWaitObject) {
  for (fi_wait_obj wait : {FI_WAIT_UNSPEC, FI_WAIT_FD, FI_WAIT_POLLFD, FI_WAIT_MUTEX_COND, FI_WAIT_YIELD}) {
    open(FI_CQ_FORMAT_CONTEXT, wait);
    std::jthread producer([&] {
      std::this_thread::sleep_for(10ms);
      write(5);
    });
    fi_cq_entry entry{};
    EXPECT_EQ(fi_cq_sread(cq, &entry, 1, nullptr, 20000), 1) << "wait object " << wait;
    EXPECT_EQ(entry.op_context, reinterpret_cast<void*>(5));
    producer.join();
    TearDown();
    cq = nullptr;
  }
}

TEST_F(CompletionQueueTest, SreadWakesWhenTheEngineHasWork) {
  open(FI_CQ_FORMAT_CONTEXT, FI_WAIT_FD);
  std::atomic<bool> arrived{false};
  engine.on_drive = [&] {
    if (!arrived.exchange(false)) return;
    engine.quiet();
    write(5);
  };
  std::jthread network([&] {
    std::this_thread::sleep_for(10ms);
    arrived = true;
    engine.stir();
  });
  fi_cq_entry entry{};
  EXPECT_EQ(fi_cq_sread(cq, &entry, 1, nullptr, 20000), 1);
}

TEST_F(CompletionQueueTest, SreadReturnsErrorsAtOnceForAnyThreshold) {
  open(FI_CQ_FORMAT_CONTEXT, FI_WAIT_FD, kApi, true, FI_CQ_COND_THRESHOLD);
  write_error(1);
  fi_cq_entry entry;
  EXPECT_EQ(fi_cq_sread(cq, &entry, 1, reinterpret_cast<void*>(100), -1), -FI_EAVAIL);
}

TEST_F(CompletionQueueTest, SreadWaitsForTheThreshold) {
  open(FI_CQ_FORMAT_CONTEXT, FI_WAIT_FD, kApi, true, FI_CQ_COND_THRESHOLD);
  std::array<fi_cq_entry, 8> entries;
  write(1);
  write(2);
  EXPECT_EQ(fi_cq_sread(cq, entries.data(), 1, reinterpret_cast<void*>(2), -1), 1);
  // One is left: after the timeout it is returned although the threshold is three.
  EXPECT_EQ(fi_cq_sread(cq, entries.data(), 8, reinterpret_cast<void*>(3), 20), 1);
  std::jthread producer([&] {
    for (uint64_t i = 0; i < 5; ++i) {
      std::this_thread::sleep_for(2ms);
      write(i);
    }
  });
  EXPECT_EQ(fi_cq_sread(cq, entries.data(), 8, reinterpret_cast<void*>(5), 20000), 5);
}

TEST_F(CompletionQueueTest, SignalUnblocksAWaiterOrTheNextOne) {
  open(FI_CQ_FORMAT_CONTEXT, FI_WAIT_FD);
  fi_cq_entry entry;
  EXPECT_EQ(fi_cq_signal(cq), 0);
  EXPECT_EQ(fi_cq_sread(cq, &entry, 1, nullptr, -1), -FI_EAGAIN);
  std::vector<std::jthread> waiters;
  std::atomic<int> left{0};
  for (int i = 0; i < 4; ++i)
    waiters.emplace_back([&] {
      fi_cq_entry mine;
      EXPECT_EQ(fi_cq_sread(cq, &mine, 1, nullptr, 20000), -FI_EAGAIN);
      ++left;
    });
  std::this_thread::sleep_for(30ms);
  EXPECT_EQ(left, 0);
  EXPECT_EQ(fi_cq_signal(cq), 0);
  waiters.clear();
  EXPECT_EQ(left, 4);
}

TEST_F(CompletionQueueTest, DescriptorIsReadableAfterTrywaitAndAWrite) {
  open(FI_CQ_FORMAT_CONTEXT, FI_WAIT_FD);
  int fd = -1;
  ASSERT_EQ(fi_control(&cq->fid, FI_GETWAIT, &fd), 0);
  fi_wait_obj kind;
  ASSERT_EQ(fi_control(&cq->fid, FI_GETWAITOBJ, &kind), 0);
  EXPECT_EQ(kind, FI_WAIT_FD);
  const auto readable = [&](int timeout_ms) {
    pollfd p{fd, POLLIN, 0};
    return ::poll(&p, 1, timeout_ms) == 1;
  };
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(queue->trywait(), 0);
    EXPECT_FALSE(readable(0));
    write(1);
    EXPECT_TRUE(readable(0));
    EXPECT_EQ(queue->trywait(), -FI_EAGAIN);
    EXPECT_EQ(read_context(), 1u);
  }
  EXPECT_EQ(queue->trywait(), 0);
  engine.stir();
  EXPECT_TRUE(readable(0)) << "the engine's descriptor counts, too";
  engine.quiet();
  engine.may_sleep = false;
  EXPECT_EQ(queue->trywait(), -FI_EAGAIN);
}

TEST_F(CompletionQueueTest, BlockedReaderUsesNoProcessorTime) {
  open(FI_CQ_FORMAT_CONTEXT, FI_WAIT_FD);
  fi_cq_entry entry;
  timespec before, after;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
  EXPECT_EQ(fi_cq_sread(cq, &entry, 1, nullptr, 300), -FI_EAGAIN);
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
  const auto used = (after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec;
  EXPECT_LT(used, 3000000) << "1 % of the time it waited";
  EXPECT_LE(engine.drives, 4);
}

// Producers write bursts and sometimes signal, consumers block with various batch sizes. No entry is lost, and no
// consumer sleeps while entries are unread (that would end in the timeout).
TEST_F(CompletionQueueTest, NoWakeUpIsLostAmongManyThreads) {
  constexpr uint64_t kEach = 4000;
  constexpr uint64_t kProducers = 3;
  constexpr uint64_t kEnd = 0;  // tells one consumer to leave
  const std::vector<size_t> batches{1, 1, 3, 8};
  for (fi_wait_obj wait : {FI_WAIT_FD, FI_WAIT_MUTEX_COND}) {
    open(FI_CQ_FORMAT_MSG, wait);
    std::atomic<uint64_t> read{0};
    std::atomic<uint64_t> sum{0};
    std::atomic<int> timeouts{0};
    const auto consume = [&](size_t batch) {
      std::vector<fi_cq_msg_entry> entries(batch);
      uint64_t ends = 0;
      while (ends == 0) {
        const auto start = Clock::now();
        const ssize_t got = fi_cq_sread(cq, entries.data(), batch, nullptr, 10000);
        if (got < 0 && Clock::now() - start > 9s) ++timeouts;
        for (ssize_t i = 0; i < got; ++i) {
          const auto number = reinterpret_cast<uint64_t>(entries[static_cast<size_t>(i)].op_context);
          sum += number;
          number == kEnd ? ++ends : ++read;
        }
      }
      while (--ends != 0) write(kEnd);
    };
    {
      std::vector<std::jthread> consumers;
      for (size_t batch : batches) consumers.emplace_back(consume, batch);
      {
        std::vector<std::jthread> producers;
        for (uint64_t p = 0; p < kProducers; ++p)
          producers.emplace_back([&] {
            for (uint64_t i = 1; i <= kEach; ++i) {
              write(i);
              if (i % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(i % 64));
              if (i % 1000 == 0) fi_cq_signal(cq);
            }
          });
      }
      for (size_t i = 0; i < batches.size(); ++i) write(kEnd);
    }
    EXPECT_EQ(read, kEach * kProducers);
    EXPECT_EQ(sum, kProducers * kEach * (kEach + 1) / 2);
    EXPECT_EQ(timeouts, 0) << "wait object " << wait;
    TearDown();
    cq = nullptr;
  }
}

}  // namespace
}  // namespace weft
