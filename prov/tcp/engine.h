// SPDX-License-Identifier: BSD-2-Clause
// The progress engine of the tcp provider: readiness, deadlines and the order of work of a set of sockets. A domain
// has one for its endpoints, an event queue one for its listeners and incoming requests (fi_domain(3), progress).
//
// Sockets are registered once, edge-triggered, so an idle connection costs nothing and no operation touches the epoll
// set. A socket that just delivered data is "hot": it is read before epoll is polled, because a busy poll finds the
// next message one system call earlier that way. A socket that is about to receive starts hot and is registered only
// when a thread is going to sleep or another socket needs the place: a short connection never is.
//
// Connections whose bytes go through shared memory are polled there in every round. Before a thread sleeps they are
// armed: the other end then wakes it through the socket.
//
// Thread-safety: drive(), prepare_wait() and start_service_thread() take the mutex; everything else is called with
// the mutex held, and handlers run with it held. Lock order: engine, then the locks of queues, counters and regions.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "base/deadline.h"
#include "base/deadline_queue.h"
#include "base/list.h"
#include "base/status.h"
#include "objects/address_vector.h"
#include "objects/completion_queue.h"
#include "objects/counter.h"
#include "objects/engine_base.h"
#include "objects/event_queue.h"
#include "objects/short_bursts.h"
#include "tcp/limits.h"
#include "tcp/local/local_wire.h"
#include "tcp/process_exit.h"
#include "tcp/socket.h"

namespace weft::tcp {

class LingeringSockets;
struct ReadyTag;
struct DeadlineTag;

// The engine's state for one socket; embedded in its owner, which unwatches it before it is destroyed.
struct Watch : ListHook<ReadyTag>, ListHook<DeadlineTag> {
  using Handler = void (*)(Watch&) noexcept;
  explicit Watch(Handler ready, Handler deadline_passed = nullptr) noexcept
      : on_ready(ready), on_deadline(deadline_passed) {}

  Handler on_ready;     // readiness changed, or make_ready() was called; runs until EAGAIN
  Handler on_deadline;  // the deadline passed (it is cleared before the call)
  int fd = -1;
  bool readable = false;  // set by the engine, cleared by the handler on EAGAIN
  bool writable = false;
  bool hung = false;       // the peer closed its side, or the socket failed
  bool signalled = false;  // as `readable`, for a transport that reads memory
  bool silent = false;     // set by silence()
  bool listens = false;    // set by watch_listener()
  bool may_end = false;    // set when bytes that others received earlier were handled; see end_later()
  bool received = false;   // set by mark_hot() while a handler runs
  bool awaited = false;    // set by read_when_ready(), cleared by mark_hot()
  bool output = false;     // the engine reports when the socket becomes writable
  bool sends = false;      // the handler sends messages; see Engine::exits()
  bool registered = false;
  std::uint16_t misses = 0;
  Clock::time_point deadline{};
};

// A connection whose bytes go through memory. Owner: its transport. Must not move.
struct WireWatch : ListHook<WireWatch> {
  WireWatch(Watch& of, std::unique_ptr<LocalWire> made) noexcept : watch(of), wire(std::move(made)) {}

  bool has_news() const noexcept { return has_input() || (awaits_room && wire->has_room()); }
  bool has_input() const noexcept { return reads && !paused && wire->has_input(); }
  // There is room that was awaited.
  bool take_room() noexcept {
    if (!awaits_room || !wire->has_room()) return false;
    awaits_room = false;
    return watch.writable = true;
  }
  void arm() const noexcept { wire->fall_asleep(reads && !paused, awaits_room); }

  Watch& watch;
  const std::unique_ptr<LocalWire> wire;
  bool reads = false;             // bytes arrive through the memory
  bool paused = false;            // arrived bytes cannot be handled
  bool wakes_again = false;       // the last wake-up for the peer could not be sent
  bool awaits_room = false;       // the watch becomes writable when there is room ...
  std::int64_t awaits_since = 0;  // ... and has waited since that tick
  std::int64_t latest = 0;        // the tick when it last had input or room
  int end = -EAGAIN;              // the socket's: 0, or -errno
  pid_t process = 0;              // the peer's
};

// A deadline, without a socket, that calls a method of its owner.
template <class Owner, void (Owner::*expired)() noexcept>
struct Timer : Watch {
  explicit Timer(Owner& of) noexcept
      : Watch([](Watch&) noexcept {}, [](Watch& watch) noexcept { (static_cast<Timer&>(watch).owner.*expired)(); }),
        owner(of) {}
  Owner& owner;
};

// Whether an application calls for progress as soon as it has posted a burst of long messages, as its past bursts show:
// only then may such messages wait for each other (docs/decisions/0001). Callers pass the time in.
class ProgressHabit {
 public:
  // The last bursts were all followed by a call for progress at once.
  bool holds() const noexcept { return prompt_bursts_ == kBursts; }
  // A long message that is not the first of its burst was posted.
  void posted(Clock::time_point now) noexcept {
    posted_ = now;
    pending_.store(true, std::memory_order_relaxed);
  }
  // The application has made no progress since. For any thread.
  bool pending() const noexcept { return pending_.load(std::memory_order_relaxed); }
  void came_back(Clock::time_point now) noexcept {
    prompt_bursts_ = now - posted_ > kAtOnce ? 0 : prompt_bursts_ + !holds();
    pending_.store(false, std::memory_order_relaxed);
  }

