// SPDX-License-Identifier: BSD-2-Clause
// Lookup of the datagram endpoint at an IP address and port by rdma_cm's service lookup (RDMA_PS_UDP): resolves the
// address and the route, then sends a request that the peer answers with its queue pair and key. rdma_connect(3).
#pragma once

#include <atomic>
#include <string>

#include "base/deadline.h"
#include "verbs/cm/cm_address.h"
#include "verbs/cm/cm_engine.h"
#include "verbs/cm/cm_errors.h"
#include "verbs/device/parameters.h"

namespace weft::verbs {

// Owner: the caller that waits for the answer. Calls need the engine's mutex, except wait(), done() and destruction.
class PeerLookup final : private CmHandler {
 public:
  PeerLookup(CmEngine& engine, const Parameters& parameters, const Device& device) noexcept
      : engine_(engine), parameters_(parameters), device_(device) {}
  // Cancels a lookup that is under way; takes the engine's mutex.
  ~PeerLookup();

  // `local`: the source address; empty: the system's choice. A failure is an answer too.
  void start(const CmAddress& local, const Address& peer) noexcept;

  bool done() const noexcept { return done_.load(std::memory_order_acquire); }
  // Drives the engine until the answer or the deadline, or until `abandon` is set.
  void wait(const std::atomic<bool>& abandon) noexcept;

  // The answer.
  Status status() const noexcept { return status_; }
  const std::string& sentence() const noexcept { return sentence_; }
  const ibv_ah_attr& path() const noexcept { return answer_.ah_attr; }
  std::uint32_t qp_number() const noexcept { return answer_.qp_num; }
  std::uint32_t qkey() const noexcept { return answer_.qkey; }

 private:
  void on_cm_event(const RdmaEvent& event) noexcept override;
  void on_deadline() noexcept override;
  void fail(const CmFailure& why) noexcept;
  void finish() noexcept;

  CmEngine& engine_;
  const Parameters& parameters_;
  const Device& device_;
  CmIdHandle id_;
  Address peer_;
  CmPhase phase_ = CmPhase::kAddress;
  Clock::time_point started_at_;
  rdma_ud_param answer_{};
  Status status_;
  std::string sentence_;
  std::atomic<bool> done_{false};
};

}  // namespace weft::verbs
