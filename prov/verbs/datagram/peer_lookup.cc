// SPDX-License-Identifier: BSD-2-Clause
// Lookups of datagram endpoints; see peer_lookup.h.
#include "verbs/datagram/peer_lookup.h"

#include <fmt/format.h>
#include <poll.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_log.h>

#include "verbs/device/logging.h"

namespace weft::verbs {
namespace {

// Statuses in the answer to a service lookup (IBA 16.7.2), which arrive with RDMA_CM_EVENT_UNREACHABLE.
CmFailure explain_answer(int status) noexcept {
  static constexpr struct {
    int error;
    const char* reason;
  } kAnswers[] = {{FI_ECONNREFUSED, "no datagram endpoint has that address"},
                  {FI_ECONNREFUSED, "the peer rejects the lookup"},
                  {FI_EREMOTEIO, "the peer has no queue pair"},
                  {FI_EHOSTUNREACH, "the peer redirects the lookup"},
                  {FI_ENOPROTOOPT, "the peer uses another version of the lookup protocol"}};
  if (static_cast<std::size_t>(status) > std::size(kAnswers))
    return explain(CmPhase::kRequest, RDMA_CM_EVENT_UNREACHABLE, status);
  const auto& [error, reason] = kAnswers[status - 1];
  return {error, status, reason};
}

constexpr int kPollMs = 20;  // limited, because another thread that drives the engine may take the event

}  // namespace

PeerLookup::~PeerLookup() {
  Lock lock(engine_.mutex());
  id_.reset();
  engine_.forget(*this);
}

void PeerLookup::start(const CmAddress& local, const Address& peer) noexcept {
  peer_ = peer;
  started_at_ = Clock::now();
  auto id = engine_.create_id(*this, RDMA_PS_UDP);
  if (!id) return fail(explain_errno(phase_, id.error().error()));
  id_ = std::move(*id);
  const int patience = parameters_.connect_timeout_ms;
  if (patience != 0) engine_.set_deadline(*this, started_at_ + std::chrono::milliseconds(patience));
  CmAddress from = local, to = peer;
  from.set_port(0);
  if (rdma_resolve_addr(id_.get(), local ? from.data() : nullptr, to.data(), parameters_.resolve_timeout_ms) != 0)
    fail(explain_errno(phase_, errno));
}

void PeerLookup::on_cm_event(const RdmaEvent& event) noexcept {
  if (event.type == RDMA_CM_EVENT_ADDR_RESOLVED && phase_ == CmPhase::kAddress) {
    if (id_->verbs != device_.context())
      return fail({FI_EHOSTUNREACH, ENODEV, "the route to the peer uses a device other than the domain's"});
    phase_ = CmPhase::kRoute;
    if (rdma_resolve_route(id_.get(), parameters_.resolve_timeout_ms) != 0) fail(explain_errno(phase_, errno));
  } else if (event.type == RDMA_CM_EVENT_ROUTE_RESOLVED && phase_ == CmPhase::kRoute) {
    phase_ = CmPhase::kRequest;
    rdma_conn_param request{};
    request.retry_count = 7;
    if (rdma_connect(id_.get(), &request) != 0) fail(explain_errno(CmPhase::kRoute, errno));
  } else if (event.type == RDMA_CM_EVENT_ESTABLISHED && phase_ == CmPhase::kRequest) {
    answer_ = event.ud;
    finish();
  } else if (event.type == RDMA_CM_EVENT_UNREACHABLE && event.status > 0) {
    fail(explain_answer(event.status));
  } else {
    fail(explain(phase_, event.type, event.status));
  }
}

void PeerLookup::on_deadline() noexcept {
  fail({FI_ETIMEDOUT, ETIMEDOUT, "no answer in time"});
}

void PeerLookup::fail(const CmFailure& why) noexcept {
  status_ = Status(-why.error);
  try {
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - started_at_).count();
    sentence_ = fmt::format("looking up the datagram endpoint {} on {} failed while {}: {} (after {} ms)",
                            peer_.to_string(), device_.name(), phase_name(phase_), why.reason, took);
    FI_INFO(&provider(), FI_LOG_AV, "%s\n", sentence_.c_str());
  } catch (const std::bad_alloc&) {
    sentence_.clear();
  }
  finish();
}

// The id is not needed after the answer.
void PeerLookup::finish() noexcept {
  id_.reset();
  engine_.clear_deadline(*this);
  done_.store(true, std::memory_order_release);
}

void PeerLookup::wait(const std::atomic<bool>& abandon) noexcept {
  while (!done() && !abandon) {
    engine_.drive();
    if (done()) return;
    pollfd readiness{engine_.wait_fd(), POLLIN, 0};
    ::poll(&readiness, 1, kPollMs);
  }
}

}  // namespace weft::verbs