 private:
  static constexpr unsigned kBursts = 4;
  static constexpr Clock::duration kAtOnce = std::chrono::microseconds(10);

  Clock::time_point posted_{};
  unsigned prompt_bursts_ = 0;
  std::atomic<bool> pending_{false};
};

class Engine final : public EngineBase, private LastSender {
 public:
  explicit Engine(Turns turns = Turns::kNone) noexcept;
  ~Engine();

  // ProgressEngine (objects/progress.h).
  void drive() noexcept;
  bool prepare_wait() noexcept;
  void expect_sleepers() noexcept;
  std::atomic<unsigned> watchers{0};

  // Progress without the application's calls: FI_PROGRESS_AUTO, FI_WAIT_MUTEX_COND. Idempotent.
  Status start_service_thread();
  bool needs_progress() const noexcept { return progress_habit_.pending() || short_bursts_.learns(); }
  // Also revokes offers of such memory to a process of this host; a stream whose peer has no refusals ends.
  void on_region_closed();

  // The caller of everything below holds the mutex.

  // Each listener calls open_timer() when it starts, each endpoint open_resources() when it is enabled, so an engine
  // without them is small and has no descriptors.
  Status open_timer() noexcept;
  Status open_resources() noexcept;
  void progress() noexcept;
  Status watch(Watch& watch, int fd, bool output = false) noexcept;
  Status watch_listener(Watch& watch, int fd) noexcept;
  // For a socket that will soon have something to read: hot from the start.
  Status watch_hot(Watch& watch, int fd) noexcept;
  // The socket's buffer is full: on_ready runs when there is room. Stays registered for output from then on.
  void await_output(Watch& watch) noexcept;
  // `next` takes over the descriptor that `old` watches, with one system call at most.
  Status replace(Watch& old, Watch& next) noexcept;
  void unwatch(Watch& watch) noexcept;  // also drops its deadline and queued work; the descriptor stays open
  void make_ready(Watch& watch) noexcept;
  // The handler reached the end of its input: it runs again, with may_end, once every other socket was read. So the end
  // of one connection follows the messages that had arrived on others before.
  void end_later(Watch& watch) noexcept;
  void set_deadline(Watch& watch, Clock::time_point at) noexcept { deadlines_.set(watch, at); }
  // A deadline of nearly all sockets, kept apart from those of pending requests: each queue gets its own in order.
  void set_keepalive(Watch& watch, Clock::time_point at) noexcept { keepalives_.set(watch, at); }
  void clear_deadline(Watch& watch) noexcept { deadlines_.cancel(watch); }
  // The handler received data: the socket is read first next time.
  void mark_hot(Watch& watch) noexcept {
    watch.received = true;
    watch.awaited = false;
    if (!is_hot(watch)) (void)warm_up(watch);
  }
  // Until its next bytes, a hot socket is read when epoll reports it. Many bytes are on their way, and each read that
  // finds none delays the processor that brings them.
  void read_when_ready(Watch& watch) noexcept;
  // The handler took long: other sockets' readiness is polled before the next handler runs.
  void took_long() noexcept { took_long_ = true; }
  // Whether a message that is not the first of its burst may wait for the next round.
  bool may_gather(std::size_t len) noexcept {
    if (len <= kGatherPayload) return short_bursts_.may_wait();
    return len <= kGatherLongPayload && progress_habit_.holds();
  }
  // A message that is not the first of its burst was posted; called after the system call, if there was one.
  void posted_in_burst(std::size_t len) noexcept {
    if (len <= kGatherPayload)
      short_bursts_.sent();
    else if (len <= kGatherLongPayload)
      progress_habit_.posted(net::now());
  }
  // Enough messages wait: the burst ends, and they are sent.
  void end_burst() noexcept { short_bursts_.end(); }
  // The process exits: handlers do nothing but send, as far as there is room.
  bool exits() const noexcept { return exits_; }
  void cool_down(Watch& watch) noexcept;  // reads would find nothing: wait for readiness

  // Polls the memory in every round, until nothing has arrived there for kSkipAfter. Called again when the awaited
  // input or room changes.
  void poll_wire(WireWatch& wired) noexcept;
  // The wire is full. While the threads that make progress here sleep, a timer runs (kStall) after which the wire may
  // use its overflow, because its reader may not read for a long time.
  void await_room(WireWatch& wired) noexcept;
  // Registered memory is offered through a wire.
  void note_offered() noexcept { offers_memory_.store(true, std::memory_order_relaxed); }
  // Takes a socket that is not watched and whose sending side is shut down; closes it when its last bytes arrived.
  void linger(UniqueFd socket) noexcept;
  // The descriptor of the watch is rarely ready: it need not be polled in every round.
  void silence(Watch& watch) noexcept;

