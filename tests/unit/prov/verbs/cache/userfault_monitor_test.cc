// SPDX-License-Identifier: BSD-2-Clause
// The cache on the kernel's reports: memory that is unmapped, replaced, moved or discarded, in all ways and by several
// threads, is never read by an old registration. Every read compares bytes of the pages that the registration holds.
#include "verbs/cache/userfault_monitor.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "pinned_memory.h"

namespace weft::verbs {
namespace {

constexpr std::size_t kSize = 4 * kPage;
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE;

char* map(void* at = nullptr, int flags = 0, int descriptor = -1, std::size_t size = kSize) {
  const int kind = descriptor < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : 0;
  void* const memory = ::mmap(at, size, PROT_READ | PROT_WRITE, kind | flags, descriptor, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<char*>(memory);
}

MemoryRange range_of(const char* memory, std::size_t size = kSize) {
  const auto start = reinterpret_cast<std::uintptr_t>(memory);
  return {start, start + size};
}

class Userfault : public testing::Test {
 protected:
  void SetUp() override {
    const char* why = nullptr;
    auto monitor = UserfaultMonitor::open(why);
    if (monitor == nullptr) GTEST_SKIP() << why;
    cache_ = RegistrationCache::open(std::move(monitor), {});
    ASSERT_NE(cache_, nullptr);
  }
  void TearDown() override {
    for (char* memory : left_) ::munmap(memory, kSize);
    if (cache_ == nullptr) return;
    cache_->drop(memory_);
    EXPECT_EQ(memory_.live, 0);
  }

  // Writes `letter`, reads it by a registration; true: one was made or the memory is not cached.
  bool sees(char* memory, char letter) {
    std::memset(memory, letter, kSize);
    return still_sees(memory, letter);
  }
  bool still_sees(char* memory, char letter) {
    const int before = memory_.made;
    CachedRegion* region = cache_->acquire(memory_, range_of(memory), kAccess);
    if (region == nullptr) return true;
    EXPECT_EQ(PinnedMemory::read(*region, memory, kSize), std::string(kSize, letter));
    cache_->release(*region);
    return memory_.made != before;
  }
  // A change by this thread, and one by another. Meanwhile a third thread may get the address, as a stack: once more.
  void expect_seen(const std::function<char*(char*)>& change) {
    constexpr int kTries = 100;
    for (const bool elsewhere : {false, true}) {
      char* after = nullptr;
      for (int tried = 0; tried < kTries && after == nullptr; ++tried) after = changed(change, elsewhere);
      ASSERT_NE(after, nullptr);
      EXPECT_TRUE(sees(after, 'c')) << (elsewhere ? "by another thread" : "by this thread");
      left_.push_back(after);
    }
  }
  char* changed(const std::function<char*(char*)>& change, bool elsewhere) {
    char* const memory = map();
    if (memory == nullptr) return nullptr;
    EXPECT_TRUE(sees(memory, 'a'));
    EXPECT_FALSE(sees(memory, 'b')) << "the registration is used again, and shows the memory";
    if (!elsewhere) return change(memory);
    char* after = nullptr;
    std::thread([&] { after = change(memory); }).join();
    return after;
  }

  std::vector<char*> left_;  // mapped until the end: an address that was discarded is not cached for a while
  PinnedMemory memory_;
  std::shared_ptr<RegistrationCache> cache_;
};

TEST_F(Userfault, UnmapAndMapAtTheSameAddress) {
  expect_seen([](char* memory) {
    ::munmap(memory, kSize);
    return map(memory, MAP_FIXED_NOREPLACE);
  });
}

TEST_F(Userfault, UnmapOfOnePage) {
  expect_seen([](char* memory) {
    ::munmap(memory + 2 * kPage, kPage);
    return map(memory + 2 * kPage, MAP_FIXED_NOREPLACE, -1, kPage) != nullptr ? memory : nullptr;
  });
}

TEST_F(Userfault, MapOverIt) {
  expect_seen([](char* memory) { return map(memory, MAP_FIXED); });
}

TEST_F(Userfault, MapAFileOverIt) {
  expect_seen([](char* memory) -> char* {
    const int file = ::memfd_create("test", MFD_CLOEXEC);
    if (file < 0 || ::ftruncate(file, kSize) != 0) return nullptr;
    char* after = map(memory, MAP_FIXED | MAP_SHARED, file);
    ::close(file);
    return after;
  });
}

TEST_F(Userfault, MoveAndMapAtTheOldAddress) {
  expect_seen([](char* memory) -> char* {
    void* moved = ::mremap(memory, kSize, 2 * kSize, MREMAP_MAYMOVE | MREMAP_FIXED, map(nullptr, 0, -1, 2 * kSize));
    if (moved == MAP_FAILED) return nullptr;
    ::munmap(moved, 2 * kSize);
    return map(memory, MAP_FIXED_NOREPLACE);
  });
}

TEST_F(Userfault, MoveSomethingOverIt) {
  expect_seen([](char* memory) -> char* {
    void* moved = ::mremap(map(), kSize, kSize, MREMAP_MAYMOVE | MREMAP_FIXED, memory);
    return moved == MAP_FAILED ? nullptr : memory;
  });
}

TEST_F(Userfault, MoveThatLeavesTheMappingBehind) {
  expect_seen([](char* memory) -> char* {
    constexpr int kDontUnmap = 4;
    void* moved = ::mremap(memory, kSize, kSize, MREMAP_MAYMOVE | kDontUnmap, nullptr);
    if (moved == MAP_FAILED) return nullptr;
    ::munmap(moved, kSize);
    return memory;
  });
}

TEST_F(Userfault, MovedMemoryHasANewRegistration) {
  expect_seen([](char* memory) -> char* {
    void* moved = ::mremap(memory, kSize, kSize, MREMAP_MAYMOVE | MREMAP_FIXED, map());
    return moved == MAP_FAILED ? nullptr : static_cast<char*>(moved);
  });
}

TEST_F(Userfault, ShrinkAndGrow) {
  expect_seen([](char* memory) -> char* {
    if (::mremap(memory, kSize, kPage, 0) == MAP_FAILED) return nullptr;
    return map(memory + kPage, MAP_FIXED_NOREPLACE, -1, kSize - kPage) != nullptr ? memory : nullptr;
  });
}

TEST_F(Userfault, AdviceThatDiscards) {
  for (const int advice : {MADV_DONTNEED, MADV_FREE})
    expect_seen([advice](char* memory) { return ::madvise(memory, kSize, advice) == 0 ? memory : nullptr; });
}

TEST_F(Userfault, DiscardedPagesAreZeroAndCachedAgainLater) {
  char* memory = map();
  sees(memory, 'a');
  ASSERT_EQ(::madvise(memory + kPage, kPage, MADV_DONTNEED), 0);
  EXPECT_EQ(memory[kPage], '\0');
  EXPECT_TRUE(sees(memory, 'b'));
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  EXPECT_TRUE(sees(memory, 'c'));
  EXPECT_FALSE(sees(memory, 'd'));
  ::munmap(memory, kSize);
}

TEST_F(Userfault, ProtectionKeepsTheRegistration) {
  char* memory = map();
  sees(memory, 'a');
  ASSERT_EQ(::mprotect(memory, kSize, PROT_NONE), 0);
  ASSERT_EQ(::mprotect(memory, kSize, PROT_READ | PROT_WRITE), 0);
  EXPECT_FALSE(still_sees(memory, 'a'));
  ::munmap(memory, kSize);
}

TEST_F(Userfault, SharedMemoryAndFilesAreNotCached) {
  const int file = ::memfd_create("test", MFD_CLOEXEC);
  ASSERT_EQ(::ftruncate(file, kSize), 0);
  char* const shared = map(nullptr, MAP_SHARED, file);
  char* const own = map(nullptr, MAP_PRIVATE, file);
  void* const nameless = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  for (void* memory : {static_cast<void*>(shared), static_cast<void*>(own), nameless}) {
    std::memset(memory, 'a', kSize);
    EXPECT_EQ(cache_->acquire(memory_, range_of(static_cast<char*>(memory)), kAccess), nullptr);
    ::munmap(memory, kSize);
  }
  ::close(file);
  static char data[kSize] = "data of the program is a file's";
  EXPECT_EQ(cache_->acquire(memory_, range_of(data), kAccess), nullptr);
  EXPECT_EQ(memory_.made, 0);
}

TEST_F(Userfault, StackIsCachedAsOtherMemory) {
  char stack[kSize];
  EXPECT_TRUE(sees(stack, 'a'));
  EXPECT_FALSE(sees(stack, 'b'));
}

TEST_F(Userfault, HeapThatIsTrimmed) {
  auto* const before = static_cast<char*>(::sbrk(0));
  const auto skip = static_cast<std::intptr_t>(kPage - reinterpret_cast<std::uintptr_t>(before) % kPage);
  if (::sbrk(skip + static_cast<std::intptr_t>(kSize)) != before) GTEST_SKIP() << "the heap cannot grow";
  char* const memory = before + skip;
  sees(memory, 'a');
  if (::sbrk(-static_cast<std::intptr_t>(kSize)) != memory + kSize) GTEST_SKIP() << "another thread grew the heap";
  ASSERT_EQ(::sbrk(static_cast<std::intptr_t>(kSize)), memory);
  EXPECT_TRUE(sees(memory, 'b'));
}

// The child has copies; what happens to them there is no change here.
TEST_F(Userfault, ForkedChildChangesNothingInItsParent) {
  char* memory = map();
  sees(memory, 'a');
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::munmap(memory, kSize);
    char* again = map(memory, MAP_FIXED_NOREPLACE);
    const bool uncached = cache_->acquire(memory_, range_of(again), kAccess) == nullptr;
    cache_->drop(memory_);
    cache_.reset();
    ::_exit(uncached ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "a child registers without the cache, and may close it";
  EXPECT_FALSE(still_sees(memory, 'a'));
  ::munmap(memory, kSize);
  memory = map(memory, MAP_FIXED_NOREPLACE);
  EXPECT_TRUE(sees(memory, 'b')) << "the parent's reports are still there";
  ::munmap(memory, kSize);
}

TEST_F(Userfault, ClosedCacheHoldsNobodyUp) {
  char* memory = map();
  sees(memory, 'a');
  cache_->drop(memory_);
  cache_.reset();
  ::munmap(memory, kSize);
}

// Nobody coordinates: the address that a thread gets from mmap may be one that another thread is just giving back.
TEST_F(Userfault, ThreadsThatMapAndUnmapTheSameAddresses) {
  std::atomic<int> wrong{0}, reused{0};
  const auto churn = [&](unsigned seed, char letter) {
    for (int round = 0; round < 400; ++round) {
      char* memory = map();
      if (memory == nullptr) continue;
      std::memset(memory, letter, kSize);
      std::memcpy(memory, &round, sizeof round);
      const std::string expected(memory, kSize);
      for (int use = 0; use < 2; ++use) {
        CachedRegion* region = cache_->acquire(memory_, range_of(memory), kAccess);
        if (region == nullptr) continue;
        if (PinnedMemory::read(*region, memory, kSize) != expected) ++wrong;
        cache_->release(*region);
        if (use == 1) ++reused;
      }
      switch (::rand_r(&seed) % 4) {
        case 0:
          map(memory, MAP_FIXED);
          break;
        case 1:
          ::madvise(memory, kSize, MADV_DONTNEED);
          break;
        default:
          break;
      }
      ::munmap(memory, kSize);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i) threads.emplace_back(churn, i, static_cast<char>('a' + i));
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(reused, 0);
}

// Threads that allocate, free and register by the same allocator: none waits for another for ever.
TEST_F(Userfault, AllocatorsThatReturnMemoryDoNotBlock) {
  std::atomic<int> wrong{0};
  const auto churn = [&](char letter) {
    for (int round = 0; round < 200; ++round) {
      const std::unique_ptr<char[]> memory(new char[256 * 1024]);
      std::memset(memory.get(), letter, kSize);
      if (CachedRegion* region = cache_->acquire(memory_, range_of(memory.get()), kAccess)) {
        if (PinnedMemory::read(*region, memory.get(), kSize) != std::string(kSize, letter)) ++wrong;
        cache_->release(*region);
      }
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(churn, static_cast<char>('a' + i));
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace weft::verbs
