// SPDX-License-Identifier: BSD-2-Clause
// The lock of data paths excludes threads, also when it was taken before the first one was started.
#include "base/light_lock.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

namespace weft {
namespace {

// In a child process: this process may have had threads, depending on the tests that ran.
template <class Body>
int in_new_process(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(body() ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

TEST(LightLock, LockTakenBeforeTheFirstThreadExcludesLaterThreads) {
  EXPECT_EQ(in_new_process([] {
              LightLock lock;
              lock.lock();
              bool refused = false;
              std::thread other([&] { refused = !lock.try_lock(); });
              other.join();
              lock.unlock();
              return refused && lock.try_lock();
            }),
            0);
}

TEST(LightLock, LockTakenBeforeTheFirstThreadWakesItsWaiters) {
  EXPECT_EQ(in_new_process([] {
              LightLock lock;
              lock.lock();
              bool entered = false;
              std::thread other([&] {
                lock.lock();
                entered = true;
                lock.unlock();
              });
              usleep(20'000);  // time to fall asleep; the result is the same if it has not
              lock.unlock();
              other.join();
              return entered;
            }),
            0);
}

TEST(LightLock, ExcludesThreads) {
  LightLock lock;
  int count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int j = 0; j < 20'000; ++j) {
        LightGuard guard(lock);
        ++count;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 80'000);
}

}  // namespace
}  // namespace weft
