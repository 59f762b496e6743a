// SPDX-License-Identifier: BSD-2-Clause
// The calls of fi_rma(3) of connected endpoints. One remote range per operation; reads and writes are those of the
// device. Included by the source that makes the tables of calls.
#pragma once

#include "verbs/transfer/message_calls.h"

namespace weft::verbs {

// T: a SendTarget with takes_cq_data(): completion data may go with writes, since the peer posts receives for it
// (FI_RX_CQ_DATA).
template <class T>
class RmaCalls : public SendCalls<T> {
 public:
  ssize_t read(void* buf, size_t len, void* desc, fi_addr_t, uint64_t addr, uint64_t key, void* context) noexcept {
    return access<IBV_WR_RDMA_READ>(buf, len, desc, addr, key, context);
  }
  ssize_t readv(const iovec* iov, void** desc, size_t count, fi_addr_t, uint64_t addr, uint64_t key,
                void* context) noexcept {
    return access_vector(IBV_WR_RDMA_READ, iov, desc, count, addr, key, context);
  }
  ssize_t readmsg(const fi_msg_rma* msg, uint64_t flags) noexcept {
    // A read raises no completion at its target, so completion data has no destination.
    return (flags & FI_REMOTE_CQ_DATA) != 0 ? -FI_EBADFLAGS : access_message(IBV_WR_RDMA_READ, msg, flags & ~FI_INJECT);
  }
  ssize_t write(const void* buf, size_t len, void* desc, fi_addr_t, uint64_t addr, uint64_t key,
                void* context) noexcept {
    return access<IBV_WR_RDMA_WRITE>(buf, len, desc, addr, key, context);
  }
  ssize_t writev(const iovec* iov, void** desc, size_t count, fi_addr_t, uint64_t addr, uint64_t key,
                 void* context) noexcept {
    return access_vector(IBV_WR_RDMA_WRITE, iov, desc, count, addr, key, context);
  }
  ssize_t writemsg(const fi_msg_rma* msg, uint64_t flags) noexcept {
    return access_message(IBV_WR_RDMA_WRITE, msg, flags);
  }
  ssize_t rma_inject(const void* buf, size_t len, fi_addr_t, uint64_t addr, uint64_t key) noexcept {
    OneSge one(buf, len, nullptr);
    return post_access(one, IBV_WR_RDMA_WRITE, sends().flags() | FI_INJECT | kSilent, nullptr, addr, key);
  }
  ssize_t writedata(const void* buf, size_t len, void* desc, uint64_t data, fi_addr_t, uint64_t addr, uint64_t key,
                    void* context) noexcept {
    OneSge one(buf, len, desc);
    return post_access(one, IBV_WR_RDMA_WRITE, sends().flags() | FI_REMOTE_CQ_DATA, context, addr, key, data);
  }
  ssize_t rma_injectdata(const void* buf, size_t len, uint64_t data, fi_addr_t, uint64_t addr, uint64_t key) noexcept {
    OneSge one(buf, len, nullptr);
    const uint64_t flags = sends().flags() | FI_REMOTE_CQ_DATA | FI_INJECT | kSilent;
    return post_access(one, IBV_WR_RDMA_WRITE, flags, nullptr, addr, key, data);
  }

 private:
  static constexpr uint64_t kMaxKey = UINT32_MAX;
  static constexpr uint32_t kind_of(ibv_wr_opcode opcode) noexcept {
    return opcode == IBV_WR_RDMA_READ ? FI_RMA | FI_READ : FI_RMA | FI_WRITE;
  }

