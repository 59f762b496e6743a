// SPDX-License-Identifier: BSD-2-Clause
//
// Stand-in for <linux/wait.h>: sleepers watch one word, which each wake-up changes. Time-outs are in jiffies, which are
// milliseconds here.
#ifndef KFI_LINUX_WAIT_H
#define KFI_LINUX_WAIT_H

#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../../kfi_kernel_types.h"

typedef struct wait_queue_head wait_queue_head_t;

#define DECLARE_WAIT_QUEUE_HEAD(name) wait_queue_head_t name = {0}

static inline void init_waitqueue_head(wait_queue_head_t* head) {
  __atomic_store_n(&head->wakes, 0u, __ATOMIC_SEQ_CST);
}

// Every sleeper checks its condition again.
static inline void wake_up_all(wait_queue_head_t* head) {
  __atomic_add_fetch(&head->wakes, 1u, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, &head->wakes, FUTEX_WAKE_PRIVATE, 0x7fffffff, NULL, NULL, 0);
}

static inline unsigned int kfi_wakes(const wait_queue_head_t* head) {
  return __atomic_load_n(&head->wakes, __ATOMIC_SEQ_CST);
}

// Sleeps while no wake-up followed `seen`, `jiffies` at most (negative: for ever). Returns what is left of them.
static inline long kfi_sleep(wait_queue_head_t* head, unsigned int seen, long jiffies) {
  struct timespec limit, before, after;
  long slept;
  limit.tv_sec = jiffies / 1000;
  limit.tv_nsec = jiffies % 1000 * 1000000;
  clock_gettime(CLOCK_MONOTONIC, &before);
  syscall(SYS_futex, &head->wakes, FUTEX_WAIT_PRIVATE, seen, jiffies < 0 ? NULL : &limit, NULL, 0);
  if (jiffies < 0) return jiffies;
  clock_gettime(CLOCK_MONOTONIC, &after);
  slept = (long)(after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000;
  return slept < jiffies ? jiffies - slept : 0;
}

// 0 if the condition is still false after the time-out, else what is left of it, at least 1; negative: no time-out.
#define kfi_wait_event(head, condition, timeout)         \
  __extension__({                                        \
    long kfi_left = (timeout);                           \
    for (;;) {                                           \
      const unsigned int kfi_seen = kfi_wakes(&(head));  \
      if (condition) {                                   \
        if (kfi_left == 0) kfi_left = 1;                 \
        break;                                           \
      }                                                  \
      if (kfi_left == 0) break;                          \
      kfi_left = kfi_sleep(&(head), kfi_seen, kfi_left); \
    }                                                    \
    kfi_left;                                            \
  })

#define wake_up(head) wake_up_all(head)
#define wake_up_interruptible(head) wake_up_all(head)
#define wait_event(head, condition) ((void)kfi_wait_event(head, condition, -1L))
#define wait_event_timeout(head, condition, timeout) kfi_wait_event(head, condition, (long)(timeout))
// No signal interrupts a wait.
#define wait_event_interruptible(head, condition) (wait_event(head, condition), 0)
#define wait_event_interruptible_timeout(head, condition, timeout) wait_event_timeout(head, condition, timeout)

#endif  // KFI_LINUX_WAIT_H
