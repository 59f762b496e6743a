// SPDX-License-Identifier: BSD-2-Clause
// The atomic calls of a reliable-datagram endpoint, fi_atomic(3): each names its operation and hands it on.
#include <rdma/fi_errno.h>

#include "rxm/domain.h"
#include "rxm/endpoint.h"

namespace weft::rxm {
namespace {

using rdm::AtomicKind;

struct OneIoc {
  fi_ioc ioc;
  OneIoc(const void* buf, std::size_t count) noexcept : ioc{const_cast<void*>(buf), count} {}
  operator std::span<const fi_ioc>() const noexcept { return {&ioc, 1}; }
};

// One range of the peer's memory, as long as what lies here.
struct OneRange {
  fi_rma_ioc ioc;
  OneRange(std::uint64_t addr, std::span<const fi_ioc> local, std::uint64_t key) noexcept : ioc{addr, 0, key} {
    if (local.data() != nullptr)
      for (const fi_ioc& each : local) ioc.count += each.count;
  }
  operator std::span<const fi_rma_ioc>() const noexcept { return {&ioc, 1}; }
};

std::span<const fi_ioc> list(const fi_ioc* iov, std::size_t count) noexcept {
  return {iov, iov != nullptr ? count : 0};
}

AtomicRequest request_of(AtomicKind kind, const fi_msg_atomic& msg, uint64_t flags) noexcept {
  return {.kind = kind,
          .datatype = msg.datatype,
          .operation = msg.op,
          .operands = list(msg.msg_iov, msg.iov_count),
          .remote = {msg.rma_iov, msg.rma_iov_count},
          .peer = msg.addr,
          .flags = flags,
          .context = msg.context};
}

}  // namespace

ssize_t Endpoint::atomic(const void* buf, size_t count, void*, fi_addr_t dest, uint64_t addr, uint64_t key,
                         fi_datatype datatype, fi_op op, void* context) noexcept {
  const OneIoc operand(buf, count);
  return atomicv(&operand.ioc, nullptr, 1, dest, addr, key, datatype, op, context);
}

ssize_t Endpoint::atomicv(const fi_ioc* iov, void**, size_t count, fi_addr_t dest, uint64_t addr, uint64_t key,
                          fi_datatype datatype, fi_op op, void* context) noexcept {
  return update({.kind = AtomicKind::kUpdate,
                 .datatype = datatype,
                 .operation = op,
                 .operands = list(iov, count),
                 .remote = OneRange(addr, list(iov, count), key),
                 .peer = dest,
                 .flags = transmit_flags_,
                 .context = context});
}

ssize_t Endpoint::atomicmsg(const fi_msg_atomic* msg, uint64_t flags) noexcept {
  return msg == nullptr ? -FI_EINVAL : update(request_of(AtomicKind::kUpdate, *msg, flags));
}

ssize_t Endpoint::inject_atomic(const void* buf, size_t count, fi_addr_t dest, uint64_t addr, uint64_t key,
                                fi_datatype datatype, fi_op op) noexcept {
  const OneIoc operand(buf, count);
  return update({.kind = AtomicKind::kUpdate,
                 .datatype = datatype,
                 .operation = op,
                 .operands = operand,
                 .remote = OneRange(addr, operand, key),
                 .peer = dest,
                 .flags = transmit_flags_ & ~FI_COMPLETION,
                 .silent = true});
}

ssize_t Endpoint::fetch_atomic(const void* buf, size_t count, void*, void* result, void*, fi_addr_t dest, uint64_t addr,
                               uint64_t key, fi_datatype datatype, fi_op op, void* context) noexcept {
  const OneIoc operand(buf, count);
  OneIoc results(result, count);
  return fetch_atomicv(&operand.ioc, nullptr, 1, &results.ioc, nullptr, 1, dest, addr, key, datatype, op, context);
}

ssize_t Endpoint::fetch_atomicv(const fi_ioc* iov, void**, size_t count, fi_ioc* resultv, void**, size_t result_count,
                                fi_addr_t dest, uint64_t addr, uint64_t key, fi_datatype datatype, fi_op op,
                                void* context) noexcept {
  return update({.kind = AtomicKind::kFetch,
                 .datatype = datatype,
                 .operation = op,
                 .operands = list(iov, count),
                 .results = list(resultv, result_count),
                 .remote = OneRange(addr, list(resultv, result_count), key),
                 .peer = dest,
                 .flags = transmit_flags_,
                 .context = context});
}

ssize_t Endpoint::fetch_atomicmsg(const fi_msg_atomic* msg, fi_ioc* resultv, void**, size_t result_count,
                                  uint64_t flags) noexcept {
  if (msg == nullptr) return -FI_EINVAL;
  AtomicRequest request = request_of(AtomicKind::kFetch, *msg, flags);
  request.results = list(resultv, result_count);
  return update(request);
}

ssize_t Endpoint::compare_atomic(const void* buf, size_t count, void*, const void* compare, void*, void* result, void*,
                                 fi_addr_t dest, uint64_t addr, uint64_t key, fi_datatype datatype, fi_op op,
                                 void* context) noexcept {
  const OneIoc operand(buf, count), comparand(compare, count);
  OneIoc results(result, count);
  return compare_atomicv(&operand.ioc, nullptr, 1, &comparand.ioc, nullptr, 1, &results.ioc, nullptr, 1, dest, addr,
                         key, datatype, op, context);
}

ssize_t Endpoint::compare_atomicv(const fi_ioc* iov, void**, size_t count, const fi_ioc* comparev, void**,
                                  size_t compare_count, fi_ioc* resultv, void**, size_t result_count, fi_addr_t dest,
                                  uint64_t addr, uint64_t key, fi_datatype datatype, fi_op op, void* context) noexcept {
  return update({.kind = AtomicKind::kCompare,
                 .datatype = datatype,
                 .operation = op,
                 .operands = list(iov, count),
                 .compares = list(comparev, compare_count),
                 .results = list(resultv, result_count),
                 .remote = OneRange(addr, list(resultv, result_count), key),
                 .peer = dest,
                 .flags = transmit_flags_,
                 .context = context});
}

ssize_t Endpoint::compare_atomicmsg(const fi_msg_atomic* msg, const fi_ioc* comparev, void**, size_t compare_count,
                                    fi_ioc* resultv, void**, size_t result_count, uint64_t flags) noexcept {
  if (msg == nullptr) return -FI_EINVAL;
  AtomicRequest request = request_of(AtomicKind::kCompare, *msg, flags);
  request.compares = list(comparev, compare_count);
  request.results = list(resultv, result_count);
  return update(request);
}

// Questions.

namespace {

int answer(const Domain& domain, AtomicKind kind, fi_datatype datatype, fi_op op, size_t* count) noexcept {
  const std::size_t most = domain.atomic_count(kind, datatype, op);
  if (most == 0) return -FI_EOPNOTSUPP;
  if (count != nullptr) *count = most;
  return 0;
}

}  // namespace

int Endpoint::atomicvalid(fi_datatype datatype, fi_op op, size_t* count) noexcept {
  return answer(domain_, AtomicKind::kUpdate, datatype, op, count);
}
int Endpoint::fetch_atomicvalid(fi_datatype datatype, fi_op op, size_t* count) noexcept {
  return answer(domain_, AtomicKind::kFetch, datatype, op, count);
}
int Endpoint::compare_atomicvalid(fi_datatype datatype, fi_op op, size_t* count) noexcept {
  return answer(domain_, AtomicKind::kCompare, datatype, op, count);
}

}  // namespace weft::rxm
