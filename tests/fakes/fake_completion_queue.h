// SPDX-License-Identifier: BSD-2-Clause
// Completion queues and completion channels: ibv_create_cq(3), ibv_poll_cq(3), ibv_get_cq_event(3). A queue holds
// exactly the requested number of entries; one more is an overrun, which also fails the queue pairs of the queue.
#pragma once
#include "fake_memory.h"

namespace fake {

struct CompChannel;

struct Qp;
struct Srq;

// A completion, and the slots that polling it frees: those of the work queue up to `slots_end`.
struct Completion {
  ibv_wc wc;
  uint64_t slots_end;
  Qp* qp;    // null once it is destroyed
  Srq* srq;  // where the receive came from, or null
  bool receive;
  bool solicited;
};

struct Cq : ibv_cq_ex {
  Tag tag;
  Device* device = nullptr;
  std::vector<Completion> ring;
  size_t head = 0, count = 0;
  enum class Notify { kNo, kSolicited, kAny } notify = Notify::kNo;
  int unacked = 0;
  bool overrun = false;
  ibv_wc current;  // for start_poll and next_poll
};

struct CompChannel : ibv_comp_channel {
  Tag tag;
  Readiness ready;
  std::deque<Cq*> events;
};

inline Cq& cq_of(ibv_cq* cq, const char* call) {
  return checked<Cq>(cq, Kind::kCq, call);
}
void push_completion(ibv_cq* cq, const Completion& completion);
void forget_completions_of(ibv_cq* cq, const Qp* qp);
// fake_queue_pair.cc: the program has polled a completion; frees its slots.
void release_slots(const Completion& completion);
void fail_queues_with(const Cq& cq);  // fake_queue_pair.cc: after an overrun

}  // namespace fake
