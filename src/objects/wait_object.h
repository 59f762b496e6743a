// SPDX-License-Identifier: BSD-2-Clause
// The wait object behind every completion queue, event queue, counter and wait set: fi_cq(3), fi_eq(3), fi_cntr(3),
// fi_poll(3) (fi_trywait, FI_GETWAIT).
//
// A producer signals after each write; a consumer arms before it sleeps.
//   consumer: arm; look at the queue; sleep        producer: write to the queue; armed? then wake
// Both are sequentially consistent (or meet in the queue's lock), so one of them detects the other. A signal costs one
// atomic load unless a consumer is armed; only then, once, it writes an eventfd. So busy polling makes no system call,
// and needs no descriptor.
//
// Many sleepers: one of them, the leader, polls the descriptors; the others wait on a condition variable. A wake-up
// is counted (State::wakes) and reaches all that armed before it, so each checks the queue for its own condition, and
// no sleeper can consume another's wake-up. A leader that leaves makes a sleeper the next leader. Among the leaders of
// many queues of one engine, a few poll that engine's descriptor (polling_turns.h).
#pragma once

#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/cancellation.h"
#include "base/deadline.h"
#include "base/held_signals.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "objects/polling_turns.h"
#include "objects/progress.h"

namespace weft {

// Owner: the queue. Thread-safe, except open() and join().
class WaitObject {
 public:
  WaitObject() noexcept;
  ~WaitObject();

  // `kind` is any but FI_WAIT_SET; -FI_EINVAL for unknown values.
  Status open(fi_wait_obj kind);
  // Makes this an FI_WAIT_SET object: signals and descriptors go to the set's, which must outlive this one.
  void join(WaitObject& set) noexcept;

  fi_wait_obj kind() const noexcept { return kind_; }
  // Descriptors that become readable when there is progress to make; they count as part of this object. Attaching twice
  // needs detaching twice. The change takes effect for sleepers at once. No effect on an object without descriptors.
  // With `turns`, a sleeper polls the descriptor in its turn only.
  Status attach(int fd, std::shared_ptr<PollingTurns> turns = nullptr);
  void detach(int fd) noexcept;
  // Attaches all descriptors of an engine, if this object has a descriptor; otherwise the engine need not open its own.
  template <class E>
  Status attach_to(E& engine) {
    if (target_->state_ == nullptr) return {};
    const auto fds = wait_fds_of(engine);
    for (auto fd = fds.begin(); fd != fds.end(); ++fd) {
      Status status = attach(*fd, polling_turns_of(engine));
      if (status.ok()) continue;
      while (fd != fds.begin()) detach(*--fd);  // other queues of a wait set may have attached the rest
      return status;
    }
    return {};
  }
  template <class E>
  void detach_from(E& engine) noexcept {
    if (target_->state_ == nullptr) return;
    for (const int fd : wait_fds_of(engine)) detach(fd);
  }

  // FI_WAIT_MUTEX_COND only, no effect for other kinds: an application that sleeps on a condition variable polls no
  // descriptor, so a thread of the library makes progress of `source`, see wait(), and broadcasts.
  template <class Source>
  Status start_driver(Source& source) {
    return start_driver(std::function<bool()>([&source] {
      source.drive();
      return source.prepare_wait();
    }));
  }
  // Ends that thread; called before the objects that `progress` uses are destroyed.
  void stop_driver() noexcept;
  bool has_driver() const noexcept { return target_->state_ != nullptr && target_->state_->driver != nullptr; }

  // Producer, after its write is visible. Never blocks; may be called under an engine's lock.
  void signal() noexcept {
    if (target_->armed_.load(std::memory_order_seq_cst)) [[unlikely]]
      target_->wake();
  }

  // fi_trywait: the caller checks the queue once more, then sleeps on the native object. True: this took a wake-up
  // back, which other threads that sleep there may not have seen.
  bool arm() noexcept;

  // fi_trywait of `source`, see wait().
  template <class Source>
  int trywait(Source& source) noexcept {
    const bool took = arm();
    if (source.must_not_sleep()) {
      if (took) target_->wake_now();  // the caller may leave entries for those threads
      return -FI_EAGAIN;
    }
    return has_driver() || source.prepare_wait() ? 0 : -FI_EAGAIN;
  }

  // fi_cq_signal: every thread in wait() returns, or the next one that enters.
  void interrupt() noexcept;

  // The sleepers make progress, and poll what is attached now.
  void wake_now() noexcept;

