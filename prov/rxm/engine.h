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
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "base/list.h"
#include "base/mutex.h"
#include "base/ref.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace weft::rxm {

// What the engine drives; embedded in the endpoint, which removes it before it goes away.
class Driven : public ListHook<Driven> {
 public:
  virtual void progress() noexcept = 0;
  // The lower queues that it may sleep on.
  virtual fid_cq* lower_queue() noexcept = 0;
  virtual fid_eq* lower_events() noexcept = 0;
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

class Engine : public RefCounted {
 public:
  // `locking`: false if the application serialises all calls of the domain and no thread of ours drives it.
  static Result<std::unique_ptr<Engine>> open(fid_fabric* lower, bool locking);
  ~Engine();

  Mutex& mutex() noexcept { return mutex_; }

  // ProgressEngine (objects/progress.h).
  void drive() noexcept;
  bool prepare_wait() noexcept;
  int wait_fd() const noexcept { return epoll_.get(); }
  void expect_sleepers() noexcept;

  // Progress without the application's calls: FI_PROGRESS_AUTO.
  Status start_service_thread();
  void stop_service_thread() noexcept;

  // From here on the caller holds the mutex.
  void add(Driven& driven) noexcept { driven_.push_back(driven); }
  void remove(Driven& driven) noexcept;
  // Somebody may be asleep who has to look again: an operation was queued, say.
  void wake() noexcept;

 private:
  Engine(fid_fabric* lower, bool locking) noexcept : mutex_(locking), lower_(lower) {}
  bool watch(Driven& driven) noexcept;
  bool set_timer() noexcept;
  void progress() noexcept;
  bool prepare() noexcept;
  void serve() noexcept;

  Mutex mutex_;
  fid_fabric* const lower_;
  UniqueFd epoll_;
  UniqueFd timer_;
  UniqueFd wake_;
  bool waiting_ = false;  // prepare_wait() said that its caller may sleep, and no progress was made since
  Deadline timer_set_for_;
  List<Driven> driven_;
  std::thread service_;
  std::atomic<bool> stopping_{false};
};

}  // namespace weft::rxm
