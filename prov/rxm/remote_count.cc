// SPDX-License-Identifier: BSD-2-Clause
// Counts accesses by peers to our memory; see remote_count.h.
#include "rxm/remote_count.h"

#include <new>
#include <utility>

namespace weft::rxm {
namespace {

Result<Lower<fid_cntr>> open_lower(fid_domain* domain) noexcept {
  fi_cntr_attr attr{};
  attr.events = FI_CNTR_EVENTS_COMP;
  attr.wait_obj = FI_WAIT_NONE;
  fid_cntr* counter = nullptr;
  if (const int error = fi_cntr_open(domain, &attr, &counter, nullptr); error != 0) return failure(Status(error));
  return Lower<fid_cntr>(counter);
}

}  // namespace

Result<std::unique_ptr<RemoteCount>> RemoteCount::open(fid_domain* lower, CounterCore& counter) noexcept {
  auto all = open_lower(lower), hidden = open_lower(lower);
  if (!all) return failure(all.error());
  if (!hidden) return failure(hidden.error());
  std::unique_ptr<RemoteCount> made(new (std::nothrow) RemoteCount(counter, std::move(*all), std::move(*hidden)));
  if (made == nullptr) return failure(FI_ENOMEM);
  return made;
}

// Reading a counter may make progress at the lower provider. The hidden accesses are read last, so accesses in between
// make the difference too small for now, never too large.
bool RemoteCount::pass_on() noexcept {
  const std::uint64_t all = fi_cntr_read(all_.get()), hidden = fi_cntr_read(hidden_.get());
  if (all <= hidden || all - hidden <= passed_) return false;
  counter_->add(all - hidden - passed_);
  passed_ = all - hidden;
  return true;
}

}  // namespace weft::rxm