  // Blocks until `ready()`. -FI_ETIMEDOUT at the deadline; -FI_EINTR after an interrupt(), or after a signal that this
  // thread handled while it slept or, without a wait object, polled. `Source` has
  //   void drive()           all progress that is possible now
  //   bool must_not_sleep()  there is something to read; exact for changes before arming, as `ready()` is
  //   bool prepare_wait()    see ProgressEngine
  // and may have kShowsAllWork, see shows_all_work: then drive() is not called before its descriptor is readable.
  // A cancellation point only while it sleeps.
  template <class Source, class Ready>
  Status wait(Deadline deadline, Source& source, Ready ready) {
    const Clock::time_point start = Clock::now();
    Clock::time_point now = start;
    const uint64_t answered = answered_interrupts_.load();
    const bool spin = quick_waits_.load(std::memory_order_relaxed) >= kQuickWaits;
    Waiter waiter(*this);
    const HeldSignals signals(!can_sleep());
    bool may_skip = shows_all_work<Source> && !spin && can_sleep() && start < deadline.time();
    for (;;) {
      if (!std::exchange(may_skip, false)) {
        source.drive();
        now = Clock::now();
      }
      if (ready()) {
        note_wait(now - start, spin);
        return {};
      }
      if (waiter.signalled_) return Status(-FI_EINTR);
      if (const uint64_t interrupts = interrupts_.load(); interrupts != answered) {
        answered_interrupts_.store(interrupts);
        return Status(-FI_EINTR);
      }
      if (now >= deadline.time()) {
        note_wait(now - start, spin);
        return Status(-FI_ETIMEDOUT);
      }
      if (!can_sleep()) {
        waiter.signalled_ = signals.handle();
        std::this_thread::yield();
        continue;
      }
      if (spin && now - start < kSpin) continue;

      Sleeper sleeper(waiter);
      if (ready() || interrupts_.load() != answered) continue;
      if (!has_driver() && !source.prepare_wait()) continue;  // armed: a completion made by this wakes the sleeper
      sleeper.sleep(deadline);
    }
  }

  // FI_GETWAIT, FI_GETWAITOBJ; other commands are -FI_ENOSYS.
  int control(int command, void* arg) noexcept;

 private:
  // With more descriptors, one of epoll stands for all of them, and turns do not matter.
  static constexpr std::size_t kDirect = 7;
  // The turns of a sleeper, one for each attached descriptor.
  struct Turns : std::array<PollingTurns::Turn, kDirect> {
    explicit Turns(WaitObject& sleeper) noexcept;
  };
  // A thread inside wait().
  class Waiter {
   public:
    explicit Waiter(WaitObject& wait) noexcept : wait_(wait) {}
    ~Waiter();
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;

    WaitObject& wait_;
    const Uncancellable awake_;
    bool slept_ = false;
    bool leads_ = false;
    bool signalled_ = false;      // the thread has handled a signal
    std::optional<Turns> turns_;  // once it has slept as the leader
  };
  // A waiter from arming until it has slept.
  class Sleeper {
   public:
    explicit Sleeper(Waiter& waiter) noexcept;
    ~Sleeper();
    Sleeper(const Sleeper&) = delete;
    Sleeper& operator=(const Sleeper&) = delete;
    // Returns after a wake, when a descriptor is readable, at the deadline, or for no reason.
    void sleep(Deadline deadline);

   private:
    Waiter& waiter_;
    WaitObject& wait_;
    uint64_t wakes_seen_;
  };
  struct Driver;
  struct Attached {
    int fd;
    unsigned count;
    std::shared_ptr<PollingTurns> turns;  // may be null
  };
  // The part of an object on whose descriptors threads sleep.
  struct State {
    ~State();

    std::mutex mutex;         // guards the rest; nothing else is locked under it
    UniqueFd event;           // eventfd, from the first sleeper on; readable from a wake to the next drain
    bool event_set = false;   // `event` is readable
    bool native = false;      // the application has fetched descriptors or the condition, and may sleep on them
    uint64_t wakes = 0;       // so far
    unsigned sleepers = 0;    // Sleepers alive
    bool has_leader = false;  // a Waiter leads; with FI_WAIT_MUTEX_COND the driver always does
    bool polling = false;     // the leader is in poll() ...
    bool stay_set = false;    // ... and was woken there: `event` stays readable until it returns
    std::condition_variable followers;
    UniqueFd epoll;  // FI_WAIT_FD: `event` and `attached` as one descriptor, created when it is fetched
    std::vector<Attached> attached;
    uint64_t change_index = 0;
    std::unique_ptr<Driver> driver;
  };

  bool can_sleep() const noexcept { return state_ != nullptr; }
  // `progress` makes progress and returns whether sleeping is safe.
  Status start_driver(std::function<bool()> progress);
  void wake() noexcept;
  void wake_locked() noexcept;
  bool drain_locked() noexcept;  // whether there was a wake-up
  Status open_event_locked() noexcept;
  // Unlocks, and locks again.
  void take_turns(std::unique_lock<std::mutex>& lock, Turns& turns) noexcept;
  // `turns`: null polls all descriptors. False: a signal came.
  bool poll_descriptors(std::unique_lock<std::mutex>& lock, Deadline deadline, const Uncancellable& awake,
                        const Turns* turns = nullptr);
  void run_driver() noexcept;
  int get_epoll_locked() noexcept;
  int get_descriptors_locked(fi_wait_pollfd* out) noexcept;
  void note_wait(Clock::duration length, bool spun) noexcept;

  // A wait may spin this long before it sleeps, provided that the last waits were as short.
  static constexpr std::chrono::microseconds kSpin{50};  // about the cost of falling asleep and waking up
  static constexpr int kQuickWaits = 2;
  static constexpr int kFailedSpin = -30;  // short waits until the next attempt to spin

  fi_wait_obj kind_ = FI_WAIT_NONE;
  std::atomic<bool> armed_{false};  // written under the mutex
  std::atomic<std::int8_t> quick_waits_{0};
  WaitObject* target_ = this;                     // the set's object with FI_WAIT_SET
  std::atomic<uint64_t> interrupts_{0};           // interrupt() calls so far
  std::atomic<uint64_t> answered_interrupts_{0};  // ... that made a thread leave wait()
  std::unique_ptr<State> state_;                  // null: no thread sleeps on this object: FI_WAIT_NONE, YIELD, SET
};

}  // namespace weft
