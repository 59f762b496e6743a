// SPDX-License-Identifier: BSD-2-Clause
// The atomic calls of reliable-datagram endpoints, fi_atomic(3): each builds an AtomicRequest for the endpoint.
#pragma once

#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>

#include <cstdint>
#include <span>

#include "abi/atomic_ops.h"
#include "rdm/atomic_origin.h"
#include "rdm/endpoint_calls.h"

namespace weft::rdm {

template <class T>
concept AtomicTarget = TransferTarget<T> &&
    requires(T& target, const AtomicRequest& request, AtomicKind kind, fi_datatype datatype, fi_op operation) {
  { target.update(request) }
  noexcept->std::same_as<ssize_t>;
  // Elements per operation; 0: not supported.
  { target.atomic_count(kind, datatype, operation) }
  noexcept->std::same_as<std::size_t>;
};

// T: the AtomicTarget that derives from this.
template <class T>
class AtomicCalls : public EndpointCalls<T> {
 public:
  ssize_t atomic(const void* buf, size_t count, void*, fi_addr_t dest, uint64_t addr, uint64_t key,
                 fi_datatype datatype, fi_op op, void* context) noexcept {
    const OneIoc operand(buf, count);
    return atomicv(&operand.ioc, nullptr, 1, dest, addr, key, datatype, op, context);
  }

  ssize_t atomicv(const fi_ioc* iov, void**, size_t count, fi_addr_t dest, uint64_t addr, uint64_t key,
                  fi_datatype datatype, fi_op op, void* context) noexcept {
    return self().update({.kind = AtomicKind::kUpdate,
                          .datatype = datatype,
                          .operation = op,
                          .operands = list(iov, count),
                          .remote = OneRange(addr, list(iov, count), key),
                          .peer = dest,
                          .flags = this->transmit_flags_,
                          .context = context});
  }

  ssize_t atomicmsg(const fi_msg_atomic* msg, uint64_t flags) noexcept {
    return msg == nullptr ? -FI_EINVAL : self().update(atomic_request(AtomicKind::kUpdate, *msg, flags));
  }

  ssize_t inject_atomic(const void* buf, size_t count, fi_addr_t dest, uint64_t addr, uint64_t key,
                        fi_datatype datatype, fi_op op) noexcept {
    const OneIoc operand(buf, count);
    return self().update({.kind = AtomicKind::kUpdate,
                          .datatype = datatype,
                          .operation = op,
                          .operands = operand,
                          .remote = OneRange(addr, operand, key),
                          .peer = dest,
                          .flags = this->transmit_flags_ & ~FI_COMPLETION,
                          .silent = true});
  }

  ssize_t fetch_atomic(const void* buf, size_t count, void*, void* result, void*, fi_addr_t dest, uint64_t addr,
                       uint64_t key, fi_datatype datatype, fi_op op, void* context) noexcept {
    const OneIoc operand(buf, count);
    OneIoc results(result, count);
    return fetch_atomicv(&operand.ioc, nullptr, 1, &results.ioc, nullptr, 1, dest, addr, key, datatype, op, context);
  }

  ssize_t fetch_atomicv(const fi_ioc* iov, void**, size_t count, fi_ioc* resultv, void**, size_t result_count,
                        fi_addr_t dest, uint64_t addr, uint64_t key, fi_datatype datatype, fi_op op,
                        void* context) noexcept {
    return self().update({.kind = AtomicKind::kFetch,
                          .datatype = datatype,
                          .operation = op,
                          .operands = list(iov, count),
                          .results = list(resultv, result_count),
                          .remote = OneRange(addr, list(resultv, result_count), key),
                          .peer = dest,
                          .flags = this->transmit_flags_,
                          .context = context});
  }

  ssize_t fetch_atomicmsg(const fi_msg_atomic* msg, fi_ioc* resultv, void**, size_t result_count,
                          uint64_t flags) noexcept {
    if (msg == nullptr) return -FI_EINVAL;
    AtomicRequest request = atomic_request(AtomicKind::kFetch, *msg, flags);
    request.results = list(resultv, result_count);
    return self().update(request);
  }

  ssize_t compare_atomic(const void* buf, size_t count, void*, const void* compare, void*, void* result, void*,
                         fi_addr_t dest, uint64_t addr, uint64_t key, fi_datatype datatype, fi_op op,
                         void* context) noexcept {
    const OneIoc operand(buf, count), comparand(compare, count);
    OneIoc results(result, count);
    return compare_atomicv(&operand.ioc, nullptr, 1, &comparand.ioc, nullptr, 1, &results.ioc, nullptr, 1, dest, addr,
                           key, datatype, op, context);
  }

