// SPDX-License-Identifier: BSD-2-Clause
// The calls of fi_msg(3) of connected endpoints; send_queue.h and receive_queue.h carry them out.
#include "verbs/transfer/send_path.h"
#include "verbs/transfer/send_work.h"
#include "verbs/transfer/transfer_endpoint.h"

namespace weft::verbs {
namespace {

constexpr uint32_t kMessage = FI_SEND | FI_MSG;

ibv_wr_opcode send_opcode(uint64_t flags) noexcept {
  return (flags & FI_REMOTE_CQ_DATA) != 0 ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
}

}  // namespace

// ---- Sending ----

ssize_t TransferEndpoint::send(const void* buf, size_t len, void* desc, fi_addr_t, void* context) noexcept {
  const bool locked = sends_.may_go(len, desc) && sends_.lock().try_lock();
  if (!locked || !sends_.is_clear()) [[unlikely]]
    return send_slowly(buf, len, desc, context, locked);
  const int error = sends_.post_straight(buf, len, desc, IBV_WR_SEND, kMessage, context, false);
  return reload(*this).sends_.end_straight(error, false);
}

ssize_t TransferEndpoint::send_slowly(const void* buf, size_t len, void* desc, void* context, bool locked) noexcept {
  if (locked) sends_.lock().unlock();
  OneSge one(buf, len, desc);
  return sends_.post(work_with(one, IBV_WR_SEND, kMessage, sends_.flags(), context));
}

ssize_t TransferEndpoint::sendv(const iovec* iov, void** desc, size_t count, fi_addr_t, void* context) noexcept {
  ManySges many(iov, desc, count, sizes_.transmit_iov);
  if (many.count < 0) return -FI_EINVAL;
  return sends_.post(work_with(many, IBV_WR_SEND, kMessage, sends_.flags(), context));
}

ssize_t TransferEndpoint::sendmsg(const fi_msg* msg, uint64_t flags) noexcept {
  if (msg == nullptr) return -FI_EINVAL;
  ManySges many(msg->msg_iov, msg->desc, msg->iov_count, sizes_.transmit_iov);
  if (many.count < 0) return -FI_EINVAL;
  SendWork work = work_with(many, send_opcode(flags), kMessage, flags, msg->context);
  work.data = msg->data;
  return sends_.post(work);
}

ssize_t TransferEndpoint::inject(const void* buf, size_t len, fi_addr_t) noexcept {
  const bool locked = sends_.may_go(len, nullptr) && sends_.lock().try_lock();
  if (!locked || !sends_.is_clear()) [[unlikely]]
    return inject_slowly(buf, len, locked);
  const int error = sends_.post_straight(buf, len, nullptr, IBV_WR_SEND, kMessage, nullptr, true);
  return reload(*this).sends_.end_straight(error, true);
}

ssize_t TransferEndpoint::inject_slowly(const void* buf, size_t len, bool locked) noexcept {
  if (locked) sends_.lock().unlock();
  OneSge one(buf, len, nullptr);
  SendWork work = work_with(one, IBV_WR_SEND, kMessage, sends_.flags() | FI_INJECT, nullptr);
  work.silent = true;
  return sends_.post(work);
}

ssize_t TransferEndpoint::senddata(const void* buf, size_t len, void* desc, uint64_t data, fi_addr_t,
                                   void* context) noexcept {
  OneSge one(buf, len, desc);
  SendWork work = work_with(one, IBV_WR_SEND_WITH_IMM, kMessage, sends_.flags(), context);
  work.data = data;
  return sends_.post(work);
}

ssize_t TransferEndpoint::injectdata(const void* buf, size_t len, uint64_t data, fi_addr_t) noexcept {
  OneSge one(buf, len, nullptr);
  SendWork work = work_with(one, IBV_WR_SEND_WITH_IMM, kMessage, sends_.flags() | FI_INJECT, nullptr);
  work.data = data;
  work.silent = true;
  return sends_.post(work);
}

// ---- Receiving ----

ssize_t TransferEndpoint::recv(void* buf, size_t len, void* desc, fi_addr_t, void* context) noexcept {
  const bool locked = receives_.may_go(buf, len, desc) && receives_.lock().try_lock();
  if (!locked || !receives_.is_clear()) [[unlikely]]
    return receives_.recv_slowly(buf, len, desc, context, locked);
  const int error = receives_.post_straight(buf, len, desc, context);
  return reload(*this).receives_.end_straight(error);
}

ssize_t TransferEndpoint::recvv(const iovec* iov, void** desc, size_t count, fi_addr_t, void* context) noexcept {
  return receives_.recvv(iov, desc, count, context);
}

ssize_t TransferEndpoint::recvmsg(const fi_msg* msg, uint64_t flags) noexcept {
  return receives_.recvmsg(msg, flags);
}

}  // namespace weft::verbs
