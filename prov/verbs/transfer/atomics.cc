// SPDX-License-Identifier: BSD-2-Clause
// Atomic operations of the device; see atomics.h.
#include "verbs/transfer/atomics.h"

#include "verbs/device/device.h"
#include "verbs/transfer/domain_services.h"
#include "verbs/transfer/send_work.h"
#include "verbs/transfer/transfer_endpoint.h"

namespace weft::verbs {

bool has_atomic(const DomainServices& domain, AtomicKind kind, fi_datatype datatype, fi_op operation) noexcept {
  if (domain.device().attr().orig_attr.atomic_cap == IBV_ATOMIC_NONE) return false;
  if (datatype != FI_INT64 && datatype != FI_UINT64) return false;
  switch (kind) {
    case AtomicKind::kUpdate:
      return operation == FI_SUM && domain.discard().length != 0;
    case AtomicKind::kFetch:
      return operation == FI_SUM || operation == FI_ATOMIC_READ;
    case AtomicKind::kCompare:
      return operation == FI_CSWAP;
  }
  return false;
}

struct AtomicTarget {
  fi_datatype datatype;
  fi_op op;
  uint64_t address;
  uint64_t key;
  size_t count;  // elements, local and remote
};

// The parameters of an atomic call of any kind.
struct AtomicWork {
  AtomicKind kind;
  AtomicTarget target;
  uint64_t flags;
  void* context = nullptr;
  const void* operand = nullptr;
  const void* compare = nullptr;
  void* result = nullptr;
  const void* result_desc = nullptr;
  bool silent = false;
};

namespace {

uint64_t read_operand(const void* operand) noexcept {
  uint64_t value;
  std::memcpy(&value, operand, sizeof value);
  return value;
}

// The only element of a vector; null: none, or several.
const fi_ioc* only(const fi_ioc* iov, size_t count) noexcept {
  const fi_ioc* found = nullptr;
  for (size_t i = 0; iov != nullptr && i < count; ++i) {
    if (iov[i].count == 0) continue;
    if (found != nullptr) return nullptr;
    found = &iov[i];
  }
  return found;
}
void* desc_of(const fi_ioc* element, const fi_ioc* iov, void** desc) noexcept {
  return desc != nullptr && element != nullptr ? desc[element - iov] : nullptr;
}

bool has_one_target(const fi_msg_atomic* msg) noexcept {
  return msg != nullptr && msg->rma_iov != nullptr && msg->rma_iov_count == 1;
}
AtomicTarget target_of(const fi_msg_atomic& msg) noexcept {
  return {msg.datatype, msg.op, msg.rma_iov->addr, msg.rma_iov->key, msg.rma_iov->count};
}

}  // namespace

ssize_t TransferEndpoint::post_atomic(const AtomicWork& work) noexcept {
  const AtomicTarget& target = work.target;
  if (!has_atomic(domain_, work.kind, target.datatype, target.op)) return -FI_EOPNOTSUPP;
  const bool reads = target.op == FI_ATOMIC_READ;
  if (target.count != kAtomicCount || (work.operand == nullptr && !reads)) return -FI_EINVAL;
  if (work.kind != AtomicKind::kUpdate && work.result == nullptr) return -FI_EINVAL;
  if (work.kind == AtomicKind::kCompare && work.compare == nullptr) return -FI_EINVAL;
  if (target.address % sizeof(uint64_t) != 0) return -FI_EINVAL;  // the device would break the connection
  if (target.key > UINT32_MAX) return -FI_EKEYREJECTED;
  if ((work.flags & FI_REMOTE_CQ_DATA) != 0) return -FI_EBADFLAGS;  // atomics carry no immediate data
  ibv_sge sink = domain_.discard();
  sink.length = sizeof(uint64_t);
  if (work.kind != AtomicKind::kUpdate) {
    sink.addr = reinterpret_cast<uintptr_t>(work.result);
    sink.lkey = lkey_of(work.result_desc);
  }
  constexpr uint32_t kUpdates = FI_ATOMIC | FI_WRITE;
  constexpr uint32_t kFetches = FI_ATOMIC | FI_READ;
  return sends_.post(
      {.opcode = work.kind == AtomicKind::kCompare ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD,
       .kind = work.kind == AtomicKind::kUpdate ? kUpdates : kFetches,
       .flags = work.flags & ~FI_INJECT,  // operands travel in the work request
       .sges = &sink,
       .count = 1,
       .len = sizeof(uint64_t),
       .context = work.context,
       .address = target.address,
       .key = target.key,
       .operand = reads ? 0 : read_operand(work.operand),
       .compare = work.compare != nullptr ? read_operand(work.compare) : 0,
       .silent = work.silent});
}

// ---- fi_atomic ----

ssize_t TransferEndpoint::atomic(const void* buf, size_t count, void*, fi_addr_t, uint64_t addr, uint64_t key,
                                 fi_datatype datatype, fi_op op, void* context) noexcept {
  return post_atomic({.kind = AtomicKind::kUpdate,
                      .target = {datatype, op, addr, key, count},
                      .flags = sends_.flags(),
                      .context = context,
                      .operand = buf});
}

ssize_t TransferEndpoint::atomicv(const fi_ioc* iov, void**, size_t count, fi_addr_t, uint64_t addr, uint64_t key,
                                  fi_datatype datatype, fi_op op, void* context) noexcept {
  const fi_ioc* const element = only(iov, count);
  if (element == nullptr) return -FI_EINVAL;
  return atomic(element->addr, element->count, nullptr, FI_ADDR_UNSPEC, addr, key, datatype, op, context);
}

ssize_t TransferEndpoint::atomicmsg(const fi_msg_atomic* msg, uint64_t flags) noexcept {
  if (!has_one_target(msg)) return -FI_EINVAL;
  const fi_ioc* const element = only(msg->msg_iov, msg->iov_count);
  if (element == nullptr || element->count != msg->rma_iov->count) return -FI_EINVAL;
  return post_atomic({.kind = AtomicKind::kUpdate,
                      .target = target_of(*msg),
                      .flags = flags,
                      .context = msg->context,
                      .operand = element->addr});
}

ssize_t TransferEndpoint::inject_atomic(const void* buf, size_t count, fi_addr_t, uint64_t addr, uint64_t key,
                                        fi_datatype datatype, fi_op op) noexcept {
  return post_atomic({.kind = AtomicKind::kUpdate,
                      .target = {datatype, op, addr, key, count},
                      .flags = sends_.flags(),
                      .operand = buf,
                      .silent = true});
}

// ---- fi_fetch_atomic ----

ssize_t TransferEndpoint::fetch_atomic(const void* buf, size_t count, void*, void* result, void* result_desc, fi_addr_t,
                                       uint64_t addr, uint64_t key, fi_datatype datatype, fi_op op,
                                       void* context) noexcept {
  return post_atomic({.kind = AtomicKind::kFetch,
                      .target = {datatype, op, addr, key, count},
                      .flags = sends_.flags(),
                      .context = context,
                      .operand = buf,
                      .result = result,
                      .result_desc = result_desc});
}

ssize_t TransferEndpoint::fetch_atomicv(const fi_ioc* iov, void**, size_t count, fi_ioc* resultv, void** result_desc,
                                        size_t result_count, fi_addr_t, uint64_t addr, uint64_t key,
                                        fi_datatype datatype, fi_op op, void* context) noexcept {
  const fi_ioc* const element = only(iov, count);
  const fi_ioc* const result = only(resultv, result_count);
  if (result == nullptr || (element == nullptr && op != FI_ATOMIC_READ)) return -FI_EINVAL;
  return fetch_atomic(element != nullptr ? element->addr : nullptr, result->count, nullptr, result->addr,
                      desc_of(result, resultv, result_desc), FI_ADDR_UNSPEC, addr, key, datatype, op, context);
}

ssize_t TransferEndpoint::fetch_atomicmsg(const fi_msg_atomic* msg, fi_ioc* resultv, void** result_desc,
                                          size_t result_count, uint64_t flags) noexcept {
  if (!has_one_target(msg)) return -FI_EINVAL;
  const fi_ioc* const element = only(msg->msg_iov, msg->iov_count);
  const fi_ioc* const result = only(resultv, result_count);
  if (result == nullptr || (element == nullptr && msg->op != FI_ATOMIC_READ)) return -FI_EINVAL;
  return post_atomic({.kind = AtomicKind::kFetch,
                      .target = target_of(*msg),
                      .flags = flags,
                      .context = msg->context,
                      .operand = element != nullptr ? element->addr : nullptr,
                      .result = result->addr,
                      .result_desc = desc_of(result, resultv, result_desc)});
}

// ---- fi_compare_atomic ----

ssize_t TransferEndpoint::compare_atomic(const void* buf, size_t count, void*, const void* compare, void*, void* result,
                                         void* result_desc, fi_addr_t, uint64_t addr, uint64_t key,
                                         fi_datatype datatype, fi_op op, void* context) noexcept {
  return post_atomic({.kind = AtomicKind::kCompare,
                      .target = {datatype, op, addr, key, count},
                      .flags = sends_.flags(),
                      .context = context,
                      .operand = buf,
                      .compare = compare,
                      .result = result,
                      .result_desc = result_desc});
}

ssize_t TransferEndpoint::compare_atomicv(const fi_ioc* iov, void**, size_t count, const fi_ioc* comparev, void**,
                                          size_t compare_count, fi_ioc* resultv, void** result_desc,
                                          size_t result_count, fi_addr_t, uint64_t addr, uint64_t key,
                                          fi_datatype datatype, fi_op op, void* context) noexcept {
  const fi_ioc* const element = only(iov, count);
  const fi_ioc* const compare = only(comparev, compare_count);
  const fi_ioc* const result = only(resultv, result_count);
  if (element == nullptr || compare == nullptr || result == nullptr) return -FI_EINVAL;
  return compare_atomic(element->addr, element->count, nullptr, compare->addr, nullptr, result->addr,
                        desc_of(result, resultv, result_desc), FI_ADDR_UNSPEC, addr, key, datatype, op, context);
}

ssize_t TransferEndpoint::compare_atomicmsg(const fi_msg_atomic* msg, const fi_ioc* comparev, void**,
                                            size_t compare_count, fi_ioc* resultv, void** result_desc,
                                            size_t result_count, uint64_t flags) noexcept {
  if (!has_one_target(msg)) return -FI_EINVAL;
  const fi_ioc* const element = only(msg->msg_iov, msg->iov_count);
  const fi_ioc* const compare = only(comparev, compare_count);
  const fi_ioc* const result = only(resultv, result_count);
  if (element == nullptr || compare == nullptr || result == nullptr) return -FI_EINVAL;
  if (element->count != msg->rma_iov->count) return -FI_EINVAL;
  return post_atomic({.kind = AtomicKind::kCompare,
                      .target = target_of(*msg),
                      .flags = flags,
                      .context = msg->context,
                      .operand = element->addr,
                      .compare = compare->addr,
                      .result = result->addr,
                      .result_desc = desc_of(result, resultv, result_desc)});
}

// ---- Queries ----

namespace {

int answer(bool supported, size_t* count) noexcept {
  if (!supported) return -FI_EOPNOTSUPP;
  if (count != nullptr) *count = kAtomicCount;
  return 0;
}

}  // namespace

int TransferEndpoint::atomicvalid(fi_datatype datatype, fi_op op, size_t* count) noexcept {
  return answer(has_atomic(domain_, AtomicKind::kUpdate, datatype, op), count);
}
int TransferEndpoint::fetch_atomicvalid(fi_datatype datatype, fi_op op, size_t* count) noexcept {
  return answer(has_atomic(domain_, AtomicKind::kFetch, datatype, op), count);
}
int TransferEndpoint::compare_atomicvalid(fi_datatype datatype, fi_op op, size_t* count) noexcept {
  return answer(has_atomic(domain_, AtomicKind::kCompare, datatype, op), count);
}

}  // namespace weft::verbs
