// SPDX-License-Identifier: BSD-2-Clause
// The data transfer calls of a datagram endpoint; fi_msg(3). The source address of a receive is ignored.
#include <rdma/fi_errno.h>

#include <algorithm>

#include "verbs/datagram/datagram_endpoint.h"
#include "verbs/datagram/multicast_group.h"
#include "verbs/transfer/send_path.h"
#include "verbs/transfer/send_work.h"

namespace weft::verbs {
namespace {

constexpr uint32_t kMessage = FI_SEND | FI_MSG;
// Datagrams are not acknowledged.
constexpr uint64_t kUnsupported = FI_DELIVERY_COMPLETE | FI_COMMIT_COMPLETE | FI_MATCH_COMPLETE;

}  // namespace

// ---- Sending ----

// With the send queue's lock held.
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
  if (const ssize_t refusal = sends_.check(work); refusal != 0) [[unlikely]]
    return refusal;
  LightGuard guard(sends_.lock());
  const Destination* to = destination_of(destination, work.flags);
  if (to == nullptr) [[unlikely]]
    return -FI_EINVAL;
  SendWork addressed = work;
  addressed.flags &= ~FI_FENCE;  // a fence has no effect on datagrams
  addressed.to = *to;
  return sends_.post_locked(addressed);
}

ssize_t DatagramEndpoint::send(const void* buf, size_t len, void* desc, fi_addr_t dest, void* context) noexcept {
  const bool locked = sends_.may_go(len, desc) && sends_.lock().try_lock();
  const Destination* const to = locked && sends_.is_clear() && vector_ ? vector_->find(dest) : nullptr;
  if (to == nullptr) [[unlikely]]
    return send_slowly(buf, len, desc, dest, context, locked);
  sends_.set_destination(*to);
  const int error = sends_.post_straight(buf, len, desc, IBV_WR_SEND, kMessage, context, false);
  return reload(*this).sends_.end_straight(error, false);
}

ssize_t DatagramEndpoint::send_slowly(const void* buf, size_t len, void* desc, fi_addr_t dest, void* context,
                                      bool locked) noexcept {
  if (locked) sends_.lock().unlock();
  OneSge one(buf, len, desc);
  return transmit(work_with(one, IBV_WR_SEND, kMessage, sends_.flags(), context), dest);
}

ssize_t DatagramEndpoint::senddata(const void* buf, size_t len, void* desc, uint64_t data, fi_addr_t dest,
                                   void* context) noexcept {
  OneSge one(buf, len, desc);
  SendWork work = work_with(one, IBV_WR_SEND_WITH_IMM, kMessage, sends_.flags(), context);
  work.data = data;
  return transmit(work, dest);
}

ssize_t DatagramEndpoint::inject(const void* buf, size_t len, fi_addr_t dest) noexcept {
  const bool locked = sends_.may_go(len, nullptr) && sends_.lock().try_lock();
  const Destination* const to = locked && sends_.is_clear() && vector_ ? vector_->find(dest) : nullptr;
  if (to == nullptr) [[unlikely]]
    return inject_slowly(buf, len, dest, locked);
  sends_.set_destination(*to);
  const int error = sends_.post_straight(buf, len, nullptr, IBV_WR_SEND, kMessage, nullptr, true);
  return reload(*this).sends_.end_straight(error, true);
}

ssize_t DatagramEndpoint::inject_slowly(const void* buf, size_t len, fi_addr_t dest, bool locked) noexcept {
  if (locked) sends_.lock().unlock();
  OneSge one(buf, len, nullptr);
  SendWork work = work_with(one, IBV_WR_SEND, kMessage, sends_.flags() | FI_INJECT, nullptr);
  work.silent = true;
  return transmit(work, dest);
}

ssize_t DatagramEndpoint::injectdata(const void* buf, size_t len, uint64_t data, fi_addr_t dest) noexcept {
  OneSge one(buf, len, nullptr);
  SendWork work = work_with(one, IBV_WR_SEND_WITH_IMM, kMessage, sends_.flags() | FI_INJECT, nullptr);
  work.data = data;
  work.silent = true;
  return transmit(work, dest);
}

ssize_t DatagramEndpoint::sendv(const iovec* iov, void** desc, size_t count, fi_addr_t dest, void* context) noexcept {
  const fi_msg message{iov, desc, count, dest, context, 0};
  return sendmsg(&message, sends_.flags() & ~FI_REMOTE_CQ_DATA);
}

ssize_t DatagramEndpoint::sendmsg(const fi_msg* msg, uint64_t flags) noexcept {
  if (msg == nullptr) return -FI_EINVAL;
  ManySges many(msg->msg_iov, msg->desc, msg->iov_count, sizes_.transmit_iov);
  if (many.count < 0) return -FI_EINVAL;
  const ibv_wr_opcode opcode = (flags & FI_REMOTE_CQ_DATA) != 0 ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
  SendWork work = work_with(many, opcode, kMessage, flags, msg->context);
  work.data = msg->data;
  return transmit(work, msg->addr);
}

// ---- Receiving ----

ssize_t DatagramEndpoint::recv(void* buf, size_t len, void*, fi_addr_t, void* context) noexcept {
  const iovec one{buf, len};
  return receives_.post_receive(&one, 1, context, receives_.flags());
}

ssize_t DatagramEndpoint::recvv(const iovec* iov, void**, size_t count, fi_addr_t, void* context) noexcept {
  return receives_.post_receive(iov, count, context, receives_.flags());
}

ssize_t DatagramEndpoint::recvmsg(const fi_msg* msg, uint64_t flags) noexcept {
  if (msg == nullptr) return -FI_EINVAL;
  if ((flags & (FI_PEEK | FI_CLAIM | FI_DISCARD)) != 0) return -FI_EBADFLAGS;
  return receives_.post_receive(msg->msg_iov, msg->iov_count, msg->context, flags);
}

}  // namespace weft::verbs
