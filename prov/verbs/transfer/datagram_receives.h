// SPDX-License-Identifier: BSD-2-Clause
// The receive side of a datagram endpoint. Messages arrive in buffers of the provider and are copied to the receives of
// the application. So a message may arrive before its receive, receives can be cancelled, and own messages that a group
// returns use up none of them (docs/decisions/0011).
//
// Owner: an endpoint, whose engine's mutex guards the calls about its life. A lock guards the rest; lock order: a
// channel's lock before it.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/fabric.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/light_lock.h"
#include "base/status.h"
#include "messages/receive_queue.h"
#include "objects/address.h"
#include "objects/address_table.h"
#include "objects/message_buffers.h"
#include "verbs/device/gids.h"
#include "verbs/device/verbs_handles.h"
#include "verbs/transfer/completion_routes.h"
#include "verbs/transfer/send_work.h"
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

// The memory of arriving datagrams: one registered block, cut into slots that the provider posts to the queue pair, so
// a message that precedes the application's receive waits here while slots are free. Each has room for the route header
// of 40 bytes (ibv_grh) in front of the message. The lock of the DatagramReceives guards everything. ibv_post_recv(3).
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

// A peer, as address vectors store it for the data path; fi_av(3). Peers are equal if they are the same queue pair: a
// message identifies its source by GID and queue pair.
struct Peer {
  ibv_gid gid{};
  Destination to;
  Address name;       // with FI_SOCKADDR_...
  IbUdAddress raw{};  // with FI_ADDR_IB_UD

  friend bool operator==(const Peer& a, const Peer& b) noexcept {
    return a.to.qp_number == b.to.qp_number && a.gid == b.gid;
  }
};
using PeerTable = AddressTable<Peer>;

class DatagramReceives {
 public:
  // `prefix`: bytes in front of every message received (FI_MSG_PREFIX). `flags`: of calls without flags.
  DatagramReceives(CompletionRoutes& routes, std::size_t size, std::size_t prefix, uint64_t flags) noexcept;

  // ---- Life, with the engine's mutex held ----

  // Reserves entries in the device's completion queue. A failure leaves them to release().
  Status reserve() noexcept;
  // Buffers for messages of up to `longest` bytes. Once.
  Status open(ibv_pd* pd, std::size_t longest) noexcept { return buffers_.open(pd, receives_.size(), longest, *this); }
  // `sources`: names the sources of messages, null: sources are not reported (no FI_SOURCE).
  Status use(ibv_qp& qp, const PeerTable* sources) noexcept;
  // The queue pair was reset, after detach(), and its work completions were polled: posts all buffers that are free.
  Status restart(ibv_qp& qp) noexcept;
  void set_own_gids(std::vector<ibv_gid> gids) noexcept;
  // All buffers have come back from the device.
  bool flushed() noexcept;
  // The queue pair is about to be destroyed or reset.
  void detach() noexcept;
  // No more work completions can arrive: cancels the receives, gives the entries back.
  void end() noexcept;

  // ---- Posting ----

  LightLock& lock() noexcept { return lock_; }
  uint64_t& flags() noexcept { return flags_; }                     // with the lock held
  messages::DatagramQueue& posted() noexcept { return receives_; }  // with the lock held
  std::atomic<bool>& loopback() noexcept { return loopback_; }  // whether messages return that we send to our groups

  ssize_t post_list(const iovec* iov, void* const* desc, size_t count, void* context, uint64_t flags) noexcept;
  ssize_t cancel(void* context) noexcept;
  ssize_t rx_size_left() noexcept;

  // ---- Completions, with the channel's lock held ----

  // A buffer has come back. Routes: see messages::ReceiveQueue.
  // The first is for messages with nothing to report beyond their length. True: the receive with that context took it.
  bool take_plain(const ibv_wc& wc, Posted& slot, void*& context, size_t& len) noexcept;
  template <class Routes>
  void on_completed(const ibv_wc& wc, Posted& slot, Routes& to) noexcept;
  CompletionRoutes& routes() noexcept { return routes_; }
  // Counts messages as the bindings say. With this queue's lock held, too.
  void follow_bindings() noexcept {
    plain_ = sources_ == nullptr && routes_.receive_queue && !routes_.receive && !routes_.receive_selective;
  }

 private:
  static void copy_word(void* to, const std::byte* from) noexcept { std::memcpy(to, from, sizeof(uint64_t)); }
  void deliver_kept() noexcept;
  template <class Routes>
  void deliver(const Arrival& arrival, Routes& to) noexcept;
  // A message with route header and our queue pair's number as its source, which other hosts may also use: whether a
  // group has returned our own message.
  bool is_own_to_group(std::uint32_t slot) const noexcept;
  fi_addr_t source_of(const RouteHeader& route, std::uint32_t qp_number) const noexcept;

