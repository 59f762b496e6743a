// SPDX-License-Identifier: BSD-2-Clause
// The pair of pair.h for tests in C++.
#ifndef KFI_TESTS_CONNECTED_H
#define KFI_TESTS_CONNECTED_H

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <thread>

#include "pair.h"

struct Connected {
  pair both{};

  explicit Connected(const pair& wanted = {}, uint64_t caps = KFI_MSG | KFI_RMA) : both(wanted) {
    if (both.cq_attr.format == 0) both.cq_attr.format = KFI_CQ_FORMAT_TAGGED;
    open_pair(&both, caps);
  }
  ~Connected() { close_pair(&both); }
  kfid_ep* ep(int i) { return both.ends[i].ep; }
  kfid_cq* cq(int i) { return both.ends[i].cq; }
  kfid_eq* eq(int i) { return both.ends[i].eq; }
};

inline kfi_cq_tagged_entry next(kfid_cq* cq) {
  kfi_cq_tagged_entry entry{};
  EXPECT_EQ(next_completion(cq, &entry), 1);
  return entry;
}

inline double seconds_of(const std::function<void()>& call) {
  const auto started = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
}

// Within 20 seconds.
template <class Condition>
bool becomes(Condition condition) {
  for (int i = 0; i < 20000; i++) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return condition();
}

// The next event, while the other end makes progress: the distribution's library does so as its queues are read.
inline ssize_t next_event(kfid_eq* eq, uint32_t* event_id, union event* event, kfid_eq* other) {
  ssize_t size = -KFI_ETIMEDOUT;
  for (int i = 0; i < 20000 && size == -KFI_ETIMEDOUT; i++) {
    uint32_t other_id;
    union event other_event;
    kfi_eq_read(other, &other_id, &other_event, sizeof other_event, KFI_PEEK);
    size = kfi_eq_sread(eq, event_id, event, sizeof *event, 1, 0);
  }
  return size;
}

#endif  // KFI_TESTS_CONNECTED_H
