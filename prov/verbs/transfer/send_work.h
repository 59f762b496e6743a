// SPDX-License-Identifier: BSD-2-Clause
// A transmission before it is posted: the parameters of the calls of fi_msg(3), fi_rma(3) and fi_atomic(3); and the
// chain of work requests that wait for more (FI_MORE). Included by the sources that post.
#pragma once

#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <sys/uio.h>

#include <cstdint>
#include <cstring>
#include <memory>

#include "base/list.h"
#include "objects/transfer_calls.h"
#include "verbs/device/limits.h"
#include "verbs/transfer/memory_region.h"

namespace weft::verbs {

// The destination of datagrams: a peer's queue pair, or a group.
struct Destination {
  ibv_ah* handle = nullptr;
  std::uint32_t qp_number = 0;
  std::uint32_t qkey = 0;
};

struct SendWork {
  ibv_wr_opcode opcode;
  std::uint32_t kind = 0;   // the completion's flags
  std::uint64_t flags = 0;  // the operation's
  ibv_sge* sges = nullptr;
  int count = 0;          // number of sges, none has length 0; 0: the first one has length 0, because irdma and erdma
                          // use it nevertheless
  std::uint64_t len = 0;  // bytes in all sges
  void* context = nullptr;
  std::uint64_t data = 0;  // FI_REMOTE_CQ_DATA
  std::uint64_t address = 0;
  std::uint64_t key = 0;
  std::uint64_t operand = 0;  // atomics: the value to add, or to swap in ...
  std::uint64_t compare = 0;  // ... if memory holds this value
  bool silent = false;        // fi_inject and similar calls: no completion on success
  Destination to = {};        // datagrams

  bool must_be_delivered() const noexcept { return (flags & FI_DELIVERY_COMPLETE) != 0 && len != 0; }
};

inline bool is_atomic(ibv_wr_opcode opcode) noexcept {
  return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}
inline bool is_send(ibv_wr_opcode opcode) noexcept {
  return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM;
}
// Operations that take data from local memory: it may travel inside the work request.
inline bool carries_data(ibv_wr_opcode opcode) noexcept {
  return opcode != IBV_WR_RDMA_READ && !is_atomic(opcode);
}

// One buffer as a gather list of one element, or of none: some devices take a length of 0 for 2 GiB.
struct OneSge {
  ibv_sge sge;
  int count;
  std::uint64_t len;
  OneSge(const void* buf, std::size_t length, const void* desc) noexcept
      : sge{reinterpret_cast<std::uintptr_t>(buf), static_cast<std::uint32_t>(length), lkey_of(desc)},
        count(length != 0 ? 1 : 0),
        len(length) {}
  ibv_sge* list() noexcept { return &sge; }
};

// A gather list of several buffers; `count` is -1 if there are more than `limit`.
struct ManySges {
  ibv_sge sges[kMaxIov];
  int count = 0;
  std::uint64_t len = 0;
  ManySges(const iovec* iov, void* const* desc, std::size_t iov_count, std::size_t limit) noexcept {
    if (iov_count > limit || (iov == nullptr && iov_count != 0)) {
      count = -1;
      return;
    }
    for (std::size_t i = 0; i < iov_count; ++i) {
      if (__builtin_add_overflow(len, iov[i].iov_len, &len)) {
        len = UINT64_MAX;  // longer than any message
        return;
      }
      if (iov[i].iov_len == 0) continue;
      sges[count++] = {reinterpret_cast<std::uintptr_t>(iov[i].iov_base), static_cast<std::uint32_t>(iov[i].iov_len),
                       lkey_of(desc != nullptr ? desc[i] : nullptr)};
    }
  }
  ibv_sge* list() noexcept {
    if (count == 0) sges[0] = {};
    return sges;
  }
};

// The part that operations with these buffers have in common; the caller adds the rest.
template <class Sges>
[[gnu::always_inline]] inline SendWork work_with(Sges& buffers, ibv_wr_opcode opcode, std::uint32_t kind,
                                                 std::uint64_t flags, void* context) noexcept {
  return {.opcode = opcode,
          .kind = kind,
          .flags = flags,
          .sges = buffers.list(),
          .count = buffers.count,
          .len = buffers.len,
          .context = context,
          .silent = (flags & kSilent) != 0};
}

// A work request of `work`; `wr_id`, `next` and the rest of `send_flags` are left to the caller.
inline void build(ibv_send_wr& wr, const SendWork& work) noexcept {
  wr.sg_list = work.sges;
  wr.num_sge = work.count;
  wr.opcode = work.opcode;
  wr.imm_data = htonl(static_cast<std::uint32_t>(work.data));
  if (is_send(work.opcode)) {
    if (work.to.handle == nullptr) return;
    wr.wr.ud.ah = work.to.handle;
    wr.wr.ud.remote_qpn = work.to.qp_number;
    wr.wr.ud.remote_qkey = work.to.qkey;
    return;
  }
  if (is_atomic(work.opcode)) {
    wr.wr.atomic.remote_addr = work.address;
    wr.wr.atomic.compare_add = work.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? work.operand : work.compare;
    wr.wr.atomic.swap = work.operand;
    wr.wr.atomic.rkey = static_cast<std::uint32_t>(work.key);
  } else {
    wr.wr.rdma.remote_addr = work.address;
    wr.wr.rdma.rkey = static_cast<std::uint32_t>(work.key);
  }
}

class SendQueue;

// Work requests that were accepted and are not posted yet, linked to each other. Guarded by the owner's lock for sends.
class SendChain : public ListHook<SendChain> {
 public:
  // Null: no memory.
  static std::unique_ptr<SendChain> make(SendQueue& owner, std::size_t iov_limit, std::size_t inline_bytes) noexcept {
    std::unique_ptr<SendChain> chain(new (std::nothrow) SendChain(owner));
    if (chain == nullptr) return nullptr;
    chain->iov_limit_ = iov_limit;
    chain->inline_bytes_ = inline_bytes;
    chain->sges_.reset(new (std::nothrow) ibv_sge[kChainLength * iov_limit]);
    chain->copies_.reset(new (std::nothrow) std::byte[kChainLength * inline_bytes]);
    return chain->sges_ != nullptr && chain->copies_ != nullptr ? std::move(chain) : nullptr;
  }

