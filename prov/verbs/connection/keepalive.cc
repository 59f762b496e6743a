// SPDX-License-Identifier: BSD-2-Clause
// Keepalive: detects that the peer's host died or that the wire was cut on a connection that sends nothing. It probes
// the peer's device now and then with an RDMA write of no bytes, which needs no memory there and which no application
// sees. Without an answer the device breaks the queue pair after its retries. ibv_post_send(3).
#include "verbs/connection/endpoint.h"

namespace weft::verbs {
namespace {

using namespace std::chrono_literals;

constexpr Clock::duration kProbeCheck = 1s;  // from a probe until its completion is looked for
constexpr int kStepsPerPeriod = 16;          // the checks of all connections are aligned to this many times in a period

}  // namespace

void Endpoint::on_keepalive() noexcept {
  if (state_ != CmState::kConnected || ending_ != nullptr) return;
  const Clock::duration period = std::chrono::seconds(parameters().keepalive_s);
  schedule_keepalive(probe() ? std::min(period / 4, kProbeCheck) : period);
}

void Endpoint::schedule_keepalive(Clock::duration pause) noexcept {
  const Clock::duration period = std::chrono::seconds(parameters().keepalive_s);
  if (period == 0s) return;
  const Clock::duration step = period / kStepsPerPeriod;
  const Clock::time_point at = Clock::now() + pause;
  engine().set_keepalive(*this, at + (step - at.time_since_epoch() % step));
}

}  // namespace weft::verbs