  CompletionRoutes& routes_;
  const size_t prefix_;
  uint64_t flags_;
  unsigned reserved_ = 0;  // in the channel's device queue
  std::uint32_t qp_number_ = 0;
  const PeerTable* sources_ = nullptr;
  bool plain_ = false;  // receives are reported, and neither counted nor given a source
  std::atomic<bool> loopback_{false};
  LightLock lock_;  // guards the rest
  ibv_qp* qp_ = nullptr;
  std::vector<ibv_gid> own_gids_;
  messages::DatagramPool pool_;
  messages::DatagramQueue receives_;
  DatagramBuffers buffers_;
};

[[gnu::always_inline]] inline ssize_t DatagramReceives::post_list(const iovec* iov, void* const*, size_t count,
                                                                  void* context, uint64_t flags) noexcept {
  const std::span<const iovec> pieces{iov, count};
  if (!valid_vector(pieces)) [[unlikely]]
    return -FI_EINVAL;
  LightGuard guard(lock_);
  if (const ssize_t result = receives_.post({.iov = pieces, .context = context, .flags = flags}); result != 0)
      [[unlikely]]
    return result;
  if (buffers_.any_kept()) [[unlikely]]
    deliver_kept();
  return 0;
}

template <class Routes>
[[gnu::always_inline]] inline void DatagramReceives::deliver(const Arrival& arrival, Routes& to) noexcept {
  const std::byte* const bytes = buffers_.bytes(arrival.slot);
  const size_t skipped = DatagramBuffers::kHeader - prefix_;
  messages::Envelope envelope{.data = arrival.data, .len = arrival.len - skipped, .has_data = arrival.has_data};
  if (sources_ != nullptr && arrival.has_header) {
    const RouteHeader route = RouteHeader::read(bytes);
    envelope.name = source_of(route, arrival.source_qp);
    envelope.multicast = route.to_group;
  }
  receives_.deliver({bytes + skipped, envelope.len}, envelope, to);
  buffers_.give_back(arrival.slot, qp_);
}

[[gnu::always_inline]] inline bool DatagramReceives::take_plain(const ibv_wc& wc, Posted& slot, void*& context,
                                                                size_t& len) noexcept {
  if (!plain_ || wc.status != IBV_WC_SUCCESS || (wc.wc_flags & IBV_WC_WITH_IMM) != 0) [[unlikely]]
    return false;
  LightGuard guard(lock_);
  const iovec* const place = receives_.lone_buffer();
  const std::byte* const bytes = buffers_.bytes(slot);
  const size_t skipped = DatagramBuffers::kHeader - prefix_;
  len = wc.byte_len - skipped;
  if (place == nullptr || len > place->iov_len) [[unlikely]]
    return false;
  if (wc.src_qp == qp_number_ && RouteHeader::may_name_group(bytes)) [[unlikely]]
    return false;
  if (len - sizeof(uint64_t) <= sizeof(uint64_t)) {  // 8 to 16 bytes: faster than a call of memcpy
    copy_word(place->iov_base, bytes + skipped);
    copy_word(static_cast<std::byte*>(place->iov_base) + len - sizeof(uint64_t),
              bytes + skipped + len - sizeof(uint64_t));
  } else if (len != 0) {
    std::memcpy(place->iov_base, bytes + skipped, len);
  }
  context = receives_.take_lone();
  buffers_.give_back(buffers_.take(slot), qp_);
  return true;
}

template <class Routes>
[[gnu::always_inline]] inline void DatagramReceives::on_completed(const ibv_wc& wc, Posted& slot, Routes& to) noexcept {
  LightGuard guard(lock_);
  Arrival arrival{.slot = buffers_.take(slot), .len = wc.byte_len, .source_qp = wc.src_qp};
  if (wc.status != IBV_WC_SUCCESS) [[unlikely]] {
    if (wc.status != IBV_WC_WR_FLUSH_ERR) routes_.owner.on_transfer_failed(wc.status);
    return buffers_.give_back(arrival.slot, nullptr);
  }
  if ((wc.wc_flags & IBV_WC_WITH_IMM) != 0) {
    arrival.has_data = true;
    arrival.data = be32toh(wc.imm_data);
  }
  arrival.has_header = (wc.wc_flags & IBV_WC_GRH) != 0;
  if (arrival.source_qp == qp_number_ && RouteHeader::may_name_group(buffers_.bytes(arrival.slot)) &&
      arrival.has_header && is_own_to_group(arrival.slot)) [[unlikely]]
    return buffers_.give_back(arrival.slot, qp_);
  if (receives_.empty()) [[unlikely]]
    return buffers_.keep(arrival);
  deliver(arrival, to);
}

}  // namespace weft::verbs

template <>
struct std::hash<weft::verbs::Peer> {
  size_t operator()(const weft::verbs::Peer& peer) const noexcept {
    return peer.gid.global.interface_id * 0x9e3779b97f4a7c15 + peer.gid.global.subnet_prefix + peer.to.qp_number;
  }
};
