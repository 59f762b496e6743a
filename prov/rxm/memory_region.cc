// SPDX-License-Identifier: BSD-2-Clause
// Memory that peers access; see memory_region.h.
#include "rxm/memory_region.h"

#include <utility>

#include "abi/ops.h"
#include "rxm/domain.h"

namespace weft::rxm {

int MemoryRegion::open(Domain& domain, const fi_mr_attr* attr, uint64_t flags, fid_mr** mr) {
  if (attr == nullptr || mr == nullptr) return -FI_EINVAL;
  fid_mr* region = nullptr;
  if (const int error = fi_mr_regattr(domain.lower().domain.get(), attr, flags, &region); error != 0) return error;
  Lower<fid_mr> lower(region);
  // The processor executes atomic operations.
  const bool on_device = DeviceMemory::describes(*attr, flags, domain.api_version());
  const uint64_t access = attr->access & (FI_REMOTE_READ | FI_REMOTE_WRITE), key = fi_mr_key(lower.get());
  Lower<fid_mr> local, atomics;
  if (access != 0 && attr->iov_count == 1 && attr->offset == 0 && !on_device && key != FI_KEY_NOTAVAIL) {
    const fi_mr_attr same = describe_region(attr->mr_iov, 1, access, 0, key, nullptr);
    if (domain.regions().regattr(&same, 0, &region) == 0) atomics.reset(region);
    if (domain.local() != nullptr && attr->mr_iov->iov_len != 0) {
      if (const int error = fi_mr_regattr(domain.local()->domain.get(), &same, 0, &region); error != 0) return error;
      local.reset(region);
    }
  }
  auto made =
      std::unique_ptr<MemoryRegion>(new MemoryRegion(domain, std::move(lower), std::move(local), std::move(atomics)));
  if (on_device && domain.devices() != nullptr) {
    auto place = domain.devices()->add(domain.lower().domain.get(), *attr, flags);
    if (!place) return place.error().code();
    made->device_ = *place;
  }
  *mr = &made.release()->abi;
  (*mr)->fid.context = attr->context;
  return 0;
}

MemoryRegion::MemoryRegion(Domain& domain, Lower<fid_mr> lower, Lower<fid_mr> local, Lower<fid_mr> atomics) noexcept
    : domain_(domain),
      domain_ref_(domain),
      lower_(std::move(lower)),
      local_(std::move(local)),
      atomics_(std::move(atomics)) {
  abi.fid = {FI_CLASS_MR, nullptr, ops_of<MemoryRegion>};
  abi.mem_desc = fi_mr_desc(lower_.get());
  abi.key = fi_mr_key(lower_.get());
}

int MemoryRegion::close() {
  if (device_) domain_.devices()->remove(*std::exchange(device_, std::nullopt));
  local_.reset();
  atomics_.reset();  // first: the lower provider may give the key to another region at once
  if (const int error = fi_close(&lower_->fid); error != 0) return error;
  lower_.release();
  if (!counts_.empty()) {
    Lock lock(domain_.engine().mutex());
    counts_.clear();
  }
  delete this;
  return 0;
}

// The lower provider counts reads and writes, our region counts atomic operations.
int MemoryRegion::bind_counter(Counter& counter, uint64_t flags) {
  if (!domain_.counts_accesses()) return -FI_ENOSYS;
  if (&counter.engine() != &domain_.engine()) return -FI_EDOMAIN;
  if (flags == 0 || (flags & ~uint64_t{FI_REMOTE_READ | FI_REMOTE_WRITE}) != 0) return -FI_EBADFLAGS;
  auto count = RemoteCount::open(domain_.lower(), counter);
  if (!count) return count.error().code();
  if (const int error = fi_mr_bind(lower_.get(), (*count)->all(), flags); error != 0) return error;
  if (atomics_ != nullptr)
    if (const int error = fi_mr_bind(atomics_.get(), &counter.abi.fid, flags); error != 0) return error;
  domain_.engine().expect_groups();
  Lock lock(domain_.engine().mutex());
  counts_.push_back(std::move(*count));
  domain_.engine().add(*counts_.back());
  return 0;
}

int MemoryRegion::bind(::fid* object, uint64_t flags) {
  if (auto* counter = object != nullptr ? Counter::from(object) : nullptr) return bind_counter(*counter, flags);
  return fi_mr_bind(lower_.get(), object, flags);
}

int MemoryRegion::control(int command, void* argument) {
  const int result = fi_control(&lower_->fid, command, argument);
  abi.key = fi_mr_key(lower_.get());
  return result;
}

}  // namespace weft::rxm
