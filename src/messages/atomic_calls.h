// SPDX-License-Identifier: BSD-2-Clause
// The atomic calls of endpoints, fi_atomic(3): each builds an AtomicRequest for the endpoint.
#pragma once

#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>

#include <cstdint>
#include <span>

#include "messages/atomic_request.h"
#include "objects/endpoint_alias.h"

namespace weft::messages {

// T: the endpoint, whose base Base is behind this one, with
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
    return self().update({.kind = AtomicKind::kUpdate,
                          .datatype = datatype,
                          .operation = op,
                          .operands = list(iov, count),
                          .remote = OneRange(addr, list(iov, count), key),
                          .peer = dest,
                          .flags = self().default_flags(),
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
                          .flags = self().default_flags() & ~FI_COMPLETION,
                          .silent = true});
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
    return self().update({.kind = AtomicKind::kFetch,
                          .datatype = datatype,
                          .operation = op,
                          .operands = list(iov, count),
                          .results = list(resultv, result_count),
                          .result_desc = result_desc,
                          .remote = OneRange(addr, list(resultv, result_count), key),
                          .peer = dest,
                          .flags = self().default_flags(),
                          .context = context});
  }

  ssize_t fetch_atomicmsg(const fi_msg_atomic* msg, fi_ioc* resultv, void** result_desc, size_t result_count,
                          uint64_t flags) noexcept {
    if (msg == nullptr) return -FI_EINVAL;
    AtomicRequest request = atomic_request(AtomicKind::kFetch, *msg, flags);
    request.results = list(resultv, result_count);
    request.result_desc = result_desc;
    return self().update(request);
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
    return self().update({.kind = AtomicKind::kCompare,
                          .datatype = datatype,
                          .operation = op,
                          .operands = list(iov, count),
                          .compares = list(comparev, compare_count),
                          .results = list(resultv, result_count),
                          .result_desc = result_desc,
                          .remote = OneRange(addr, list(resultv, result_count), key),
                          .peer = dest,
                          .flags = self().default_flags(),
                          .context = context});
  }

  ssize_t compare_atomicmsg(const fi_msg_atomic* msg, const fi_ioc* comparev, void**, size_t compare_count,
                            fi_ioc* resultv, void** result_desc, size_t result_count, uint64_t flags) noexcept {
    if (msg == nullptr) return -FI_EINVAL;
    AtomicRequest request = atomic_request(AtomicKind::kCompare, *msg, flags);
    request.compares = list(comparev, compare_count);
    request.results = list(resultv, result_count);
    request.result_desc = result_desc;
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
            .context = msg.context,
            .silent = (flags & kSilent) != 0};
  }

  int answer(AtomicKind kind, fi_datatype datatype, fi_op op, size_t* count) noexcept {
    const std::size_t most = self().atomic_count(kind, datatype, op);
    if (most == 0) return -FI_EOPNOTSUPP;
    if (count != nullptr) *count = most;
    return 0;
  }

  T& self() noexcept { return static_cast<T&>(*this); }
};

}  // namespace weft::messages
