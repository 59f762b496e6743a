// SPDX-License-Identifier: BSD-2-Clause
// How a connection that sends nothing learns that its peer's host has died or that the wire is cut: now and then it
// asks the peer's device with an RDMA write of no bytes, which needs no memory there and which no application sees. A
// device that gets no answer, however often it tries, breaks the queue pair. ibv_post_send(3).
#include "verbs/completion_channel.h"
#include "verbs/endpoint.h"
#include "verbs/fabric.h"

namespace weft::verbs {
namespace {

using namespace std::chrono_literals;

constexpr Clock::duration kAnswerWithin = 1s;  // the device's answer shows, at the latest, when we look that much later
constexpr int kLooksAPeriod = 16;              // the looks of all connections fall on so many moments

}  // namespace

void Endpoint::on_keepalive() noexcept {
  if (state_ != CmState::kConnected || ending_ != nullptr) return;
  const Clock::duration period = std::chrono::seconds(parameters().keepalive_s);
  look_again_in(probe() ? std::min(period / 4, kAnswerWithin) : period);
}

void Endpoint::look_again_in(Clock::duration pause) noexcept {
  const Clock::duration period = std::chrono::seconds(parameters().keepalive_s);
  if (period == 0s) return;
  const Clock::duration step = period / kLooksAPeriod;
  const Clock::time_point at = Clock::now() + pause;
  engine().set_keepalive(*this, at + (step - at.time_since_epoch() % step));
}

// What was transmitted since the last call has its own retries.
bool TransferEndpoint::probe() noexcept {
  if (probing_.load(std::memory_order_acquire)) {
    routes.transmit_channel->make_room();  // nobody else may be reading
    return probing_.load(std::memory_order_acquire);
  }
  LightGuard guard(send_lock_);
  if (stopped_ || std::exchange(sends_at_probe_, sends_.now()) != sends_.now()) return false;
  if (!probe_reserved_) probe_reserved_ = routes.transmit_channel->reserve(1).ok();
  if (!probe_reserved_) return false;
  probing_.store(true, std::memory_order_release);
  const bool posted = post_own(Posted::Role::kProbe, IBV_WR_RDMA_WRITE);
  if (!posted) probing_.store(false, std::memory_order_release);
  return posted;
}

void TransferEndpoint::on_probed(int wc_status) noexcept {
  if (wc_status != IBV_WC_SUCCESS && wc_status != IBV_WC_WR_FLUSH_ERR) on_transfer_failed(wc_status);
  probing_.store(false, std::memory_order_release);
}

}  // namespace weft::verbs
