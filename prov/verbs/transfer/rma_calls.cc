// SPDX-License-Identifier: BSD-2-Clause
// Remote memory access: the calls of fi_rma(3). One remote range per operation; reads and writes are those of the
// device.
#include "verbs/transfer/send_path.h"
#include "verbs/transfer/send_work.h"
#include "verbs/transfer/transfer_endpoint.h"

namespace weft::verbs {
namespace {

constexpr uint32_t kRead = FI_RMA | FI_READ;
constexpr uint32_t kWrite = FI_RMA | FI_WRITE;
constexpr uint64_t kMaxKey = UINT32_MAX;

template <class Sges>
[[gnu::always_inline]] inline SendWork access_with(Sges& buffers, ibv_wr_opcode opcode, uint64_t flags, void* context,
                                                   uint64_t address, uint64_t key) noexcept {
  SendWork work = work_with(buffers, opcode, opcode == IBV_WR_RDMA_READ ? kRead : kWrite, flags, context);
  work.address = address;
  work.key = key;
  return work;
}

}  // namespace

ssize_t TransferEndpoint::post_access(SendWork& work) noexcept {
  constexpr uint64_t kSpecial = FI_REMOTE_CQ_DATA | FI_DELIVERY_COMPLETE;
  if (work.key > kMaxKey) return -FI_EKEYREJECTED;
  if ((work.flags & kSpecial) != 0 && work.opcode == IBV_WR_RDMA_WRITE) [[unlikely]]
    return post_special_write(work);
  return sends_.post(work);
}

// Immediate data with a write uses up a receive of the peer, which expects that only if it agreed to FI_RX_CQ_DATA.
//
// A write is acknowledged when the peer's device has it, not when memory has it; with FI_DELIVERY_COMPLETE a read
// follows.
ssize_t TransferEndpoint::post_special_write(SendWork& work) noexcept {
  if ((work.flags & FI_REMOTE_CQ_DATA) != 0) {
    if (!takes_cq_data_) return -FI_EOPNOTSUPP;
    work.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  }
  const bool delivered = (work.flags & FI_DELIVERY_COMPLETE) != 0 && work.len != 0;
  return delivered ? sends_.post_delivered_write(work) : sends_.post(work);
}

ssize_t TransferEndpoint::rma_message(ibv_wr_opcode opcode, const fi_msg_rma* msg, uint64_t flags) noexcept {
  if (msg == nullptr || msg->rma_iov == nullptr || msg->rma_iov_count != 1) return -FI_EINVAL;  // rma_iov_limit is 1
  ManySges many(msg->msg_iov, msg->desc, msg->iov_count, sizes_.transmit_iov);
  if (many.count < 0 || many.len != msg->rma_iov->len) return -FI_EINVAL;
  SendWork work = access_with(many, opcode, flags, msg->context, msg->rma_iov->addr, msg->rma_iov->key);
  work.data = msg->data;
  return post_access(work);
}

ssize_t TransferEndpoint::rma_vector(ibv_wr_opcode opcode, const iovec* iov, void** desc, size_t count, uint64_t addr,
                                     uint64_t key, void* context) noexcept {
  ManySges many(iov, desc, count, sizes_.transmit_iov);
  if (many.count < 0) return -FI_EINVAL;
  SendWork work = access_with(many, opcode, sends_.flags(), context, addr, key);
  return post_access(work);
}

// A read or a write of one buffer.
ssize_t TransferEndpoint::access_slowly(ibv_wr_opcode opcode, const void* buf, size_t len, void* desc, uint64_t addr,
                                        uint64_t key, void* context) noexcept {
  OneSge one(buf, len, desc);
  SendWork work = access_with(one, opcode, sends_.flags(), context, addr, key);
  return post_access(work);
}

template <ibv_wr_opcode Opcode>
[[gnu::always_inline]] inline ssize_t TransferEndpoint::access(const void* buf, size_t len, void* desc, uint64_t addr,
                                                               uint64_t key, void* context) noexcept {
  constexpr uint32_t kKind = Opcode == IBV_WR_RDMA_READ ? kRead : kWrite;
  const bool fits = Opcode == IBV_WR_RDMA_READ ? sends_.may_be_long(buf, len, desc) : sends_.may_go(buf, len, desc);
  const bool locked = fits && key <= kMaxKey && sends_.lock().try_lock();
  if (!locked || !sends_.is_clear()) [[unlikely]] {
    if (locked) sends_.lock().unlock();
    return access_slowly(Opcode, buf, len, desc, addr, key, context);
  }
  sends_.set_remote(addr, key);
  const int error = sends_.post_straight(buf, len, desc, Opcode, kKind, context, false);
  return reload(*this).sends_.end_straight(error, false);
}

ssize_t TransferEndpoint::read(void* buf, size_t len, void* desc, fi_addr_t, uint64_t addr, uint64_t key,
                               void* context) noexcept {
  return access<IBV_WR_RDMA_READ>(buf, len, desc, addr, key, context);
}
ssize_t TransferEndpoint::readv(const iovec* iov, void** desc, size_t count, fi_addr_t, uint64_t addr, uint64_t key,
                                void* context) noexcept {
  return rma_vector(IBV_WR_RDMA_READ, iov, desc, count, addr, key, context);
}
ssize_t TransferEndpoint::readmsg(const fi_msg_rma* msg, uint64_t flags) noexcept {
  // A read raises no completion at its target, so completion data has no destination.
  return (flags & FI_REMOTE_CQ_DATA) != 0 ? -FI_EBADFLAGS : rma_message(IBV_WR_RDMA_READ, msg, flags & ~FI_INJECT);
}

ssize_t TransferEndpoint::write(const void* buf, size_t len, void* desc, fi_addr_t, uint64_t addr, uint64_t key,
                                void* context) noexcept {
  return access<IBV_WR_RDMA_WRITE>(buf, len, desc, addr, key, context);
}
ssize_t TransferEndpoint::writev(const iovec* iov, void** desc, size_t count, fi_addr_t, uint64_t addr, uint64_t key,
                                 void* context) noexcept {
  return rma_vector(IBV_WR_RDMA_WRITE, iov, desc, count, addr, key, context);
}
ssize_t TransferEndpoint::writemsg(const fi_msg_rma* msg, uint64_t flags) noexcept {
  return rma_message(IBV_WR_RDMA_WRITE, msg, flags);
}
ssize_t TransferEndpoint::rma_inject(const void* buf, size_t len, fi_addr_t, uint64_t addr, uint64_t key) noexcept {
  OneSge one(buf, len, nullptr);
  SendWork work = access_with(one, IBV_WR_RDMA_WRITE, sends_.flags() | FI_INJECT, nullptr, addr, key);
  work.silent = true;
  return post_access(work);
}
ssize_t TransferEndpoint::writedata(const void* buf, size_t len, void* desc, uint64_t data, fi_addr_t, uint64_t addr,
                                    uint64_t key, void* context) noexcept {
  OneSge one(buf, len, desc);
  SendWork work = access_with(one, IBV_WR_RDMA_WRITE, sends_.flags() | FI_REMOTE_CQ_DATA, context, addr, key);
  work.data = data;
  return post_access(work);
}
ssize_t TransferEndpoint::rma_injectdata(const void* buf, size_t len, uint64_t data, fi_addr_t, uint64_t addr,
                                         uint64_t key) noexcept {
  OneSge one(buf, len, nullptr);
  const uint64_t flags = sends_.flags() | FI_REMOTE_CQ_DATA | FI_INJECT;
  SendWork work = access_with(one, IBV_WR_RDMA_WRITE, flags, nullptr, addr, key);
  work.data = data;
  work.silent = true;
  return post_access(work);
}

}  // namespace weft::verbs
