// SPDX-License-Identifier: BSD-2-Clause
// The wait object behind every completion queue, event queue, counter and wait set: fi_cq(3), fi_eq(3), fi_cntr(3),
// fi_poll(3) (fi_trywait, FI_GETWAIT).
//
// The idea: a producer signals after each write, a consumer arms before it sleeps.
//   consumer: arm; look at the queue; sleep        producer: write to the queue; armed? then wake
// Both are sequentially consistent (or meet in the queue's lock), so one of them sees the other. A signal costs one
// atomic load unless somebody is armed; only then, once, it writes an eventfd. So busy polling makes no system call.
//
// Many sleepers: one of them, the leader, polls the descriptors; the others wait on a condition variable. A wake counts
// wakes_ up and reaches all who armed before it, so each looks at the queue for its own condition, and none can take
// away another's wake-up. A leader that leaves makes a sleeper its successor.
#pragma once

#include <pthread.h>
#include <rdma/fi_eq.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "objects/progress.h"

namespace weft {

// Owner: the queue. Thread-safe, except open() and join().
class WaitObject {
 public:
  WaitObject() noexcept;
  ~WaitObject();
  WaitObject(const WaitObject&) = delete;
  WaitObject& operator=(const WaitObject&) = delete;

  // `kind` is any but FI_WAIT_SET; -FI_EINVAL for what is none.
  Status open(fi_wait_obj kind);
  // Makes this an FI_WAIT_SET object: signals and descriptors go to the set's, which must outlive this one.
  void join(WaitObject& set) noexcept;

  fi_wait_obj kind() const noexcept { return kind_; }
  // fi_cq_sread, fi_eq_sread, fi_cntr_wait are allowed: neither FI_WAIT_NONE nor FI_WAIT_SET.
  bool can_block() const noexcept { return kind_ != FI_WAIT_NONE && kind_ != FI_WAIT_SET; }

  // Descriptors that become readable when there is progress to make; they count as part of this object. Attaching
  // twice needs detaching twice. Sleepers notice at once.
  Status attach(int fd);
  void detach(int fd) noexcept;

  // FI_WAIT_MUTEX_COND only, nothing for other kinds: an application that sleeps on a condition variable polls no
  // descriptor, so a thread of ours drives progress and broadcasts. `progress` drives, then says whether sleeping is
  // safe.
  Status start_driver(std::function<bool()> progress);
  // Ends that thread; to be called before what `progress` uses goes away.
  void stop_driver() noexcept;
  bool has_driver() const noexcept { return target_->driver_ != nullptr; }

  // Producer, after its write is visible. Never blocks; may be called under an engine's lock.
  void signal() noexcept {
    if (target_->armed_.load(std::memory_order_seq_cst)) [[unlikely]]
      target_->wake();
  }

  // fi_trywait: the caller looks at the queue for the last time, then sleeps on the native object.
  void arm() noexcept;

  // fi_cq_signal: every thread in wait() leaves, or the next one that enters.
  void interrupt() noexcept;

  // Blocks until there is something to read, an interrupt() or the deadline; true in the first case. `Source` has
  //   void drive()           all progress that is possible now
  //   bool must_not_sleep()  something to read; exact, if what it looks at changed before arming
  //   bool prepare_wait()    see ProgressEngine
  // and may have kShowsAllWork, see shows_all_work: then it is not driven before there is something to do.
  template <class Source>
  bool wait(Deadline deadline, Source&& source) noexcept;

  // FI_GETWAIT, FI_GETWAITOBJ; other commands are -FI_ENOSYS.
  int control(int command, void* arg) noexcept;

 private:
  // A thread inside wait(): whether it has slept and whether it leads.
  class Turn {
   public:
    explicit Turn(WaitObject& wait) noexcept : wait_(wait) {}
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    WaitObject& wait_;
    bool slept_ = false;
    bool leads_ = false;
  };
  // That thread from arming until it has slept.
  class Sleeper {
   public:
    explicit Sleeper(Turn& turn) noexcept;
    ~Sleeper();
    Sleeper(const Sleeper&) = delete;
    Sleeper& operator=(const Sleeper&) = delete;
    // Returns after a wake, when a descriptor is readable, at the deadline, or for no reason.
    void sleep(Deadline deadline) noexcept;

