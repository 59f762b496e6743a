// SPDX-License-Identifier: BSD-2-Clause
// The supported atomic operations: those of the device on 64-bit integers, compare-and-swap and fetch-and-add, and no
// emulated ones; fi_atomic(3), ibv_post_send(3).
//
//   update   FI_SUM                   fetch-and-add, the old value is discarded
//   fetch    FI_SUM, FI_ATOMIC_READ   fetch-and-add, of zero for a read
//   compare  FI_CSWAP                 compare-and-swap
//
// FI_ATOMIC_WRITE is not supported: a write is not atomic towards the device's atomics.
#include <algorithm>

#include "verbs/device/device.h"
#include "verbs/transfer/domain_services.h"
#include "verbs/transfer/send_work.h"
#include "verbs/transfer/transfer_endpoint.h"

namespace weft::verbs {

namespace {

uint64_t read_operand(const void* operand) noexcept {
  uint64_t value;
  std::memcpy(&value, operand, sizeof value);
  return value;
}

// The element of a list that has one, beside empty parts.
template <class Ioc>
const Ioc& element_of(std::span<const Ioc> list) noexcept {
  return *std::ranges::find_if(list, [](const Ioc& each) { return each.count != 0; });
}

}  // namespace

bool DomainServices::has_atomic(AtomicKind kind, fi_datatype datatype, fi_op operation) const noexcept {
  if (device().attr().orig_attr.atomic_cap == IBV_ATOMIC_NONE) return false;
  if (datatype != FI_INT64 && datatype != FI_UINT64) return false;
  switch (kind) {
    case AtomicKind::kUpdate:
      return operation == FI_SUM && discard().length != 0;
    case AtomicKind::kFetch:
      return operation == FI_SUM || operation == FI_ATOMIC_READ;
    case AtomicKind::kCompare:
      return operation == FI_CSWAP;
  }
  return false;
}

size_t TransferEndpoint::atomic_count(AtomicKind kind, fi_datatype datatype, fi_op operation) const noexcept {
  return domain_->has_atomic(kind, datatype, operation) ? kAtomicCount : 0;
}

ssize_t TransferEndpoint::update(const AtomicRequest& request) noexcept {
  const size_t most = atomic_count(request.kind, request.datatype, request.operation);
  if (const int wrong = check_atomic(request, most); wrong != 0) return wrong;
  const fi_rma_ioc& target = element_of(request.remote);
  if (target.addr % sizeof(uint64_t) != 0) return -FI_EINVAL;  // the device would break the connection
  if (target.key > UINT32_MAX) return -FI_EKEYREJECTED;
  ibv_sge sink = domain_->discard();
  sink.length = sizeof(uint64_t);
  if (request.kind != AtomicKind::kUpdate) {
    const fi_ioc& result = element_of(request.results);
    void* const* const desc = request.result_desc;
    sink.addr = reinterpret_cast<uintptr_t>(result.addr);
    sink.lkey = lkey_of(desc != nullptr ? desc[&result - request.results.data()] : nullptr);
  }
  constexpr uint32_t kUpdates = FI_ATOMIC | FI_WRITE, kFetches = FI_ATOMIC | FI_READ;
  SendWork work{.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
                .kind = request.kind == AtomicKind::kUpdate ? kUpdates : kFetches,
                .flags = request.flags & ~FI_INJECT,  // operands travel in the work request
                .sges = &sink,
                .count = 1,
                .len = sizeof(uint64_t),
                .context = request.context,
                .address = target.addr,
                .key = target.key,
                .silent = request.silent};
  if (request.operation != FI_ATOMIC_READ) work.operand = read_operand(element_of(request.operands).addr);
  if (request.kind == AtomicKind::kCompare) {
    work.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
    work.compare = read_operand(element_of(request.compares).addr);
  }
  return sends_.post(work);
}

}  // namespace weft::verbs
