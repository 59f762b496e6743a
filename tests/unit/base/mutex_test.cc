// SPDX-License-Identifier: BSD-2-Clause
// A mutex takes no lock while it is disabled, and can be enabled while users are inside.
#include "base/mutex.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace weft {
namespace {

bool taken_by_others(Mutex& mutex) {
  bool taken = false;
  std::thread([&] {
    taken = !mutex.try_lock();
    if (!taken) mutex.unlock();
  }).join();
  return taken;
}

TEST(Mutex, EnabledMutexExcludes) {
  Mutex mutex;
  Lock lock(mutex);
  EXPECT_TRUE(taken_by_others(mutex));
}

TEST(Mutex, DisabledMutexTakesNoLock) {
  Mutex mutex(false);
  mutex.lock();
  mutex.unlock();
  EXPECT_TRUE(mutex.try_lock());
  mutex.unlock();
  EXPECT_FALSE(mutex.enabled());
}

// All users of such a mutex are serialised, so accesses under it need no ordering with enable().
TEST(Mutex, UserOfADisabledMutexMayEnableIt) {
  Mutex mutex(false);
  EXPECT_TRUE(mutex.disable());  // disabled from the start
  mutex.wait_for_others();
  mutex.lock();
  mutex.unlock();
  mutex.enable();
  EXPECT_TRUE(mutex.enabled());
  EXPECT_TRUE(mutex.try_lock());
  EXPECT_TRUE(taken_by_others(mutex));
  mutex.unlock();
  mutex.enable();
  mutex.wait_for_others();
  EXPECT_TRUE(mutex.try_lock());
  mutex.unlock();
}

// The thread that ends the process may have interrupted a user, who never leaves.
TEST(Mutex, LastLockIsRefusedAmidAUse) {
  Mutex mutex;
  mutex.lock();
  EXPECT_FALSE(mutex.try_lock_last());
  mutex.unlock();
  EXPECT_TRUE(mutex.try_lock_last());
  EXPECT_TRUE(taken_by_others(mutex));
  mutex.unlock();
}

TEST(Mutex, LastLockIsRefusedAmidAUseWithoutTheLock) {
  Mutex mutex;
  ASSERT_TRUE(mutex.disable());
  mutex.lock();
  EXPECT_FALSE(mutex.try_lock_last());
  EXPECT_FALSE(mutex.try_lock_last());
  mutex.unlock();
  EXPECT_TRUE(mutex.try_lock_last());
  EXPECT_TRUE(taken_by_others(mutex));
  mutex.unlock();
}

TEST(Mutex, LastLockOfAMutexThatWasNeverOnIsRefused) {
  Mutex mutex(false);
  EXPECT_FALSE(mutex.try_lock_last());
}

TEST(Mutex, MutexEnabledLaterExcludes) {
  Mutex mutex(false);
  mutex.lock();
  mutex.unlock();
  mutex.enable();
  Lock lock(mutex);
  EXPECT_TRUE(taken_by_others(mutex));
}

TEST(Mutex, HolderMayDisableTheMutex) {
  Mutex mutex;
  mutex.lock();
  if (!mutex.disable()) GTEST_SKIP() << "the system has no membarrier";
  mutex.unlock();
  mutex.lock();
  mutex.unlock();
  mutex.enable();
  Lock lock(mutex);
  EXPECT_TRUE(taken_by_others(mutex));
}

TEST(Mutex, EnablingWaitsForTheUserInside) {
  Mutex mutex;
  mutex.lock();
  if (!mutex.disable()) GTEST_SKIP() << "the system has no membarrier";
  mutex.unlock();
  std::atomic<bool> inside{false}, leaves{false};
  std::thread user([&] {
    Lock lock(mutex);
    inside = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // time for a wrong enable() to return early
    leaves = true;
  });
  while (!inside) std::this_thread::yield();
  mutex.enable();
  EXPECT_TRUE(leaves);
  user.join();
}

TEST(Mutex, WaitForOthersWaitsForTheUserInside) {
  for (const bool locks : {true, false}) {
    Mutex mutex;
    mutex.lock();
    if (!locks && !mutex.disable()) GTEST_SKIP() << "the system has no membarrier";
    mutex.unlock();
    std::atomic<bool> inside{false}, leaves{false};
    std::thread user([&] {
      Lock lock(mutex);
      inside = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      leaves = true;
    });
    while (!inside) std::this_thread::yield();
    mutex.wait_for_others();
    EXPECT_TRUE(leaves) << locks;
    EXPECT_EQ(mutex.enabled(), locks);
    user.join();
  }
}

// The race that the barrier decides: one thread enables and enters while another enters and leaves.
TEST(Mutex, EnablingWhileOthersEnterExcludesAll) {
  constexpr int kEach = 300;
  for (int round = 0; round < 300; ++round) {
    Mutex mutex;
    mutex.lock();
    if (!mutex.disable()) GTEST_SKIP() << "the system has no membarrier";
    mutex.unlock();
    int count = 0;
    std::atomic<bool> started{false};
    std::thread user([&] {
      for (int i = 0; i < kEach; ++i) {
        Lock lock(mutex);
        ++count;
        started.store(true, std::memory_order_relaxed);
      }
    });
    while (!started.load(std::memory_order_relaxed)) std::this_thread::yield();
    mutex.enable();
    for (int i = 0; i < kEach; ++i) {
      Lock lock(mutex);
      ++count;
    }
    user.join();
    ASSERT_EQ(count, 2 * kEach) << round;
  }
}

}  // namespace
}  // namespace weft
