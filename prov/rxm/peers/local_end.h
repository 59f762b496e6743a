// SPDX-License-Identifier: BSD-2-Clause
// The part of an endpoint over a device that serves peers of its host: a listener on the loopback address, and the
// queues of its connections; local_side.h, fi_cm(3).
#pragma once

#include <rdma/fi_eq.h>

#include "rxm/messages/completions.h"

namespace weft::rxm {

// Opened for the first such peer. Owner: the endpoint's PeerLinks, which reads the events. The engine's mutex guards
// it.
class LocalEnd final : public Driven {
 public:
  LocalEnd(LowerSide& side, Completions made) noexcept
      : Driven(side.fabric, side.shared()), completions(std::move(made)), side_(side) {}

  Status open() noexcept;
  fid_eq* events() const noexcept { return events_.get(); }
  fid_pep* listener() const noexcept { return listener_.get(); }
  // The invitation for peers that have sent local_mark().
  const LocalPlace& place() const noexcept { return place_; }
  void stop_listening() noexcept { listener_.reset(); }

  // Driven.
  std::size_t read_lower_queue() noexcept override { return completions.read(); }
  bool progress(bool) noexcept override { return false; }
  fid_cq* lower_queue() noexcept override { return completions.queue(); }
  fid_eq* lower_events() noexcept override { return events_.get(); }
  Deadline next_deadline() noexcept override { return {}; }
  bool has_pending_work() noexcept override { return false; }

  Completions completions;

 private:
  LowerSide& side_;
  Lower<fid_eq> events_;
  Lower<fid_pep> listener_;
  LocalPlace place_;
};

}  // namespace weft::rxm
