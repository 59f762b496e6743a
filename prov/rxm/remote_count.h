// SPDX-License-Identifier: BSD-2-Clause
// Counts accesses by peers to our memory. The lower provider serves and counts them; progress reads its counters and
// adds the difference to our counter; FI_RMA_EVENT of fi_getinfo(3), fi_cntr(3).
//
// The lower provider also counts the reads and writes that move long messages. We register the memory of those
// ourselves, so a second, hidden counter counts them, and they are subtracted.
#pragma once

#include <rdma/fi_domain.h>

#include <memory>

#include "base/list.h"
#include "objects/counter.h"
#include "rxm/lower.h"

namespace weft::rxm {

// Owner: the endpoint or memory region that counts. The engine's mutex guards it; the engine calls pass_on().
class RemoteCount : public ListHook<RemoteCount> {
 public:
  static Result<std::unique_ptr<RemoteCount>> open(fid_domain* lower, CounterCore& counter) noexcept;

  // The counters to be bound to lower objects: one for all accesses, one for those that move long messages.
  ::fid* all() noexcept { return &all_->fid; }
  ::fid* hidden() noexcept { return &hidden_->fid; }
  // Whether accesses were added.
  bool pass_on() noexcept;

 private:
  RemoteCount(CounterCore& counter, Lower<fid_cntr> all, Lower<fid_cntr> hidden) noexcept
      : counter_(counter), all_(std::move(all)), hidden_(std::move(hidden)) {}

  const Ref<CounterCore> counter_;
  Lower<fid_cntr> all_, hidden_;
  std::uint64_t passed_ = 0;
};

}  // namespace weft::rxm