  // Streams read here while the destination of the next bytes is unknown. Shared: contents do not outlive a handler.
  static constexpr std::size_t kScratchSize = 64 * 1024;
  std::byte* receive_scratch() noexcept { return scratch_.get(); }
  std::byte* transmit_scratch() noexcept { return scratch_.get() + kScratchSize; }
  // Memory for bytes that were read and cannot be handled yet. When memory runs out, the engine lends a spare one.
  struct FreeStash {
    Engine* owner = nullptr;  // the spare one has it
    void operator()(std::byte* bytes) const noexcept {
      owner != nullptr ? owner->spare_stash_.reset(bytes) : delete[] bytes;
    }
  };
  using Stash = std::unique_ptr<std::byte[], FreeStash>;
  // Null: there is no memory, and another stream has the spare one.
  Stash make_stash(std::size_t size) noexcept;

 private:
  void begin_round() noexcept {
    ++round_;
    if (progress_habit_.pending()) progress_habit_.came_back(net::now());
    short_bursts_.end();
  }
  bool send_last() noexcept override;
  bool one_round() noexcept;
  bool outnumbers_processors() noexcept;
  bool poll_hot() noexcept;
  bool poll_wires() noexcept;
  bool arm_wires() noexcept;
  void note_awake() noexcept;
  void skip_idle_wires() noexcept;
  void watch_for_stalls() noexcept;
  void on_stall() noexcept;
  void poll_sources(bool due) noexcept;
  void poll_epoll() noexcept;
  void run_ready() noexcept {
    if (!ready_.empty()) run_queued(false);
  }
  // Not `all`: those that are left after kTimeForHandlers run in the next round.
  void run_queued(bool all) noexcept;
  // Whether a thread may sleep that notices work only through the epoll set, or by wake().
  bool may_have_sleepers() const noexcept { return must_send_now() || asleep_.any() || sleepers_; }
  void leave_work() noexcept;  // to the next round, which begins at once
  void end_connections() noexcept;
  Status add(Watch& watch) noexcept;
  Status register_hot() noexcept;
  bool warm_up(Watch& watch) noexcept;
  void forget_hot(Watch& watch) noexcept;
  bool is_hot(const Watch& watch) const noexcept { return hot_[0] == &watch || hot_[1] == &watch; }

  static constexpr std::size_t kHotSockets = 2;  // read speculatively
  static_assert(kHotSockets == 2, "is_hot() looks at each");
  // The other sockets' readiness is polled after this many polls of rounds and of connections in memory, and when the
  // clock ticked, for applications that poll seldom.
  static constexpr int kPollsPerEpoll = 64;
  // kPollsPerEpoll where all bytes go through memory: a request for a connection can wait for some microseconds.
  static constexpr int kPollsOfSilence = 1024;
  // Polls after which rounds that found something look at the clock; a divisor of both. Others look each time.
  static constexpr int kPollsPerTick = 16;
  static constexpr std::int64_t kSkipAfter = 50'000'000;  // nanoseconds
  static constexpr std::int64_t kStall = 10'000'000;      // nanoseconds without room until the overflow is used
  static constexpr std::uint16_t kHotMisses = 20000;      // empty reads until a hot socket cools down
  static constexpr int kHandlersPerCheck = 4;
  static constexpr std::chrono::microseconds kTimeForHandlers{1000};
  static constexpr int kBatch = 64;  // readiness events per system call

  ProgressHabit progress_habit_;  // with long messages
  ShortBursts short_bursts_;
  std::atomic<bool> offers_memory_{false};  // registered memory was offered at some time
  bool sleepers_ = false;                   // threads may poll wait_fd() without prepare_wait(), from now on
  std::size_t registered_ = 0;              // sockets in the epoll set
  std::size_t silent_ = 0;                  // registered sockets that are rarely ready ...
  std::size_t listening_ = 0;               // ... and those of listeners
  bool took_long_ = false;
  bool exits_ = false;
  bool crowded_ = false;  // more sockets are active than can be hot: epoll finds them sooner
  List<Watch, ReadyTag> ready_;
  List<Watch, ReadyTag> endings_;
  List<WireWatch> wires_;
  Timer<Engine, &Engine::on_stall> stall_timer_{*this};
  DeadlineTimer timer_;
  DeadlineQueue<Watch, DeadlineTag, &Watch::deadline> deadlines_{timer_}, keepalives_{timer_};
  std::array<Watch*, kHotSockets> hot_{};
  std::int64_t epoll_tick_ = 0;  // when epoll was polled
  int polls_left_ = 0;           // until epoll is polled
  std::unique_ptr<std::byte[]> scratch_;
  std::unique_ptr<LingeringSockets> lingering_;
  std::unique_ptr<std::byte[]> spare_stash_;  // for a stream, when memory runs out
};

// The shared queue objects, driven by this engine.
using AddressVector = weft::AddressVector<Engine>;
using CompletionQueue = weft::CompletionQueue<Engine>;
using Counter = weft::Counter<Engine>;
using EventQueue = weft::EventQueue<Engine>;

}  // namespace weft::tcp
