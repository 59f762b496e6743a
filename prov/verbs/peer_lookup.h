// SPDX-License-Identifier: BSD-2-Clause
// Asking for the datagram endpoint behind an IP address and port: rdma_cm's service lookup (RDMA_PS_UDP): the address,
// the route, then a request that the peer's endpoint answers with its queue pair and key. rdma_connect(3).
#pragma once

#include <atomic>
#include <string>

#include "base/deadline.h"
#include "verbs/cm_address.h"
#include "verbs/cm_engine.h"
#include "verbs/cm_errors.h"
#include "verbs/parameters.h"

namespace weft::verbs {

// Owner: whoever waits for the answer. Everything but wait() and done() with the engine's mutex held.
class PeerLookup final : private CmHandler {
 public:
  PeerLookup(CmEngine& engine, const Parameters& parameters, const Device& device) noexcept
      : engine_(engine), parameters_(parameters), device_(device) {}
  // Gives up what is under way; takes the engine's mutex.
  ~PeerLookup();

  // `local`: where from, or empty: as the system routes. A failure is the answer.
  void start(const CmAddress& local, const Address& peer) noexcept;

  bool done() const noexcept { return done_.load(std::memory_order_acquire); }
  // Drives the engine until the answer is there, which is when the deadline passes at the latest, or `abandon` is set.
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
  void on_note() noexcept override {}
  void on_device_event(ibv_event_type, int) noexcept override {}
  void on_qp_event(ibv_event_type) noexcept override {}
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
