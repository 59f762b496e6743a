// SPDX-License-Identifier: BSD-2-Clause
// Counts accesses by peers to our memory. The lower provider serves and counts them; progress reads its counters and
// adds the difference to our counter; FI_RMA_EVENT of fi_getinfo(3), fi_cntr(3).
//
// The lower provider also counts the reads and writes that move long messages. We register the memory of those
// ourselves, so a second, hidden counter counts them, and they are subtracted.
#pragma once

#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>

#include <memory>
#include <new>
#include <utility>

#include "base/list.h"
#include "objects/counter.h"
#include "rxm/lower.h"
#include "rxm/lower_side.h"

namespace weft::rxm {

// Owner: the endpoint or memory region that counts. The engine's mutex guards it; the engine calls pass_on().
class RemoteCount : public ListHook<RemoteCount> {
 public:
  static Result<std::unique_ptr<RemoteCount>> open(const LowerSide& lower, CounterCore& counter) noexcept {
    Lower<fid_cntr> all, hidden;
    int error = open_waitable([&](fi_wait_obj wait) { return open_lower(lower, wait, all); });
    if (error == 0) error = open_lower(lower, FI_WAIT_NONE, hidden);
    if (error != 0) return failure(Status(error));
    std::unique_ptr<RemoteCount> made(new (std::nothrow)
                                          RemoteCount(counter, lower.fabric, std::move(all), std::move(hidden)));
    if (made == nullptr) return failure(FI_ENOMEM);
    return made;
  }

  // The counters to be bound to lower objects: one for all accesses, one for those that move long messages.
  ::fid* all() noexcept { return &all_->fid; }
  ::fid* hidden() noexcept { return &hidden_->fid; }
  // No access was counted since pass_on(): a thread may sleep on the descriptor of all().
  bool is_quiet() noexcept {
    ::fid* counter = all();
    return fi_trywait(fabric_, &counter, 1) == 0;
  }
  bool watched = false;  // set by the engine: it polls that descriptor
  // Adds the accesses since the last call. Reading a counter may make progress at the lower provider. The hidden
  // accesses are read last, so accesses in between make the difference too small for now, never too large.
  [[gnu::noinline]] void pass_on() noexcept {
    const std::uint64_t all = fi_cntr_read(all_.get()), hidden = fi_cntr_read(hidden_.get());
    if (all <= hidden || all - hidden <= passed_) return;
    counter_->add(all - hidden - passed_);
    passed_ = all - hidden;
  }

 private:
  static int open_lower(const LowerSide& lower, fi_wait_obj wait, Lower<fid_cntr>& opened) noexcept {
    fi_cntr_attr attr{};
    attr.events = FI_CNTR_EVENTS_COMP;
    attr.wait_obj = wait;
    fid_cntr* counter = nullptr;
    const int error = fi_cntr_open(lower.domain.get(), &attr, &counter, nullptr);
    if (error == 0) opened.reset(counter);
    return error;
  }
  RemoteCount(CounterCore& counter, fid_fabric* fabric, Lower<fid_cntr> all, Lower<fid_cntr> hidden) noexcept
      : counter_(counter), fabric_(fabric), all_(std::move(all)), hidden_(std::move(hidden)) {}

  const Ref<CounterCore> counter_;
  fid_fabric* const fabric_;
  Lower<fid_cntr> all_, hidden_;
  std::uint64_t passed_ = 0;
};

}  // namespace weft::rxm
