// SPDX-License-Identifier: BSD-2-Clause
// Accesses of peers to our memory, which the lower provider serves and counts: its counters are read when progress is
// made, and what is new is passed on to a counter of ours; FI_RMA_EVENT of fi_getinfo(3), fi_cntr(3).
//
// The reads and writes that move long messages are accesses as well for the lower provider. Their memory is ours to
// register, so a second counter knows them, and they are left out.
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

  // To be bound below: what counts all accesses, and what counts those that are not to be seen.
  ::fid* all() noexcept { return &all_->fid; }
  ::fid* hidden() noexcept { return &hidden_->fid; }
  // Whether there was something new.
  bool pass_on() noexcept;

 private:
  RemoteCount(CounterCore& counter, Lower<fid_cntr> all, Lower<fid_cntr> hidden) noexcept
      : counter_(counter), all_(std::move(all)), hidden_(std::move(hidden)) {}

  const Ref<CounterCore> counter_;
  Lower<fid_cntr> all_, hidden_;
  std::uint64_t passed_ = 0;
};

}  // namespace weft::rxm
