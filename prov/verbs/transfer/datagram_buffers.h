// SPDX-License-Identifier: BSD-2-Clause
// The memory of arriving datagrams: one registered block, cut into slots that the provider posts to the queue pair, so
// a message that precedes the application's receive waits here while slots are free. Each has room for the route header
// of 40 bytes (ibv_grh) in front of the message. ibv_post_recv(3).
//
// Owner: a datagram endpoint; its lock for receives guards everything.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.h"
#include "verbs/device/verbs_handles.h"
#include "verbs/transfer/work_queue.h"

namespace weft::verbs {

// The work completion of an arrived message.
struct Arrival {
  std::uint32_t slot = 0;
  std::uint32_t len = 0;  // with the route header
  std::uint32_t source_qp = 0;
  std::uint32_t data = 0;
  bool has_data = false;
  bool has_header = false;  // the route header is valid
};

struct UnmapBytes {
  std::size_t size = 0;
  void operator()(std::byte* memory) const noexcept;
};

class DatagramBuffers {
 public:
  static constexpr std::size_t kHeader = sizeof(ibv_grh);

  // -FI_ENOMEM, also when the limit of locked memory is reached.
  Status open(ibv_pd* pd, std::size_t count, std::size_t longest, DatagramReceives& queue) noexcept;

  // Posts all free slots to the queue pair; errno if it refuses them.
  Status post(ibv_qp* qp) noexcept;
  // The queue pair was reset: frees the slots that the device did not return.
  void reclaim() noexcept;
  // The device returned the slot, with a message or without.
  std::uint32_t take(const Posted& slot) noexcept {
    --with_device_;
    return static_cast<std::uint32_t>(&slot - slots_.get());
  }
  // Frees the slot. Slots are posted again in batches; those that the device refuses go with the next batch.
  void give_back(std::uint32_t slot, ibv_qp* qp) noexcept {
    free_[free_count_++] = slot;
    if (free_count_ < repost_at_ || qp == nullptr) [[likely]]
      return;
    [[maybe_unused]] const Status posted = post(qp);
  }
  std::uint32_t with_device() const noexcept { return with_device_; }

  // Messages without a receive, oldest first.
  void keep(const Arrival& arrival) noexcept { kept_[(first_kept_ + kept_count_++) % count_] = arrival; }
  bool any_kept() const noexcept { return kept_count_ != 0; }
  Arrival take_kept() noexcept {
    const Arrival oldest = kept_[first_kept_];
    first_kept_ = (first_kept_ + 1) % count_;
    --kept_count_;
    return oldest;
  }

  // Header and message.
  const std::byte* bytes(std::uint32_t slot) const noexcept { return memory_.get() + slot * stride_ + lead_; }
  const std::byte* bytes(const Posted& slot) const noexcept {
    return bytes(static_cast<std::uint32_t>(&slot - slots_.get()));
  }

 private:
  std::unique_ptr<std::byte, UnmapBytes> memory_;
  MemoryRegionHandle region_;
  static constexpr std::uint32_t kPostedAtOnce = 16;  // work requests
  ibv_recv_wr requests_[kPostedAtOnce];               // linked to each other
  ibv_sge places_[kPostedAtOnce];
  std::unique_ptr<Posted[]> slots_;
  std::unique_ptr<std::uint32_t[]> free_;
  std::unique_ptr<Arrival[]> kept_;
  std::uint32_t count_ = 0;
  std::uint32_t free_count_ = 0;
  std::uint32_t repost_at_ = 0;  // free slots that make a batch
  std::uint32_t with_device_ = 0;
  std::uint32_t first_kept_ = 0;
  std::uint32_t kept_count_ = 0;
  std::size_t stride_ = 0;
  static constexpr std::size_t lead_ = 24;  // so that messages lie on 64 bytes
};

// The source in a route header, and whether the message was sent to a group. RoCE over IPv4 puts the IPv4 header in the
// second half of the route header.
struct RouteHeader {
  ibv_gid source;
  bool to_group;
  static RouteHeader read(const std::byte* header) noexcept;
  // False only if the message certainly was not sent to a group, whichever header it has.
  static bool may_name_group(const std::byte* header) noexcept {
    return header[24] == std::byte{0xff} || (header[36] & std::byte{0xf0}) == std::byte{0xe0};
  }
};

}  // namespace weft::verbs