   private:
    Turn& turn_;
    WaitObject& wait_;
    uint64_t wakes_seen_;
  };
  struct Driver;
  struct Attached {
    int fd;
    unsigned count;
  };

  void wake() noexcept;
  void wake_locked() noexcept;
  void drain_locked() noexcept;
  void poll_descriptors(std::unique_lock<std::mutex>& lock, Deadline deadline) noexcept;
  void run_driver() noexcept;
  int get_epoll_locked() noexcept;
  int get_descriptors_locked(fi_wait_pollfd* out) const noexcept;
  void note_wait(Clock::duration length, bool spun) noexcept;

  // A wait may spin this long before it sleeps, provided that the last waits ended as quickly.
  static constexpr std::chrono::microseconds kSpin{50};  // about what it costs to fall asleep and be woken
  static constexpr int kQuickWaits = 2;
  static constexpr int kSpinInVain = -30;  // after that, so many quick waits more until the next try

  fi_wait_obj kind_ = FI_WAIT_NONE;
  WaitObject* target_ = this;  // the set's object with FI_WAIT_SET
  UniqueFd event_;             // eventfd; readable from a wake to the next drain

  std::atomic<bool> armed_{false};  // written under mutex_
  std::atomic<int> quick_waits_{0};
  std::atomic<uint64_t> interrupts_{0};  // interrupt() calls so far
  std::atomic<uint64_t> heeded_{0};      // ... up to which some thread has left wait()

  std::mutex mutex_;         // guards the rest; nothing else is locked under it
  bool event_set_ = false;   // event_ is readable
  bool native_ = false;      // the application has fetched descriptors or the condition, so it may sleep there unseen
  uint64_t wakes_ = 0;       // so far
  unsigned sleepers_ = 0;    // Sleepers alive
  bool has_leader_ = false;  // some Turn leads; with FI_WAIT_MUTEX_COND the driver does, for good
  bool polling_ = false;     // the leader is in poll() ...
  bool must_rise_ = false;   // ... and was woken there: event_ stays readable until it has noticed
  std::condition_variable followers_;
  UniqueFd epoll_;  // FI_WAIT_FD: event_ and attached_ as one descriptor, made when asked for
  std::vector<Attached> attached_;
  uint64_t change_index_ = 0;

  std::unique_ptr<Driver> driver_;
};

template <class Source>
bool WaitObject::wait(Deadline deadline, Source&& source) noexcept {
  const Clock::time_point start = Clock::now();
  const uint64_t heeded = heeded_.load();
  const bool spin = quick_waits_.load(std::memory_order_relaxed) >= kQuickWaits;
  Turn turn(*this);
  bool may_skip =
      shows_all_work<std::remove_reference_t<Source>> && !spin && kind_ != FI_WAIT_YIELD && start < deadline.time();
  for (;;) {
    if (!std::exchange(may_skip, false)) source.drive();
    if (source.must_not_sleep()) {
      note_wait(Clock::now() - start, spin);
      return true;
    }
    if (const uint64_t interrupts = interrupts_.load(); interrupts != heeded) {
      heeded_.store(interrupts);
      return false;
    }
    const Clock::time_point now = Clock::now();
    if (now >= deadline.time()) {
      note_wait(now - start, spin);
      return false;
    }
    if (kind_ == FI_WAIT_YIELD) {
      std::this_thread::yield();
      continue;
    }
    if (spin && now - start < kSpin) continue;

    Sleeper sleeper(turn);
    if (source.must_not_sleep() || interrupts_.load() != heeded) continue;
    if (!has_driver() && !source.prepare_wait()) continue;  // armed: whatever this completes wakes us
    sleeper.sleep(deadline);
  }
}

}  // namespace weft