  template <ibv_wr_opcode Opcode>
  bool is_inline(const void* buf, size_t len) noexcept {
    return carries_data(Opcode) && sends().may_be_inline(buf, len);
  }
  // A read or a write of one buffer.
  template <ibv_wr_opcode Opcode>
  [[gnu::always_inline]] ssize_t access(const void* buf, size_t len, void* desc, uint64_t addr, uint64_t key,
                                        void* context) noexcept {
    const bool fits = is_inline<Opcode>(buf, len) || sends().may_be_long(buf, len, desc);
    const bool locked = fits && key <= kMaxKey && sends().lock().try_lock();
    if (!locked || !sends().is_clear()) [[unlikely]]
      return access_slowly<Opcode>(buf, len, desc, addr, key, context, locked);
    const int error = start_straight<Opcode>(buf, len, desc, addr, key, context);
    return reload(self()).sends().end_straight(error);
  }
  template <ibv_wr_opcode Opcode>
  [[gnu::always_inline]] int start_straight(const void* buf, size_t len, void* desc, uint64_t addr, uint64_t key,
                                            void* context) noexcept {
    sends().set_remote(addr, key);
    return sends().post_straight(buf, len, desc, Opcode, kind_of(Opcode), context, false, is_inline<Opcode>(buf, len));
  }
  template <ibv_wr_opcode Opcode>
  [[gnu::noinline]] ssize_t access_slowly(const void* buf, size_t len, void* desc, uint64_t addr, uint64_t key,
                                          void* context, bool locked) noexcept {
    if (locked && sends().make_clear())
      return sends().end_straight(start_straight<Opcode>(buf, len, desc, addr, key, context));
    if (locked) sends().lock().unlock();
    OneSge one(buf, len, desc);
    return post_access(one, Opcode, sends().flags(), context, addr, key);
  }
  ssize_t access_vector(ibv_wr_opcode opcode, const iovec* iov, void** desc, size_t count, uint64_t addr, uint64_t key,
                        void* context) noexcept {
    ManySges many(iov, desc, count, sends().iov_limit());
    return many.count < 0 ? -FI_EINVAL : post_access(many, opcode, sends().flags(), context, addr, key);
  }
  ssize_t access_message(ibv_wr_opcode opcode, const fi_msg_rma* msg, uint64_t flags) noexcept {
    if (msg == nullptr || msg->rma_iov == nullptr || msg->rma_iov_count != 1) return -FI_EINVAL;  // rma_iov_limit is 1
    ManySges many(msg->msg_iov, msg->desc, msg->iov_count, sends().iov_limit());
    if (many.count < 0 || many.len != msg->rma_iov->len) return -FI_EINVAL;
    return post_access(many, opcode, flags, msg->context, msg->rma_iov->addr, msg->rma_iov->key, msg->data);
  }

  template <class Sges>
  ssize_t post_access(Sges& buffers, ibv_wr_opcode opcode, uint64_t flags, void* context, uint64_t address,
                      uint64_t key, uint64_t data = 0) noexcept {
    constexpr uint64_t kSpecial = FI_REMOTE_CQ_DATA | FI_DELIVERY_COMPLETE;
    if (key > kMaxKey) return -FI_EKEYREJECTED;
    SendWork work = work_with(buffers, opcode, kind_of(opcode), flags, context);
    work.address = address;
    work.key = key;
    work.data = data;
    if ((flags & kSpecial) != 0 && opcode == IBV_WR_RDMA_WRITE) [[unlikely]]
      return post_special_write(work);
    if (opcode == IBV_WR_RDMA_READ && sends().must_split(work)) [[unlikely]]
      return sends().post_split_read(work);
    return sends().post(work);
  }
  // Immediate data with a write uses up a receive of the peer, which expects that only if it agreed to FI_RX_CQ_DATA.
  ssize_t post_special_write(SendWork& work) noexcept {
    if ((work.flags & FI_REMOTE_CQ_DATA) != 0) {
      if (!self().takes_cq_data()) return -FI_EOPNOTSUPP;
      work.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    }
    return work.must_be_delivered() ? sends().post_delivered(work) : sends().post(work);
  }

  T& self() noexcept { return static_cast<T&>(*this); }
  SendQueue& sends() noexcept { return self().sends(); }
};

}  // namespace weft::verbs
