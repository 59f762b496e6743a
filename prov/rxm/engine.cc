// SPDX-License-Identifier: BSD-2-Clause
// The progress engine of a domain of ofi_rxm; see engine.h.
#include "rxm/engine.h"

#include <rdma/fi_errno.h>

#include <cerrno>
#include <utility>

#include "base/readiness.h"
#include "rxm/limits.h"

namespace weft::rxm {

Result<std::unique_ptr<Engine>> Engine::open(fid_fabric* lower, fid_domain* shared, Turns turns) {
  std::unique_ptr<Engine> engine(new Engine(lower, shared, turns));
  if (Status status = engine->open_descriptors(); !status.ok()) return failure(status);
  const int timer = net::timer_open();
  if (timer < 0) return failure(Status(timer));
  engine->timer_.reset(timer);
  if (Status status = engine->add_descriptor(timer, nullptr); !status.ok()) return failure(status);
  return engine;
}

void Engine::add(Driven& driven) noexcept {
  driven_.push_back(driven);
  ++count_;
  fi_poll_attr attr{};
  fid_poll* opened = nullptr;
  if (shared_ != nullptr && poll_set_ == nullptr && fi_poll_open(shared_, &attr, &opened) == 0) poll_set_.reset(opened);
  driven.polled_ = poll_set_ != nullptr && fi_poll_add(poll_set_.get(), &driven.lower_queue()->fid, 0) == 0;
  if (automatic_) wake();  // the service thread sleeps on the descriptors of the others only
}

void Engine::remove(Driven& driven) noexcept {
  if (!List<Driven>::linked(driven)) return;
  List<Driven>::unlink(driven);
  driven.watched_ = false;
  if (std::exchange(driven.polled_, false) && poll_set_ != nullptr)
    fi_poll_del(poll_set_.get(), &driven.lower_queue()->fid, 0);
  if (--count_ == 0) poll_set_.reset();
}

bool Engine::pass_on_counts() noexcept {
  bool news = false;
  for (RemoteCount& count : remote_counts_) news |= count.pass_on();
  return news;
}

// One call for the queues of all endpoints, however many are idle.
bool Engine::read_poll_set() noexcept {
  constexpr int kBatch = 32;
  void* ready[kBatch];
  bool any = false;
  int count = kBatch;
  for (unsigned i = 0; i <= count_ / kBatch && count == kBatch; ++i) {
    count = fi_poll(poll_set_.get(), ready, kBatch);
    for (int each = 0; each < count; ++each) any |= static_cast<Driven*>(ready[each])->read_lower_queue();
  }
  if (count < 0) poll_set_.reset();  // each queue is read from now on
  return any;
}

// The endpoint whose connection events are read in this round; null: none. With many endpoints each round reads those
// of one.
Driven* Engine::next_turn(bool idle) noexcept {
  if (driven_.empty() || (++rounds_ < kCmPolls && !idle)) return nullptr;
  const auto now = Clock::now();
  if (rounds_ < kCmPolls && now - turn_at_ < kCmInterval / count_) return nullptr;
  turn_at_ = now;
  rounds_ = 0;
  Driven& next = driven_.pop_front();
  driven_.push_back(next);
  return &next;
}

void Engine::progress() noexcept {
  if (waiting_) {
    all_in_turn_ = true;
    waiting_ = false;
    net::event_drain(wake_.get());
    if (armed_ <= Clock::now()) {
      net::timer_drain(timer_.get());
      armed_ = Clock::time_point::max();
    }
  }
  injected_.store(false, std::memory_order_relaxed);
  const bool all = std::exchange(all_in_turn_, false);
  const bool polls = poll_set_ != nullptr && count_ > 1;
  bool found = polls && read_poll_set();
  for (Driven& each : driven_)
    if (!polls || !each.polled_) found |= each.read_lower_queue();
  const Driven* const turn = next_turn(!found);
  for (Driven& each : driven_) each.progress(all || &each == turn);
  pass_on_counts();
}

void Engine::drive() noexcept {
  Lock lock(mutex_);
  progress();
}

// The lower queues' descriptors are added when a thread is about to sleep for the first time, because they cost system
// calls from then on.
bool Engine::watch(Driven& driven) noexcept {
  if (driven.watched_) return true;
  for (::fid* fid : {&driven.lower_queue()->fid, &driven.lower_events()->fid}) {
    int fd = -1;
    if (fi_control(fid, FI_GETWAIT, &fd) != 0) return false;
    if (Status status = add_descriptor(fd, nullptr); !status.ok() && status.code() != -EEXIST) return false;
  }
  if (const int fd = driven.on_watched(); fd >= 0)
    if (Status status = add_descriptor(fd, nullptr); !status.ok() && status.code() != -EEXIST) return false;
  driven.watched_ = true;
  return true;
}

// The timer is never disarmed: an early expiry costs one look.
bool Engine::set_timer() noexcept {
  Deadline next;
  for (Driven& each : driven_) next = std::min(next, each.next_deadline());
  if (next.expired()) return false;
  if (next.infinite() || next.time() >= armed_) return true;
  armed_ = next.time();
  return net::timer_arm(timer_.get(), armed_) >= 0;
}

bool Engine::prepare() noexcept {
  progress();
  for (Driven& each : driven_) {
    if (!watch(each) || each.has_pending_work()) return false;
    ::fid* fids[] = {&each.lower_queue()->fid, &each.lower_events()->fid};
    if (fi_trywait(lower_, fids, 2) == 0) continue;
    all_in_turn_ = true;
    return false;
  }
  if (pass_on_counts() || !set_timer()) return false;
  waiting_ = true;
  return true;
}

bool Engine::prepare_wait() noexcept {
  Lock lock(mutex_);
  return prepare();
}

void Engine::expect_sleepers() noexcept {
  Lock lock(mutex_);
  for (Driven& each : driven_) watch(each);
}

Status Engine::start_service_thread() {
  Lock lock(mutex_);
  const Status started = start_service([this]() noexcept {
    waiting_ = true;  // this thread slept: progress() drains its wake-ups
    if (!prepare()) wake();
  });
  if (started.ok()) wake();  // the thread sleeps first without prepare()
  return started;
}

}  // namespace weft::rxm
