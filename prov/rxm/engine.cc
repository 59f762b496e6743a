// SPDX-License-Identifier: BSD-2-Clause
// The progress engine of a domain of ofi_rxm; see engine.h.
#include "rxm/engine.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <new>
#include <thread>
#include <utility>

#include "base/readiness.h"

namespace weft::rxm {

namespace {

// The descriptors of a lower queue or counter; none if the provider does not report them.
class LowerDescriptors {
 public:
  explicit LowerDescriptors(::fid& waits) noexcept {
    fi_wait_obj kind = FI_WAIT_FD;
    (void)fi_control(&waits, FI_GETWAITOBJ, &kind);
    if (kind == FI_WAIT_POLLFD) {
      fi_wait_pollfd answer{.change_index = 0, .nfds = found_.size(), .fd = found_.data()};
      if (fi_control(&waits, FI_GETWAIT, &answer) == 0) count_ = answer.nfds;
    } else if (fi_control(&waits, FI_GETWAIT, &found_[0].fd) == 0) {
      count_ = 1;
    }
  }
  const pollfd* begin() const noexcept { return found_.data(); }
  const pollfd* end() const noexcept { return found_.data() + count_; }

 private:
  std::array<pollfd, 8> found_;  // a queue has its own, its engine's, and that of connections
  std::size_t count_ = 0;
};

}  // namespace

// The clock is read once in so many idle rounds, as long as two readings are less than kCmInterval / kIdleLooks apart.
constexpr unsigned kIdleLooks = 8;
// In rounds that find entries, it is read once in so many entries: the application may work long for each of them.
constexpr unsigned kBusyLooks = 32;

Status Engine::open_timer() noexcept {
  if (epoll_ && timer_.fd() >= 0) return {};
  DeadlineTimer opened;
  if (Status status = opened.open(); !status.ok()) return status;
  if (Status status = add_descriptor(opened.fd(), nullptr); !status.ok()) return status;
  timer_ = std::move(opened);
  return {};
}

void Engine::add(Driven& driven) noexcept {
  driven_.push_back(driven);
  ++count_;
  fi_poll_attr attr{};
  fid_poll* opened = nullptr;
  if (driven.shared_ != nullptr && poll_set_ == nullptr && fi_poll_open(driven.shared_, &attr, &opened) == 0)
    poll_set_.reset(opened);
  try {
    ready_.resize(count_);
  } catch (const std::bad_alloc&) {
    drop_poll_set();
  }
  bool sleepers = sleepers_;
  for (const Driven& each : driven_) sleepers |= each.watched_;
  if (sleepers) watch(driven);
  driven.polled_ = driven.shared_ != nullptr && poll_set_ != nullptr &&
                   fi_poll_add(poll_set_.get(), &driven.lower_queue()->fid, 0) == 0;
  polled_ += driven.polled_;
  plain_ = false;
  wake_sleepers();  // sleepers do not poll its descriptors
}

void Engine::remove(Driven& driven) noexcept {
  if (!List<Driven>::linked(driven)) return;
  List<Driven>::unlink(driven);
  List<Driven, WorkTag>::unlink(driven);
  if (std::exchange(driven.watched_, false)) unwatch(driven);
  if (std::exchange(driven.polled_, false) && poll_set_ != nullptr) {
    fi_poll_del(poll_set_.get(), &driven.lower_queue()->fid, 0);
    --polled_;
  }
  if (--count_ == 0) poll_set_.reset();
}

void Engine::pass_on_counts() noexcept {
  for (RemoteCount& count : remote_counts_) count.pass_on();
}

// Each queue is read from now on.
void Engine::drop_poll_set() noexcept {
  for (Driven& each : driven_)
    if (std::exchange(each.polled_, false)) fi_poll_del(poll_set_.get(), &each.lower_queue()->fid, 0);
  poll_set_.reset();  // closing a set with members is refused
  polled_ = 0;
}

// One call for the queues of all endpoints, however many are idle, and however many always have entries.
std::size_t Engine::read_poll_set() noexcept {
  const int count = fi_poll(poll_set_.get(), ready_.data(), static_cast<int>(ready_.size()));
  if (count < 0) drop_poll_set();
  std::size_t found = 0;
  for (int each = 0; each < count; ++each) found += static_cast<Driven*>(ready_[each])->read_lower_queue();
  return found;
}

// Reads the clock: whether a round is due that reads connection events. Of idle rounds in quick succession only some
// read it.
[[gnu::noinline]] bool Engine::is_turn_due() noexcept {
  rounds_ = 0;
  const auto now = Clock::now();
  idle_step_ = now - std::exchange(look_at_, now) < kCmInterval / kIdleLooks ? kCmPolls / kIdleLooks : kCmPolls;
  return count_ != 0 && now - turn_at_ >= kCmInterval / count_;
}

// The endpoint from which on this round reads connection events; null: there is no endpoint. While the application
// polls often, that is the last one: the endpoints take turns, all within kCmInterval.
Driven* Engine::take_turns() noexcept {
  if (driven_.empty()) return nullptr;
  const auto elapsed = look_at_ - std::exchange(turn_at_, look_at_);
  Driven& first = driven_.front();
  for (unsigned i = elapsed < kCmInterval ? 1 : std::min(count_, kMaxCmTurns); i != 0; --i)
    driven_.push_back(driven_.pop_front());
  return &first;
}

// Most rounds only read the lower queues.
[[gnu::always_inline]] inline void Engine::make_round() noexcept {
  injected_.store(false, std::memory_order_relaxed);
  rounds_ += found_ != 0 ? static_cast<unsigned>(found_) * (kCmPolls / kBusyLooks) : idle_step_;
  const bool turn = rounds_ >= kCmPolls && is_turn_due();
  if (turn || !plain_) [[unlikely]]
    return poll_sources(turn);
  std::size_t found = 0;
  for (Driven& each : driven_) found += each.read_lower_queue();
  found_ = found;
  if (!working_.empty()) [[unlikely]]
    work();
}

void Engine::progress() noexcept {
  make_round();
  pass_on_deferred();
}

void Engine::drive() noexcept {
  Lock lock(mutex_);
  make_round();
}

[[gnu::noinline]] void Engine::work() noexcept {
  List<Driven, WorkTag> now;
  now.splice_back(working_);
  while (!now.empty()) {
    Driven& each = now.pop_front();
    if (each.progress(false)) note_work(each);
  }
}

// A round that also concerns connection events, those of one endpoint if it is its `turn`, the poll set and remote
// counts.
[[gnu::noinline]] void Engine::poll_sources(bool turn) noexcept {
  if (waiting_) {
    all_in_turn_ = true;
    waiting_ = false;
    net::event_drain(wake_.get());
    if (timer_.passed(Clock::now())) timer_.drain();
  }
  bool in_turn = std::exchange(all_in_turn_, false);
  const Driven* const first = turn ? take_turns() : nullptr;
  const bool polls = poll_set_ != nullptr && polled_ > 1;
  plain_ = !polls && remote_counts_.empty();
  found_ = polls ? read_poll_set() : 0;
  for (Driven& each : driven_) {
    in_turn |= &each == first;
    if (!polls || !each.polled_) found_ += each.read_lower_queue();
    if (each.progress(in_turn)) note_work(each);
  }
  pass_on_counts();
}

// The lower queues' descriptors are added when a thread is about to sleep for the first time, because they cost system
// calls from then on.
bool Engine::watch(Driven& driven) noexcept {
  if (!driven.watched_) driven.watched_ = watch(driven.lower_queue()->fid) && watch(driven.lower_events()->fid);
  return driven.watched_;
}

bool Engine::watch(::fid& waits) noexcept {
  const LowerDescriptors lower(waits);
  return std::all_of(lower.begin(), lower.end(),
                     [this](const pollfd& each) {
                       const Status status = add_descriptor(each.fd, nullptr);
                       return status.ok() || status.code() == -EEXIST;
                     }) &&
         lower.begin() != lower.end();
}

// Queues of one provider share the descriptor of its engine. It stays while another endpoint drives that engine;
// without one, nothing would be read there, and no thread could sleep.
void Engine::unwatch(Driven& driven) noexcept {
  for (const Driven& each : driven_)
    if (each.fabric_ == driven.fabric_) return;
  for (::fid* waits : {&driven.lower_queue()->fid, &driven.lower_events()->fid})
    for (const pollfd& each : LowerDescriptors(*waits)) net::epoll_remove(epoll_.get(), each.fd);
}

bool Engine::watch_all() noexcept {
  bool all = true;
  for (Driven& each : driven_) all &= watch(each);
  for (RemoteCount& count : remote_counts_) {
    count.watched = count.watched || watch(*count.all());
    all &= count.watched;
  }
  return all;
}

bool Engine::set_timer() noexcept {
  Deadline next;
  for (Driven& each : driven_) next = std::min(next, each.next_deadline());
  if (next.expired()) return false;
  if (!next.infinite()) timer_.arm(next.time());
  return true;
}

bool Engine::prepare() noexcept {
  plain_ = false;
  progress();
  if (!watch_all()) return false;
  for (Driven& each : driven_) {
    if (each.has_pending_work()) return false;
    ::fid* fids[] = {&each.lower_queue()->fid, &each.lower_events()->fid};
    if (fi_trywait(each.fabric_, fids, 2) == 0) continue;
    all_in_turn_ = true;
    return false;
  }
  // Polling for completions may have served accesses.
  for (RemoteCount& count : remote_counts_)
    if (!count.is_quiet()) return false;
  if (!set_timer()) return false;
  waiting_ = true;
  plain_ = false;
  return true;
}

bool Engine::prepare_wait() noexcept {
  {
    Lock lock(mutex_);
    if (watch_all()) return prepare();
  }
  // The process has no descriptor left to sleep on: progress continues at this rate.
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return false;
}

void Engine::expect_sleepers() noexcept {
  Lock lock(mutex_);
  sleepers_ = true;
  (void)watch_all();
}

Status Engine::start_service_thread() {
  Lock lock(mutex_);
  const Status started = start_service([this]() noexcept {
    waiting_ = true;  // this thread slept: prepare() drains its wake-ups
    if (!prepare()) wake();
  });
  if (started.ok()) wake();  // the thread sleeps first without prepare()
  return started;
}

}  // namespace weft::rxm
