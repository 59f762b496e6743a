// SPDX-License-Identifier: BSD-2-Clause
// The atomic calls of endpoints, fi_atomic(3): each builds an AtomicRequest for the endpoint.
#pragma once

#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>

#include <cstdint>
#include <span>

#include "objects/atomic_request.h"
#include "objects/transfer_calls.h"

namespace weft {

// Base: the base of this class. T: the endpoint, which derives from this class and has
//   ssize_t update(const AtomicRequest&) noexcept
//   std::size_t atomic_count(AtomicKind, fi_datatype, fi_op) noexcept   elements per operation; 0: not supported
//   std::uint64_t default_flags() noexcept                              of calls without flags
template <class T, class Base>
class AtomicCalls : public Base {
 public:
  ssize_t atomic(const void* buf, size_t count, void*, fi_addr_t dest, uint64_t addr, uint64_t key,
                 fi_datatype datatype, fi_op op, void* context) noexcept {
    const OneIoc operand(buf, count);
    return atomicv(&operand.ioc, nullptr, 1, dest, addr, key, datatype, op, context);
  }

  ssize_t atomicv(const fi_ioc* iov, void**, size_t count, fi_addr_t dest, uint64_t addr, uint64_t key,
                  fi_datatype datatype, fi_op op, void* context) noexcept {
    const OneRange range(addr, list(iov, count), key);
    return submit(request(AtomicKind::kUpdate, datatype, op, list(iov, count), range, dest, context));
  }

  ssize_t atomicmsg(const fi_msg_atomic* msg, uint64_t flags) noexcept {
    return msg == nullptr ? -FI_EINVAL : submit(request(AtomicKind::kUpdate, *msg, flags));
  }

  ssize_t inject_atomic(const void* buf, size_t count, fi_addr_t dest, uint64_t addr, uint64_t key,
                        fi_datatype datatype, fi_op op) noexcept {
    const OneIoc operand(buf, count);
    const OneRange range(addr, operand, key);
    AtomicRequest made = request(AtomicKind::kUpdate, datatype, op, operand, range, dest, nullptr);
    made.flags = (made.flags & ~FI_COMPLETION) | FI_INJECT;
    made.silent = true;
    return submit(made);
  }

  ssize_t fetch_atomic(const void* buf, size_t count, void*, void* result, void* result_desc, fi_addr_t dest,
                       uint64_t addr, uint64_t key, fi_datatype datatype, fi_op op, void* context) noexcept {
    const OneIoc operand(buf, count);
    OneIoc results(result, count);
    return fetch_atomicv(&operand.ioc, nullptr, 1, &results.ioc, &result_desc, 1, dest, addr, key, datatype, op,
                         context);
  }

  ssize_t fetch_atomicv(const fi_ioc* iov, void**, size_t count, fi_ioc* resultv, void** result_desc,
                        size_t result_count, fi_addr_t dest, uint64_t addr, uint64_t key, fi_datatype datatype,
                        fi_op op, void* context) noexcept {
    const OneRange range(addr, list(resultv, result_count), key);
    return submit(request(AtomicKind::kFetch, datatype, op, list(iov, count), range, dest, context),
                  list(resultv, result_count), result_desc);
  }

  ssize_t fetch_atomicmsg(const fi_msg_atomic* msg, fi_ioc* resultv, void** result_desc, size_t result_count,
                          uint64_t flags) noexcept {
    if (msg == nullptr) return -FI_EINVAL;
    return submit(request(AtomicKind::kFetch, *msg, flags), list(resultv, result_count), result_desc);
  }

  ssize_t compare_atomic(const void* buf, size_t count, void*, const void* compare, void*, void* result,
                         void* result_desc, fi_addr_t dest, uint64_t addr, uint64_t key, fi_datatype datatype, fi_op op,
                         void* context) noexcept {
    const OneIoc operand(buf, count), comparand(compare, count);
    OneIoc results(result, count);
    return compare_atomicv(&operand.ioc, nullptr, 1, &comparand.ioc, nullptr, 1, &results.ioc, &result_desc, 1, dest,
                           addr, key, datatype, op, context);
  }

  ssize_t compare_atomicv(const fi_ioc* iov, void**, size_t count, const fi_ioc* comparev, void**, size_t compare_count,
                          fi_ioc* resultv, void** result_desc, size_t result_count, fi_addr_t dest, uint64_t addr,
                          uint64_t key, fi_datatype datatype, fi_op op, void* context) noexcept {
    const OneRange range(addr, list(resultv, result_count), key);
    AtomicRequest made = request(AtomicKind::kCompare, datatype, op, list(iov, count), range, dest, context);
    made.compares = list(comparev, compare_count);
    return submit(made, list(resultv, result_count), result_desc);
  }

  ssize_t compare_atomicmsg(const fi_msg_atomic* msg, const fi_ioc* comparev, void**, size_t compare_count,
                            fi_ioc* resultv, void** result_desc, size_t result_count, uint64_t flags) noexcept {
    if (msg == nullptr) return -FI_EINVAL;
    AtomicRequest made = request(AtomicKind::kCompare, *msg, flags);
    made.compares = list(comparev, compare_count);
    return submit(made, list(resultv, result_count), result_desc);
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
  using Base::Base;

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

  ssize_t submit(const AtomicRequest& request) noexcept {
    const ssize_t result = self().update(request);
    if constexpr (requires { this->make_progress(); })
      if (result == -FI_EAGAIN) [[unlikely]]
        this->make_progress();
    return result;
  }

  ssize_t submit(AtomicRequest made, std::span<const fi_ioc> results, void* const* result_desc) noexcept {
    made.results = results;
    made.result_desc = result_desc;
    return submit(made);
  }

  static std::span<const fi_ioc> list(const fi_ioc* iov, std::size_t count) noexcept {
    return {iov, iov != nullptr ? count : 0};
  }

  // The request of a call without flags, and of one with flags.
  AtomicRequest request(AtomicKind kind, fi_datatype datatype, fi_op op, std::span<const fi_ioc> operands,
                        std::span<const fi_rma_ioc> remote, fi_addr_t dest, void* context) noexcept {
    return {.kind = kind,
            .datatype = datatype,
            .operation = op,
            .operands = operands,
            .remote = remote,
            .peer = dest,
            .flags = self().default_flags(),
            .context = context};
  }
  AtomicRequest request(AtomicKind kind, const fi_msg_atomic& msg, uint64_t flags) noexcept {
    AtomicRequest made = request(kind, msg.datatype, msg.op, list(msg.msg_iov, msg.iov_count),
                                 {msg.rma_iov, msg.rma_iov_count}, msg.addr, msg.context);
    made.flags = flags;
    made.silent = (flags & kSilent) != 0;
    return made;
  }

  int answer(AtomicKind kind, fi_datatype datatype, fi_op op, size_t* count) noexcept {
    const std::size_t most = self().atomic_count(kind, datatype, op);
    if (most == 0) return -FI_EOPNOTSUPP;
    if (count != nullptr) *count = most;
    return 0;
  }

  T& self() noexcept { return static_cast<T&>(*this); }
};

}  // namespace weft
