// SPDX-License-Identifier: BSD-2-Clause
// Receives of datagram endpoints; see datagram_receives.h.
#include "verbs/transfer/datagram_receives.h"

#include <algorithm>
#include <utility>

namespace weft::verbs {

DatagramReceives::DatagramReceives(CompletionRoutes& routes, std::size_t size, std::size_t prefix,
                                   uint64_t flags) noexcept
    : routes_(routes), prefix_(prefix), flags_(flags), receives_(pool_, size) {}

// ---- Life ----

Status DatagramReceives::reserve() noexcept {
  if (reserved_ != 0) return {};
  const auto entries = static_cast<unsigned>(receives_.size());
  const Status status = routes_.receive_channel->reserve(entries);
  if (status.ok()) reserved_ = entries;
  return status;
}

Status DatagramReceives::use(ibv_qp& qp, const PeerTable* sources) noexcept {
  LightGuard guard(lock_);
  qp_ = &qp;
  qp_number_ = qp.qp_num;
  sources_ = sources;
  follow_bindings();
  return buffers_.post(qp_);
}

Status DatagramReceives::restart(ibv_qp& qp) noexcept {
  LightGuard guard(lock_);
  buffers_.reclaim();
  qp_ = &qp;
  return buffers_.post(qp_);
}

void DatagramReceives::set_own_gids(std::vector<ibv_gid> gids) noexcept {
  LightGuard guard(lock_);
  own_gids_ = std::move(gids);
}

bool DatagramReceives::flushed() noexcept {
  LightGuard guard(lock_);
  return buffers_.with_device() == 0;
}

void DatagramReceives::detach() noexcept {
  LightGuard guard(lock_);
  qp_ = nullptr;
}

void DatagramReceives::end() noexcept {
  {
    LightGuard guard(lock_);
    receives_.cancel_all(routes_, IBV_WC_WR_FLUSH_ERR);
  }
  if (reserved_ != 0) routes_.receive_channel->give_back(std::exchange(reserved_, 0));
}

// ---- Posting ----

ssize_t DatagramReceives::cancel(void* context) noexcept {
  LightGuard guard(lock_);
  return receives_.cancel(context, routes_, IBV_WC_WR_FLUSH_ERR) ? 0 : -FI_ENOENT;
}

ssize_t DatagramReceives::rx_size_left() noexcept {
  LightGuard guard(lock_);
  return static_cast<ssize_t>(receives_.room());
}

// ---- Messages ----

void DatagramReceives::deliver_kept() noexcept {
  while (buffers_.any_kept() && !receives_.empty()) deliver(buffers_.take_kept(), routes_);
}

bool DatagramReceives::is_own_to_group(std::uint32_t slot) const noexcept {
  if (loopback_.load(std::memory_order_relaxed)) return false;
  const RouteHeader route = RouteHeader::read(buffers_.bytes(slot));
  return route.to_group &&
         std::any_of(own_gids_.begin(), own_gids_.end(), [&](const ibv_gid& own) { return own == route.source; });
}

fi_addr_t DatagramReceives::source_of(const std::byte* header, std::uint32_t qp_number) const noexcept {
  Peer peer;
  peer.gid = RouteHeader::read(header).source;
  peer.to.qp_number = qp_number;
  return sources_->source(peer);
}

}  // namespace weft::verbs
