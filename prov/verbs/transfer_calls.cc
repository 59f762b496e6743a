// SPDX-License-Identifier: BSD-2-Clause
// Sending: the calls of fi_msg(3), and what posting does rarely; the rest of it is in send_path.h. ibv_post_send(3).
#include "verbs/domain.h"
#include "verbs/provider.h"
#include "verbs/send_path.h"
#include "verbs/send_work.h"
#include "verbs/transfer_endpoint.h"

namespace weft::verbs {
namespace {

constexpr uint32_t kMessage = FI_SEND | FI_MSG;

ibv_wr_opcode send_opcode(uint64_t flags) noexcept {
  return (flags & FI_REMOTE_CQ_DATA) != 0 ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
}

}  // namespace

// ---- The way to the device ----

ssize_t TransferEndpoint::post_send(const SendWork& work) noexcept {
  if (const ssize_t refusal = check(work); refusal != 0) [[unlikely]]
    return refusal;
  LightGuard guard(send_lock_);
  return post_locked(work);
}

// Room may only be waiting to be noticed, and whoever sends without completions never reads the queue.
ssize_t TransferEndpoint::on_no_room() noexcept {
  if (sends_.closed()) return sends_refusal_;
  routes.transmit_channel->make_room();
  return -FI_EAGAIN;
}

// FI_DELIVERY_COMPLETE of a write. Two work requests with two records; the first says nothing, and hands its failure to
// the second.
ssize_t TransferEndpoint::post_delivered_write(const SendWork& work) noexcept {
  if (domain_.discard().length == 0) return -FI_EOPNOTSUPP;
  if (const ssize_t refusal = check(work); refusal != 0) return refusal;
  ibv_sge sink = domain_.discard();
  sink.length = 1;
  LightGuard guard(send_lock_);
  if (chain_ != nullptr && !chain_->empty()) {
    routes.transmit_channel->unstage(*this);
    flush_chain();
  }
  Posted* const first = next_send();
  Posted* const second = sends_.next(1);
  if (second == nullptr) return on_no_room();
  ibv_send_wr wr[2];
  build(wr[0], work);
  wr[0].wr_id = reinterpret_cast<uintptr_t>(first);
  wr[0].next = &wr[1];
  wr[0].send_flags = fill(*first, work) & ~unsigned{IBV_SEND_SIGNALED};
  first->flags = work.kind | Posted::kFirstHalf;
  SendWork read_back = work;
  read_back.opcode = IBV_WR_RDMA_READ;
  read_back.address = work.address + work.len - 1;
  read_back.sges = &sink;
  read_back.count = 1;
  read_back.len = 1;
  build(wr[1], read_back);
  wr[1].wr_id = reinterpret_cast<uintptr_t>(second);
  wr[1].next = nullptr;
  wr[1].send_flags = fill(*second, read_back) | IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  if (const int error = ibv_post_send(qp_, wr, &bad); error != 0) {
    // Either both are posted or none: half an operation would have no completion.
    if (bad == &wr[1]) sends_.push(false);
    return refused(error);
  }
  sends_.push(false);
  sends_.push(true);
  return 0;
}

// ---- FI_MORE ----

ssize_t TransferEndpoint::post_in_chain(const SendWork& work) noexcept {
  if (chain_ == nullptr) chain_ = SendChain::make(sizes_.transmit_iov, sizes_.inline_bytes);
  if (chain_ == nullptr) return -FI_EAGAIN;
  Posted* const slot = next_send();
  if (slot == nullptr) {
    if (!chain_->empty()) {
      routes.transmit_channel->unstage(*this);
      flush_chain();
    }
    return on_no_room();
  }
  const bool was_empty = chain_->empty();
  sends_.block();
  // The buffers of other operations are ours until their completion.
  const bool copy = (work.silent || (work.flags & FI_INJECT) != 0) && carries_data(work.opcode);
  ibv_send_wr& wr = chain_->append(work, copy);
  wr.wr_id = reinterpret_cast<uintptr_t>(slot);
  wr.send_flags = fill(*slot, work);
  sends_.push((wr.send_flags & IBV_SEND_SIGNALED) != 0);
  if ((work.flags & FI_MORE) != 0 && !chain_->full()) {
    if (was_empty) routes.transmit_channel->stage(*this);
    return 0;
  }
  if (!was_empty) routes.transmit_channel->unstage(*this);
  flush_chain();
  return 0;
}

// With the lock for sends held. What the device does not take has been accepted by us: it completes as failed.
void TransferEndpoint::flush_chain() noexcept {
  ibv_send_wr* bad = nullptr;
  const int error = qp_ != nullptr ? ibv_post_send(qp_, chain_->first(), &bad) : ENOTCONN;
  if (error != 0) [[unlikely]] {
    const uint32_t left = bad != nullptr ? chain_->left_from(bad) : chain_->count();
    FI_WARN(&provider(), FI_LOG_EP_DATA, "the device refused %u work requests of a chain: %s\n", left,
            fi_strerror(error));
    for (uint32_t age = left; age-- != 0;) {
      const Posted& slot = sends_.youngest(age);
      CompletionError failed;
      failed.context = slot.context;
      failed.flags = slot.flags & ~uint64_t{Posted::kOurs};
      failed.err = error;
      failed.prov_errno = IBV_WC_GENERAL_ERR;
      if (CounterCore* counter = routes.transmit_counter(failed.flags)) counter->add_error(1);
      if (routes.transmit_queue) routes.transmit_queue->write_error(failed);
    }
    sends_.take_back(left);
  }
  chain_->clear();
}

// For progress; false when the lock is taken: somebody is posting.
bool TransferEndpoint::try_flush_chain() noexcept {
  if (!send_lock_.try_lock()) return false;
  if (!chain_->empty()) flush_chain();
  send_lock_.unlock();
  return true;
}

// ---- fi_msg(3) ----

ssize_t TransferEndpoint::send(const void* buf, size_t len, void* desc, fi_addr_t, void* context) noexcept {
  const bool locked = may_go(len, desc) && send_lock_.try_lock();
  if (!locked || !sends_.is_clear()) [[unlikely]]
    return send_slowly(buf, len, desc, context, locked);
  return post_straight(buf, len, desc, IBV_WR_SEND, kMessage, context, false);
}

ssize_t TransferEndpoint::send_slowly(const void* buf, size_t len, void* desc, void* context, bool locked) noexcept {
  if (locked) send_lock_.unlock();
  OneSge one(buf, len, desc);
  return post_send(work_with(one, IBV_WR_SEND, kMessage, transmit_flags_, context));
}

ssize_t TransferEndpoint::sendv(const iovec* iov, void** desc, size_t count, fi_addr_t, void* context) noexcept {
  ManySges many(iov, desc, count, sizes_.transmit_iov);
  if (many.count < 0) return -FI_EINVAL;
  return post_send(work_with(many, IBV_WR_SEND, kMessage, transmit_flags_, context));
}

ssize_t TransferEndpoint::sendmsg(const fi_msg* msg, uint64_t flags) noexcept {
  if (msg == nullptr) return -FI_EINVAL;
  ManySges many(msg->msg_iov, msg->desc, msg->iov_count, sizes_.transmit_iov);
  if (many.count < 0) return -FI_EINVAL;
  SendWork work = work_with(many, send_opcode(flags), kMessage, flags, msg->context);
  work.data = msg->data;
  return post_send(work);
}

ssize_t TransferEndpoint::inject(const void* buf, size_t len, fi_addr_t) noexcept {
  const bool locked = may_go(len, nullptr) && send_lock_.try_lock();
  if (!locked || !sends_.is_clear()) [[unlikely]]
    return inject_slowly(buf, len, locked);
  return post_straight(buf, len, nullptr, IBV_WR_SEND, kMessage, nullptr, true);
}

ssize_t TransferEndpoint::inject_slowly(const void* buf, size_t len, bool locked) noexcept {
  if (locked) send_lock_.unlock();
  OneSge one(buf, len, nullptr);
  SendWork work = work_with(one, IBV_WR_SEND, kMessage, transmit_flags_ | FI_INJECT, nullptr);
  work.silent = true;
  return post_send(work);
}

ssize_t TransferEndpoint::senddata(const void* buf, size_t len, void* desc, uint64_t data, fi_addr_t,
                                   void* context) noexcept {
  OneSge one(buf, len, desc);
  SendWork work = work_with(one, IBV_WR_SEND_WITH_IMM, kMessage, transmit_flags_, context);
  work.data = data;
  return post_send(work);
}

ssize_t TransferEndpoint::injectdata(const void* buf, size_t len, uint64_t data, fi_addr_t) noexcept {
  OneSge one(buf, len, nullptr);
  SendWork work = work_with(one, IBV_WR_SEND_WITH_IMM, kMessage, transmit_flags_ | FI_INJECT, nullptr);
  work.data = data;
  work.silent = true;
  return post_send(work);
}

}  // namespace weft::verbs
