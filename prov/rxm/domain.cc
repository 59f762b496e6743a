// SPDX-License-Identifier: BSD-2-Clause
// A domain of ofi_rxm; see domain.h.
#include "rxm/domain.h"

#include <utility>

#include "rdm/atomics.h"
#include "rxm/packet.h"

namespace weft::rxm {
namespace {

constexpr uint64_t low_bytes(std::size_t count) noexcept {
  return count < sizeof(uint64_t) ? (uint64_t{1} << (8 * count)) - 1 : ~uint64_t{0};
}

}  // namespace

int Domain::open(Fabric& fabric, const fi_info* info, fid_domain** domain, void* context) {
  if (info == nullptr || domain == nullptr || info->domain_attr == nullptr || info->fabric_attr == nullptr)
    return -FI_EINVAL;
  auto lower_info = lower_of(*info, fabric.abi.api_version);
  if (!lower_info) return lower_info.error().code();
  fid_domain* lower = nullptr;
  if (const int error = fi_domain(fabric.lower(), lower_info->get(), &lower, nullptr); error != 0) return error;
  Lower<fid_domain> opened(lower);
  const uint64_t levels = std::exchange((*lower_info)->tx_attr->op_flags, 0);
  std::shared_ptr<const fi_info> own = fabric.lower_infos.copy_of(**lower_info);
  if (own == nullptr) return -FI_ENOMEM;
  return release(Opened(new Domain(fabric, *info, std::move(own), levels, std::move(opened), context)), *info, domain);
}

Domain::Domain(Fabric& fabric, const fi_info& info, std::shared_ptr<const fi_info> lower_info, uint64_t levels,
               Lower<fid_domain> lower, void* context)
    // The lower provider chooses the keys.
    : SoftwareDomain(fabric, info, context, uses_virtual_addresses(*lower_info) ? FI_MR_VIRT_ADDR : 0),
      data_mask_(low_bytes(info.domain_attr->cq_data_size)),
      lower_(fabric.lower(), std::move(lower), std::move(lower_info), levels) {
  if ((this->caps() & FI_HMEM) != 0) devices_ = std::make_unique<DeviceMemory>();
  // The processor cannot access an accelerator's memory, and one provider alone counts accesses.
  if (devices_ == nullptr && !counts_accesses()) local_ = open_local_side(*lower_.info, fabric.abi.api_version);
}

// Regions of the application keep the lower domain open.
int Domain::close() {
  if (in_use()) return -FI_EBUSY;
  if (DomainParts* const made = made_parts(); made != nullptr) made->engine.stop_service();
  if (const int error = fi_close(&lower_.domain->fid); error != 0) return error;
  lower_.domain.release();
  delete this;
  return 0;
}

int Domain::bind(::fid* object, uint64_t flags) {
  if (flags == FI_REG_MR && EventQueue::from(object) != nullptr) return -FI_ENOSYS;
  return SoftwareDomain::bind(object, flags);
}

int Domain::control(int command, void* argument) {
  const bool is_lower = argument != nullptr && (command == FI_MAP_RAW_MR || command == FI_UNMAP_KEY ||
                                                command == FI_SET_VAL || command == FI_GET_VAL);
  return is_lower ? fi_control(&lower_.domain->fid, command, argument) : SoftwareDomain::control(command, argument);
}

// Endpoints open the lower queues; a queue is opened here only to check the interrupt vector.
int Domain::cq_open(fi_cq_attr* attr, fid_cq** cq, void* context) {
  if (cq == nullptr) return -FI_EINVAL;
  if (attr != nullptr && (attr->flags & FI_AFFINITY) != 0)
    if (const auto tried = lower_.open_queue(attr->signaling_vector, nullptr); !tried) return tried.error().code();
  return SoftwareDomain::cq_open(attr, cq, context);
}

int Domain::query_atomic(fi_datatype datatype, fi_op operation, fi_atomic_attr* attr, uint64_t flags) {
  return rdm::query_atomic(atomic_limit(), datatype, operation, attr, flags);
}

// An eager packet has to hold the operation behind its header.
std::size_t Domain::atomic_limit() const noexcept {
  const std::size_t limit = fabric().parameters.eager_limit;
  return limit < sizeof(AtomicHeader) ? 0 : limit - sizeof(AtomicHeader);
}

Result<Lower<fid_mr>> Domain::register_memory(LowerSide& side, const void* buf, size_t len, uint64_t access,
                                              uint64_t flags) noexcept {
  if (devices_ != nullptr)
    if (Lower<fid_mr> device = devices_->use(buf, len); device != nullptr) return device;
  return side.register_memory(buf, len, access, flags);
}

}  // namespace weft::rxm