  ssize_t compare_atomicv(const fi_ioc* iov, void**, size_t count, const fi_ioc* comparev, void**, size_t compare_count,
                          fi_ioc* resultv, void**, size_t result_count, fi_addr_t dest, uint64_t addr, uint64_t key,
                          fi_datatype datatype, fi_op op, void* context) noexcept {
    return self().update({.kind = AtomicKind::kCompare,
                          .datatype = datatype,
                          .operation = op,
                          .operands = list(iov, count),
                          .compares = list(comparev, compare_count),
                          .results = list(resultv, result_count),
                          .remote = OneRange(addr, list(resultv, result_count), key),
                          .peer = dest,
                          .flags = this->transmit_flags_,
                          .context = context});
  }

  ssize_t compare_atomicmsg(const fi_msg_atomic* msg, const fi_ioc* comparev, void**, size_t compare_count,
                            fi_ioc* resultv, void**, size_t result_count, uint64_t flags) noexcept {
    if (msg == nullptr) return -FI_EINVAL;
    AtomicRequest request = atomic_request(AtomicKind::kCompare, *msg, flags);
    request.compares = list(comparev, compare_count);
    request.results = list(resultv, result_count);
    return self().update(request);
  }

  // Queries.

  int atomicvalid(fi_datatype datatype, fi_op op, size_t* count) noexcept {
    return answer(AtomicKind::kUpdate, datatype, op, count);
  }
  int fetch_atomicvalid(fi_datatype datatype, fi_op op, size_t* count) noexcept {
    return answer(AtomicKind::kFetch, datatype, op, count);
  }
  int compare_atomicvalid(fi_datatype datatype, fi_op op, size_t* count) noexcept {
    return answer(AtomicKind::kCompare, datatype, op, count);
  }

 protected:
  AtomicCalls(const fi_info& info, ReceiveSide& receives, bool directs, std::size_t tx_size) noexcept
      : EndpointCalls<T>(info, receives, directs, tx_size) {
    static_assert(AtomicTarget<T>);
  }

  void refuse_transfers() noexcept {
    static constexpr fi_ops_atomic kAtomic = make_atomic_ops<NoCalls, FI_EOPBADSTATE>();
    EndpointCalls<T>::refuse_transfers();
    this->abi.atomic = slots(kAtomic);
  }
  void take_transfers(uint64_t caps) noexcept {
    static constexpr fi_ops_atomic kAtomic = Triggers<T>::atomic();
    static constexpr fi_ops_atomic kNoAtomic = make_atomic_ops<NoCalls>();
    EndpointCalls<T>::take_transfers(caps);
    this->abi.atomic = slots((caps & FI_ATOMIC) != 0 || caps == 0 ? kAtomic : kNoAtomic);
  }

 private:
  struct OneIoc {
    fi_ioc ioc;
    OneIoc(const void* buf, std::size_t count) noexcept : ioc{const_cast<void*>(buf), count} {}
    operator std::span<const fi_ioc>() const noexcept { return {&ioc, 1}; }
  };

  // One range of the peer's memory with the total length of the local list.
  struct OneRange {
    fi_rma_ioc ioc;
    OneRange(std::uint64_t addr, std::span<const fi_ioc> local, std::uint64_t key) noexcept : ioc{addr, 0, key} {
      if (local.data() != nullptr)
        for (const fi_ioc& each : local) ioc.count += each.count;
    }
    operator std::span<const fi_rma_ioc>() const noexcept { return {&ioc, 1}; }
  };

  static std::span<const fi_ioc> list(const fi_ioc* iov, std::size_t count) noexcept {
    return {iov, iov != nullptr ? count : 0};
  }

  static AtomicRequest atomic_request(AtomicKind kind, const fi_msg_atomic& msg, uint64_t flags) noexcept {
    return {.kind = kind,
            .datatype = msg.datatype,
            .operation = msg.op,
            .operands = list(msg.msg_iov, msg.iov_count),
            .remote = {msg.rma_iov, msg.rma_iov_count},
            .peer = msg.addr,
            .flags = flags,
            .context = msg.context};
  }

  int answer(AtomicKind kind, fi_datatype datatype, fi_op op, size_t* count) noexcept {
    const std::size_t most = self().atomic_count(kind, datatype, op);
    if (most == 0) return -FI_EOPNOTSUPP;
    if (count != nullptr) *count = most;
    return 0;
  }

  T& self() noexcept { return static_cast<T&>(*this); }
};

}  // namespace weft::rdm
