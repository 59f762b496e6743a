// SPDX-License-Identifier: BSD-2-Clause
// The progress engine of a domain of ofi_rxm: reading a queue of the domain makes its endpoints read their queues at
// the lower provider; fi_domain(3) PROGRESS.
//
// Thread-safety: drive(), prepare_wait() and expect_sleepers() take the mutex; everything else is called with it held.
// The mutex also serialises all calls into the lower provider except those for memory registration. Lock order: this
// mutex, then the lower provider's own, then those of our queues.
#pragma once

#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>

#include <atomic>
#include <vector>

#include "base/deadline_queue.h"
#include "base/list.h"
#include "base/status.h"
#include "objects/address_vector.h"
#include "objects/completion_queue.h"
#include "objects/counter.h"
#include "objects/engine_base.h"
#include "objects/event_queue.h"
#include "rxm/limits.h"
#include "rxm/remote_count.h"

namespace weft::rxm {

struct WorkTag;

// An object that the engine drives: a base of the endpoint, which removes itself before it is destroyed.
class Driven : public ListHook<Driven>, public ListHook<WorkTag> {
 public:
  // `fabric`: of the lower queues. `shared`: their domain if reading one of its queues makes progress for all of them;
  // else null. All `shared` of an engine are the same.
  Driven(fid_fabric* fabric, fid_domain* shared) noexcept : fabric_(fabric), shared_(shared) {}
  // Returns the number of entries found.
  virtual std::size_t read_lower_queue() noexcept = 0;
  // The rest of a round, in turn or after Engine::note_work(). Connection events are read in turn, or if some are
  // awaited. Returns whether the next round must call it again.
  virtual bool progress(bool in_turn) noexcept = 0;
  // The lower queues on which a thread may sleep.
  virtual fid_cq* lower_queue() noexcept = 0;
  virtual fid_eq* lower_events() noexcept = 0;
  // The time at which progress() must run, even without an event.
  virtual Deadline next_deadline() noexcept = 0;
  // Work is left that no descriptor reports.
  virtual bool has_pending_work() noexcept = 0;

 protected:
  ~Driven() = default;

 private:
  friend class Engine;
  fid_fabric* const fabric_;
  fid_domain* const shared_;
  bool watched_ = false;
  bool polled_ = false;  // its queue is in the engine's poll set
};

class Engine : public EngineBase {
 public:
  explicit Engine(Turns turns) noexcept : EngineBase(turns) {}
  ~Engine() { stop_service(); }

  // ProgressEngine (objects/progress.h).
  void drive() noexcept;
  bool prepare_wait() noexcept;
  void expect_sleepers() noexcept;
  // The lower provider may hold injected messages back; progress sends them.
  bool needs_progress() const noexcept { return injected_.load(std::memory_order_relaxed); }

  // Progress without the application's calls: FI_PROGRESS_AUTO. stop_service() ends it.
  Status start_service_thread();

  // From here on the caller holds the mutex.
  // Called before add().
  Status open_timer() noexcept;
  void progress() noexcept;
  void add(Driven& driven) noexcept;
  void remove(Driven& driven) noexcept;
  void add(RemoteCount& count) noexcept {
    remote_counts_.push_back(count);
    count.watched = sleepers_ && watch(*count.all());
    plain_ = false;
    wake_sleepers();  // sleepers do not poll its descriptor
  }
  // The next round calls progress() of that object.
  void note_work(Driven& driven) noexcept {
    if (!List<Driven, WorkTag>::linked(driven) && List<Driven>::linked(driven)) working_.push_back(driven);
  }
  // The lower provider has copied a message that is to be sent.
  void note_injected() noexcept { injected_.store(true, std::memory_order_relaxed); }
  // The next round reads the connection events of all endpoints.
  void read_all_events() noexcept {
    all_in_turn_ = true;
    plain_ = false;
  }
  // Called when an operation was queued, for example: sleeping threads make progress again.
  void wake_sleepers() noexcept {
    if (waiting_ || automatic_) wake();
  }

 private:
  void make_round() noexcept;
  bool is_turn_due() noexcept;
  void poll_sources(bool turn) noexcept;
  void work() noexcept;
  std::size_t read_poll_set() noexcept;
  void drop_poll_set() noexcept;
  Driven* take_turns() noexcept;
  bool watch(Driven& driven) noexcept;
  bool watch(::fid& waits) noexcept;
  void unwatch(Driven& driven) noexcept;
  bool watch_all() noexcept;
  bool set_timer() noexcept;
  bool prepare() noexcept;
  void pass_on_counts() noexcept;

  DeadlineTimer timer_;
  List<Driven> driven_;
  List<Driven, WorkTag> working_;  // members of driven_ with more work than their lower queue
  unsigned count_ = 0;             // the length of driven_
  unsigned polled_ = 0;            // members of driven_ whose queues are in the poll set
  Lower<fid_poll> poll_set_;       // null: every lower queue is read
  std::vector<void*> ready_;       // room for the answer of the poll set
  bool plain_ = false;             // most rounds need not poll_sources()
  bool all_in_turn_ = true;        // events may wait at any endpoint
  bool sleepers_ = false;          // threads may sleep without prepare_wait()
  std::size_t found_ = 0;          // entries that the last round found
  unsigned idle_step_ = kCmPolls;  // the number that an idle round adds to rounds_
  unsigned rounds_ = 0;            // since the clock was read last, ...
  Clock::time_point look_at_;      // ... at that time
  Clock::time_point turn_at_;      // the last turn
  List<RemoteCount> remote_counts_;
  std::atomic<bool> injected_{false};
};

// The shared queue objects, driven by this engine.
using AddressVector = weft::AddressVector<Engine>;
using CompletionQueue = weft::CompletionQueue<Engine>;
using Counter = weft::Counter<Engine>;
using EventQueue = weft::EventQueue<Engine>;

}  // namespace weft::rxm
