// SPDX-License-Identifier: BSD-2-Clause
// Receives of datagram endpoints; see datagram_receives.h.
#include "verbs/transfer/datagram_receives.h"

#include <rdma/fi_errno.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <new>
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

fi_addr_t DatagramReceives::source_of(const RouteHeader& route, std::uint32_t qp_number) const noexcept {
  Peer peer;
  peer.gid = route.source;
  peer.to.qp_number = qp_number;
  return sources_->source(peer);
}

namespace {

constexpr std::size_t kLine = 64;

// RFC 791: the one's complement sum of a header with its checksum is all ones.
bool has_valid_sum(const std::byte* header) noexcept {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < 20; i += 2)
    sum += std::to_integer<std::uint32_t>(header[i]) << 8 | std::to_integer<std::uint32_t>(header[i + 1]);
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return sum == 0xffff;
}

// Whether the second half of a route header is an IPv4 header; the first half is undefined then, and may hold stale
// bytes. Soft-RoCE omits the checksum of messages that stay on the host, but clears the first half.
bool is_ipv4(const std::byte* header) noexcept {
  constexpr std::byte kVersionAndLength{0x45}, kUdp{17};
  const std::byte* const v4 = header + 20;
  if (v4[0] != kVersionAndLength || v4[9] != kUdp) return false;
  return (header[0] & std::byte{0xf0}) != std::byte{0x60} || has_valid_sum(v4);
}

}  // namespace

void UnmapBytes::operator()(std::byte* memory) const noexcept {
  ::munmap(memory, size);
}

Status DatagramBuffers::open(ibv_pd* pd, std::size_t count, std::size_t longest, DatagramReceives& queue) noexcept {
  if (count_ != 0) return {};
  stride_ = (kLine + longest + kLine - 1) / kLine * kLine;
  static_assert(lead_ + kHeader == kLine);
  const std::size_t size = stride_ * count;
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return Status(-FI_ENOMEM);
  memory_ = {static_cast<std::byte*>(memory), UnmapBytes{size}};
  slots_.reset(new (std::nothrow) Posted[count]);
  free_.reset(new (std::nothrow) std::uint32_t[count]);
  kept_.reset(new (std::nothrow) Arrival[count]);
  if (slots_ == nullptr || free_ == nullptr || kept_ == nullptr) return Status(-FI_ENOMEM);
  errno = 0;
  region_.reset(ibv_reg_mr(pd, memory, size, IBV_ACCESS_LOCAL_WRITE));
  if (region_ == nullptr) return Status::from_errno(errno != 0 ? errno : ENOMEM);
  count_ = static_cast<std::uint32_t>(count);
  repost_at_ = std::min(kPostedAtOnce, std::max(count_ / 4, 1u));
  const auto length = static_cast<std::uint32_t>(kHeader + longest);
  for (std::uint32_t i = 0; i < kPostedAtOnce; ++i) {
    places_[i] = {.addr = 0, .length = length, .lkey = region_->lkey};
    requests_[i] = {.wr_id = 0, .next = &requests_[i + 1], .sg_list = &places_[i], .num_sge = 1};
  }
  for (std::uint32_t i = 0; i < count_; ++i) {
    slots_[i].datagrams = &queue;
    slots_[i].role = Posted::Role::kDatagram;
    free_[free_count_++] = count_ - 1 - i;
  }
  return {};
}

Status DatagramBuffers::post(ibv_qp* qp) noexcept {
  while (free_count_ != 0) {
    const std::uint32_t count = std::min(free_count_, kPostedAtOnce);
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t slot = free_[free_count_ - 1 - i];
      places_[i].addr = reinterpret_cast<std::uintptr_t>(bytes(slot));
      requests_[i].wr_id = reinterpret_cast<std::uintptr_t>(&slots_[slot]);
    }
    ibv_recv_wr* const after = std::exchange(requests_[count - 1].next, nullptr);
    ibv_recv_wr* bad = nullptr;
    const int error = ibv_post_recv(qp, requests_, &bad);
    requests_[count - 1].next = after;
    std::uint32_t posted = count;
    if (error != 0) posted = bad != nullptr ? static_cast<std::uint32_t>(bad - requests_) : 0;
    free_count_ -= posted;
    with_device_ += posted;
    if (error != 0) return status_of(error);
  }
  return {};
}

void DatagramBuffers::reclaim() noexcept {
  for (std::uint32_t i = 0; i < count_; ++i) slots_[i].busy = true;
  for (std::uint32_t i = 0; i < free_count_; ++i) slots_[free_[i]].busy = false;
  for (std::uint32_t i = 0; i < kept_count_; ++i) slots_[kept_[(first_kept_ + i) % count_].slot].busy = false;
  for (std::uint32_t i = 0; i < count_; ++i)
    if (slots_[i].busy) free_[free_count_++] = i;
  with_device_ = 0;
}

RouteHeader RouteHeader::read(const std::byte* header) noexcept {
  RouteHeader route{};
  const std::byte* const v4 = header + 20;
  if (is_ipv4(header)) {
    route.source.raw[10] = route.source.raw[11] = 0xff;
    std::memcpy(route.source.raw + 12, v4 + 12, 4);
    route.to_group = (v4[16] & std::byte{0xf0}) == std::byte{0xe0};
  } else {
    std::memcpy(route.source.raw, header + 8, sizeof route.source.raw);
    const std::byte* const destination = header + 24;
    const bool mapped = destination[0] == std::byte{0} && destination[10] == std::byte{0xff};  // IPv4 as a GID
    route.to_group =
        destination[0] == std::byte{0xff} || (mapped && (destination[12] & std::byte{0xf0}) == std::byte{0xe0});
  }
  return route;
}

}  // namespace weft::verbs
