// SPDX-License-Identifier: BSD-2-Clause
// Receiving: posting to the queue pair, keeping what is posted before there is one, taking that back; fi_msg(3).
#include "verbs/domain.h"
#include "verbs/receive_work.h"
#include "verbs/send_path.h"
#include "verbs/shared_receive.h"
#include "verbs/transfer_endpoint.h"

namespace weft::verbs {

// ---- The way to the device ----

ssize_t TransferEndpoint::post_receive_locked(const ReceiveWork& work) noexcept {
  Posted* const slot = receives_.take();
  if (slot == nullptr) [[unlikely]]
    return receives_.closed() ? -FI_ENOTCONN : -FI_EAGAIN;
  slot->context = work.context;
  slot->flags = work.flags;
  slot->len = work.len;
  if ((work.flags & FI_MULTI_RECV) != 0) [[unlikely]] {
    MultiReceive* const multi = receives_.make_multi(*slot);
    if (multi == nullptr) {
      receives_.take_back(*slot);
      return -FI_EAGAIN;
    }
    *multi = work.multi;
  }
  ibv_recv_wr wr;
  wr.wr_id = reinterpret_cast<uintptr_t>(slot);
  wr.next = nullptr;
  wr.sg_list = work.sges;
  wr.num_sge = work.count;
  ibv_recv_wr* bad;
  const int error = ibv_post_recv(qp_, &wr, &bad);
  if (error == 0) [[likely]]
    return 0;
  receives_.take_back(*slot);
  return refused(error);
}

// Those of Posted for a receive with these flags of the operation.
uint32_t TransferEndpoint::receive_flags_of(uint64_t flags) const noexcept {
  uint32_t result = static_cast<uint32_t>(flags & FI_MULTI_RECV);
  if (routes.receive_queue && routes.reports_received(flags)) result |= Posted::kReport;
  if (routes.receive) result |= Posted::kCount;
  return result;
}

ssize_t TransferEndpoint::post_receive(ReceiveWork& work) noexcept {
  work.flags = receive_flags_of(work.flags);
  {
    LightGuard guard(receive_lock_);
    if (qp_ == nullptr) [[unlikely]]
      return keep_receive(work);
    if (shared_receive_) [[unlikely]]
      return -FI_EOPBADSTATE;  // receives are posted to the shared context
    const ssize_t result = post_receive_locked(work);
    if (result == 0) [[likely]]
      return 0;
    if (receives_.opened() || receives_.closed()) return result;
  }
  if (Status status = prepare_receives(); !status.ok()) return status.code();
  LightGuard guard(receive_lock_);
  return post_receive_locked(work);
}

ssize_t TransferEndpoint::keep_receive(const ReceiveWork& work) noexcept {
  if (shared_receive_) return -FI_EOPBADSTATE;
  if (receives_.closed()) return -FI_ENOTCONN;
  if (kept_ == nullptr) kept_ = KeptReceives::make(sizes_.receives, sizes_.receive_sges);
  if (kept_ == nullptr || kept_->full()) return -FI_EAGAIN;
  kept_->add(work);
  return 0;
}

bool TransferEndpoint::post_again(Posted& slot, const MultiReceive& multi) noexcept {
  LightGuard guard(receive_lock_);
  if (qp_ == nullptr || receives_.closed()) return false;
  ReceiveList<1> list;
  list.add(multi.next, multi.left, reinterpret_cast<const void*>(uintptr_t{multi.lkey}), max_message_);
  list.add_spill(domain_.spill(), sizes_.receive_sges);
  slot.len = static_cast<uint32_t>(list.len);
  ibv_recv_wr wr;
  wr.wr_id = reinterpret_cast<uintptr_t>(&slot);
  wr.next = nullptr;
  wr.sg_list = list.sges;
  wr.num_sge = list.count;
  ibv_recv_wr* bad;
  return ibv_post_recv(qp_, &wr, &bad) == 0;
}

// ---- fi_msg(3) ----

ssize_t TransferEndpoint::recv(void* buf, size_t len, void* desc, fi_addr_t, void* context) noexcept {
  const bool locked = may_be_long(len, desc) && receive_lock_.try_lock();
  if (!locked || !straight_receive_.allowed || !receives_.is_clear()) [[unlikely]]
    return recv_slowly(buf, len, desc, context, locked);
  Posted& slot = receives_.front();
  slot.context = context;
  slot.flags = straight_receive_.flags;
  slot.len = static_cast<uint32_t>(len);
  straight_receive_.pieces[0] = {reinterpret_cast<uintptr_t>(buf), static_cast<uint32_t>(len), lkey_of(desc)};
  slot.busy.store(true, std::memory_order_relaxed);
  straight_receive_.request.wr_id = reinterpret_cast<uintptr_t>(&slot);
  ibv_recv_wr* bad;
  const int error = ibv_post_recv(qp_, &straight_receive_.request, &bad);
  TransferEndpoint& self = unremembered(*this);
  if (error != 0) [[unlikely]]
    return self.receive_refused(error);
  self.receives_.push();
  self.receive_lock_.unlock();
  return 0;
}

[[gnu::noinline, gnu::cold]] ssize_t TransferEndpoint::receive_refused(int error) noexcept {
  receives_.front().busy.store(false, std::memory_order_relaxed);
  return unlock_refused(receive_lock_, error);
}

ssize_t TransferEndpoint::recv_slowly(void* buf, size_t len, void* desc, void* context, bool locked) noexcept {
  if (locked) receive_lock_.unlock();
  if ((receive_flags_ & FI_MULTI_RECV) != 0) [[unlikely]] {
    const iovec iov{buf, len};
    return post_receives(&iov, &desc, 1, context, receive_flags_);
  }
  ReceiveList<1> list;
  if (list.add(buf, len, desc, max_message_) != 0) [[unlikely]]
    return -FI_EINVAL;
  list.add_spill(domain_.spill(), sizes_.receive_sges);
  ReceiveWork work;
  work.sges = list.sges;
  work.count = list.count;
  work.len = static_cast<uint32_t>(list.len);
  work.flags = static_cast<uint32_t>(receive_flags_ & FI_COMPLETION);
  work.context = context;
  return post_receive(work);
}

ssize_t TransferEndpoint::recvv(const iovec* iov, void** desc, size_t count, fi_addr_t, void* context) noexcept {
  return post_receives(iov, desc, count, context, receive_flags_);
}

ssize_t TransferEndpoint::recvmsg(const fi_msg* msg, uint64_t flags) noexcept {
  if (msg == nullptr) return -FI_EINVAL;
  if ((flags & (FI_PEEK | FI_CLAIM | FI_DISCARD)) != 0) return -FI_EBADFLAGS;
  return post_receives(msg->msg_iov, msg->desc, msg->iov_count, msg->context, flags);
}

ssize_t TransferEndpoint::post_receives(const iovec* iov, void* const* desc, size_t count, void* context,
                                        uint64_t flags) noexcept {
  if (count > sizes_.receive_iov || (iov == nullptr && count != 0)) return -FI_EINVAL;
  const bool multi = (flags & FI_MULTI_RECV) != 0;
  if (multi && (count != 1 || iov->iov_len == 0)) return -FI_EINVAL;
  ReceiveList<kMaxIov> list;
  for (size_t i = 0; i < count; ++i)
    if (list.add(iov[i].iov_base, iov[i].iov_len, desc != nullptr ? desc[i] : nullptr, max_message_) != 0)
      return -FI_EINVAL;
  ReceiveWork work;
  work.len = static_cast<uint32_t>(std::min<uint64_t>(list.len, UINT32_MAX));
  if (multi) work.multi = {static_cast<std::byte*>(iov->iov_base), iov->iov_len, lkey_of(desc[0])};
  list.add_spill(domain_.spill(), sizes_.receive_sges);
  work.sges = list.sges;
  work.count = list.count;
  work.flags = static_cast<uint32_t>(flags & (FI_COMPLETION | FI_MULTI_RECV));
  work.context = context;
  return post_receive(work);
}

// ---- fi_cancel ----

ssize_t TransferEndpoint::cancel(void* context) noexcept {
  ReceiveWork removed;
  {
    LightGuard guard(receive_lock_);
    if (kept_ == nullptr || !kept_->remove(context, removed))
      return !shared_receive_ && receives_.find(context) != nullptr ? -FI_EBUSY : -FI_ENOENT;
  }
  report_cancelled(routes.receive_queue.get(), routes.receive.get(), context,
                   FI_RECV | FI_MSG | (removed.flags & FI_MULTI_RECV));
  return 0;
}

}  // namespace weft::verbs
