// SPDX-License-Identifier: BSD-2-Clause
// The progress engine of a domain of ofi_rxm: whoever reads a queue of the domain makes its endpoints read theirs at
// the lower provider; fi_domain(3) PROGRESS.
//
// Thread-safety: drive(), prepare_wait() and expect_sleepers() take the mutex; everything else is called with it held.
// The mutex also serialises all calls into the lower provider but those about registered memory. Lock order: this
// mutex, then the lower provider's own, then those of our queues.
#pragma once

#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>

#include <atomic>
#include <memory>

#include "base/deadline.h"
#include "base/list.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "objects/engine_base.h"
#include "rxm/remote_count.h"

namespace weft::rxm {

// What the engine drives; embedded in the endpoint, which removes it before it goes away.
class Driven : public ListHook<Driven> {
 public:
  virtual void progress() noexcept = 0;
  // The lower queues that it may sleep on.
  virtual fid_cq* lower_queue() noexcept = 0;
  virtual fid_eq* lower_events() noexcept = 0;
  // Somebody is going to sleep, now and perhaps at any time from now on: another descriptor to sleep on; -1: none.
  virtual int on_watched() noexcept = 0;
  // When it wants to be driven whatever happens.
  virtual Deadline next_deadline() noexcept = 0;
  // Work is left that no descriptor tells of.
  virtual bool restless() noexcept = 0;

 protected:
  ~Driven() = default;

 private:
  friend class Engine;
  bool watched_ = false;
};

class Engine : public EngineBase {
 public:
  static Result<std::unique_ptr<Engine>> open(fid_fabric* lower, Turns turns);
  ~Engine() { stop_service(); }

  // ProgressEngine (objects/progress.h).
  void drive() noexcept;
  bool prepare_wait() noexcept;
  void expect_sleepers() noexcept;
  // The lower provider may still gather what it was given; progress sends it.
  bool owes_progress() const noexcept { return given_.load(std::memory_order_relaxed); }

  // Progress without the application's calls: FI_PROGRESS_AUTO. stop_service() ends it.
  Status start_service_thread();

  // From here on the caller holds the mutex.
  void add(Driven& driven) noexcept;
  void remove(Driven& driven) noexcept;
  void add(RemoteCount& count) noexcept { remote_counts_.push_back(count); }
  // The lower provider copied something to be sent.
  void note_given() noexcept { given_.store(true, std::memory_order_relaxed); }
  // An operation was queued, say: whoever is asleep has to look again.
  void wake_sleepers() noexcept {
    if (waiting_ || automatic_) wake();
  }

 private:
  Engine(fid_fabric* lower, Turns turns) noexcept : EngineBase(turns), lower_(lower) {}
  bool watch(Driven& driven) noexcept;
  bool set_timer() noexcept;
  void progress() noexcept;
  bool prepare() noexcept;
  bool pass_on_counts() noexcept;

  fid_fabric* const lower_;
  UniqueFd timer_;
  Clock::time_point armed_ = Clock::time_point::max();
  List<Driven> driven_;
  List<RemoteCount> remote_counts_;
  std::atomic<bool> given_{false};
};

}  // namespace weft::rxm