  SendQueue& owner() const noexcept { return owner_; }
  bool empty() const noexcept { return count_ == 0; }
  bool full() const noexcept { return count_ == kChainLength; }
  std::uint32_t count() const noexcept { return count_; }
  ibv_send_wr* first() noexcept { return requests_; }
  // The number of requests from `bad` to the end of the chain.
  std::uint32_t left_from(const ibv_send_wr* bad) const noexcept {
    return count_ - static_cast<std::uint32_t>(bad - requests_);
  }
  void clear() noexcept { count_ = 0; }

  // Requires room. `copy`: the caller may reuse its buffers when this returns.
  ibv_send_wr& append(const SendWork& work, bool copy) noexcept {
    ibv_send_wr& wr = requests_[count_];
    build(wr, work);
    wr.sg_list = &sges_[count_ * iov_limit_];
    wr.next = nullptr;
    if (count_ != 0) requests_[count_ - 1].next = &wr;
    if (copy) {
      std::byte* const to = &copies_[count_ * inline_bytes_];
      std::size_t at = 0;
      for (int i = 0; i < work.count; ++i) {
        std::memcpy(to + at, reinterpret_cast<const void*>(work.sges[i].addr), work.sges[i].length);
        at += work.sges[i].length;
      }
      wr.sg_list[0] = {reinterpret_cast<std::uintptr_t>(to), static_cast<std::uint32_t>(at), 0};
      wr.num_sge = at != 0 ? 1 : 0;
    } else {
      for (int i = 0; i < work.count; ++i) wr.sg_list[i] = work.sges[i];
    }
    if (wr.num_sge == 0) wr.sg_list[0] = {};
    ++count_;
    return wr;
  }

 private:
  explicit SendChain(SendQueue& owner) noexcept : owner_(owner) {}

  SendQueue& owner_;
  ibv_send_wr requests_[kChainLength];
  std::size_t iov_limit_ = 1;
  std::size_t inline_bytes_ = 0;
  std::unique_ptr<ibv_sge[]> sges_;
  std::unique_ptr<std::byte[]> copies_;
  std::uint32_t count_ = 0;
};

}  // namespace weft::verbs
