// SPDX-License-Identifier: BSD-2-Clause
// The data transfer calls of a datagram endpoint; fi_msg(3). The source of a receive means nothing here.
#include <rdma/fi_errno.h>

#include <algorithm>

#include "verbs/datagram_endpoint.h"
#include "verbs/multicast_group.h"
#include "verbs/send_path.h"
#include "verbs/send_work.h"

namespace weft::verbs {
namespace {

constexpr uint32_t kMessage = FI_SEND | FI_MSG;
// Nobody acknowledges a datagram.
constexpr uint64_t kUnsupported = FI_DELIVERY_COMPLETE | FI_COMMIT_COMPLETE | FI_MATCH_COMPLETE;

}  // namespace

// ---- Sending ----

// With send_lock_ held.
[[gnu::always_inline]] inline const Destination* DatagramEndpoint::destination_of(fi_addr_t name,
                                                                                  uint64_t flags) const noexcept {
  if ((flags & FI_MULTICAST) == 0) [[likely]]
    return vector_ ? vector_->find(name) : nullptr;
  const fi_addr_t index = name & kGroupIndexMask;
  if (index >= groups_.size()) return nullptr;
  const GroupSlot& slot = groups_[index];
  return slot.may_send && name == group_name(slot.uses, index) ? &slot.to : nullptr;
}

[[gnu::always_inline]] inline ssize_t DatagramEndpoint::transmit(const SendWork& work, fi_addr_t destination) noexcept {
  if ((work.flags & kUnsupported) != 0) [[unlikely]]
    return -FI_EBADFLAGS;
  if (const ssize_t refusal = check(work); refusal != 0) [[unlikely]]
    return refusal;
  LightGuard guard(send_lock_);
  const Destination* to = destination_of(destination, work.flags);
  if (to == nullptr) [[unlikely]]
    return -FI_EINVAL;
  SendWork addressed = work;
  addressed.flags &= ~FI_FENCE;  // there is nothing to wait for
  addressed.to = *to;
  return post_locked(addressed);
}

ssize_t DatagramEndpoint::send(const void* buf, size_t len, void* desc, fi_addr_t dest, void* context) noexcept {
  const bool locked = may_go(len, desc) && send_lock_.try_lock();
  const Destination* const to = locked && sends_.is_clear() && vector_ ? vector_->find(dest) : nullptr;
  if (to == nullptr) [[unlikely]]
    return send_slowly(buf, len, desc, dest, context, locked);
  straight_.request.wr.ud = {to->handle, to->qp_number, to->qkey};
  return post_straight(buf, len, desc, IBV_WR_SEND, kMessage, context, false);
}

ssize_t DatagramEndpoint::send_slowly(const void* buf, size_t len, void* desc, fi_addr_t dest, void* context,
                                      bool locked) noexcept {
  if (locked) send_lock_.unlock();
  OneSge one(buf, len, desc);
  return transmit(work_with(one, IBV_WR_SEND, kMessage, transmit_flags_, context), dest);
}

ssize_t DatagramEndpoint::senddata(const void* buf, size_t len, void* desc, uint64_t data, fi_addr_t dest,
                                   void* context) noexcept {
  OneSge one(buf, len, desc);
  SendWork work = work_with(one, IBV_WR_SEND_WITH_IMM, kMessage, transmit_flags_, context);
  work.data = data;
  return transmit(work, dest);
}

ssize_t DatagramEndpoint::inject(const void* buf, size_t len, fi_addr_t dest) noexcept {
  const bool locked = may_go(len, nullptr) && send_lock_.try_lock();
  const Destination* const to = locked && sends_.is_clear() && vector_ ? vector_->find(dest) : nullptr;
  if (to == nullptr) [[unlikely]]
    return inject_slowly(buf, len, dest, locked);
  straight_.request.wr.ud = {to->handle, to->qp_number, to->qkey};
  return post_straight(buf, len, nullptr, IBV_WR_SEND, kMessage, nullptr, true);
}

ssize_t DatagramEndpoint::inject_slowly(const void* buf, size_t len, fi_addr_t dest, bool locked) noexcept {
  if (locked) send_lock_.unlock();
  OneSge one(buf, len, nullptr);
  SendWork work = work_with(one, IBV_WR_SEND, kMessage, transmit_flags_ | FI_INJECT, nullptr);
  work.silent = true;
  return transmit(work, dest);
}

ssize_t DatagramEndpoint::injectdata(const void* buf, size_t len, uint64_t data, fi_addr_t dest) noexcept {
  OneSge one(buf, len, nullptr);
  SendWork work = work_with(one, IBV_WR_SEND_WITH_IMM, kMessage, transmit_flags_ | FI_INJECT, nullptr);
  work.data = data;
  work.silent = true;
  return transmit(work, dest);
}

ssize_t DatagramEndpoint::sendv(const iovec* iov, void** desc, size_t count, fi_addr_t dest, void* context) noexcept {
  const fi_msg message{iov, desc, count, dest, context, 0};
  return sendmsg(&message, transmit_flags_ & ~FI_REMOTE_CQ_DATA);
}

ssize_t DatagramEndpoint::sendmsg(const fi_msg* msg, uint64_t flags) noexcept {
  if (msg == nullptr) return -FI_EINVAL;
  ManySges many(msg->msg_iov, msg->desc, msg->iov_count, sizes().transmit_iov);
  if (many.count < 0) return -FI_EINVAL;
  const ibv_wr_opcode opcode = (flags & FI_REMOTE_CQ_DATA) != 0 ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
  SendWork work = work_with(many, opcode, kMessage, flags, msg->context);
  work.data = msg->data;
  return transmit(work, msg->addr);
}

// ---- Receiving ----

[[gnu::always_inline]] inline ssize_t DatagramEndpoint::post_receive(const iovec* iov, size_t count, void* context,
                                                                     uint64_t flags) noexcept {
  const std::span<const iovec> pieces{iov, count};
  if (!valid_buffers(pieces, kReceiveIovLimit)) [[unlikely]]
    return -FI_EINVAL;
  LightGuard guard(receive_lock_);
  if (const ssize_t result = receives_.post(pieces, context, flags); result != 0) [[unlikely]]
    return result;
  if (buffers_.any_kept()) [[unlikely]]
    deliver_kept();
  return 0;
}

void DatagramEndpoint::deliver_kept() noexcept {
  while (buffers_.any_kept() && !receives_.empty()) deliver(buffers_.take_kept(), routes);
}

ssize_t DatagramEndpoint::recv(void* buf, size_t len, void*, fi_addr_t, void* context) noexcept {
  const iovec one{buf, len};
  return post_receive(&one, 1, context, receive_flags_);
}

ssize_t DatagramEndpoint::recvv(const iovec* iov, void**, size_t count, fi_addr_t, void* context) noexcept {
  return post_receive(iov, count, context, receive_flags_);
}

ssize_t DatagramEndpoint::recvmsg(const fi_msg* msg, uint64_t flags) noexcept {
  if (msg == nullptr) return -FI_EINVAL;
  if ((flags & (FI_PEEK | FI_CLAIM | FI_DISCARD)) != 0) return -FI_EBADFLAGS;
  return post_receive(msg->msg_iov, msg->iov_count, msg->context, flags);
}

// With receive_lock_ held, of a message with route header that bears our queue pair's number, which other hosts may use
// as well: whether a group has returned what we sent to it.
bool DatagramEndpoint::is_own_to_group(std::uint32_t slot) const noexcept {
  if (loopback_.load(std::memory_order_relaxed)) return false;
  const RouteHeader route = RouteHeader::read(buffers_.bytes(slot));
  return route.to_group &&
         std::any_of(own_gids_.begin(), own_gids_.end(), [&](const ibv_gid& own) { return own == route.source; });
}

fi_addr_t DatagramEndpoint::source_of(const std::byte* header, std::uint32_t qp_number) const noexcept {
  return vector_->source_of(RouteHeader::read(header).source, qp_number);
}

ssize_t DatagramEndpoint::cancel(void* context) noexcept {
  LightGuard guard(receive_lock_);
  return receives_.cancel(context, routes, IBV_WC_WR_FLUSH_ERR) ? 0 : -FI_ENOENT;
}

ssize_t DatagramEndpoint::rx_size_left() noexcept {
  if (!transfers_enabled()) return -FI_EOPBADSTATE;
  LightGuard guard(receive_lock_);
  return static_cast<ssize_t>(receives_.room());
}

}  // namespace weft::verbs
