// SPDX-License-Identifier: BSD-2-Clause
// Registered memory of accelerators; see device_memory.h.
#include "rxm/device_memory.h"

#include <algorithm>
#include <new>
#include <utility>

#include "objects/domain_base.h"

namespace weft::rxm {
namespace {

// A reference to the application's registration, which a message closes like a registration of its own.
class DeviceUse final : public Object<fid_mr> {
 public:
  explicit DeviceUse(std::shared_ptr<const DeviceRegion> region) noexcept : region_(std::move(region)) {
    abi.fid = {FI_CLASS_MR, nullptr, ops_of<DeviceUse>};
    abi.mem_desc = fi_mr_desc(region_->lower.get());
    abi.key = fi_mr_key(region_->lower.get());
  }
  int close() {
    delete this;
    return 0;
  }

 private:
  const std::shared_ptr<const DeviceRegion> region_;
};

}  // namespace

bool DeviceMemory::describes(const fi_mr_attr& attr, uint64_t flags, uint32_t api_version) noexcept {
  return (flags & (FI_MR_DMABUF | FI_HMEM_DEVICE_ONLY)) != 0 || is_device_memory(attr, flags, api_version);
}

Result<DeviceMemory::Place> DeviceMemory::add(fid_domain* lower, const fi_mr_attr& attr, uint64_t flags) {
  auto region = std::make_shared<DeviceRegion>();
  const bool dmabuf = (flags & FI_MR_DMABUF) != 0;
  region->start = dmabuf ? reinterpret_cast<std::uintptr_t>(attr.dmabuf->base_addr) + attr.dmabuf->offset
                         : reinterpret_cast<std::uintptr_t>(attr.mr_iov->iov_base);
  region->end = region->start + (dmabuf ? attr.dmabuf->len : attr.mr_iov->iov_len);
  fi_mr_attr same = attr;
  // A receiver reads messages from their sender's memory, or its peer writes them there.
  if ((same.access & FI_SEND) != 0) same.access |= FI_WRITE | FI_REMOTE_READ;
  if ((same.access & FI_RECV) != 0) same.access |= FI_READ | FI_REMOTE_WRITE;
  fid_mr* made = nullptr;
  if (const int error = fi_mr_regattr(lower, &same, flags, &made); error != 0) return failure(Status(error));
  region->lower.reset(made);
  std::lock_guard lock(mutex_);
  longest_ = std::max<std::size_t>(longest_, region->end - region->start);
  const std::uintptr_t start = region->start;
  return regions_.emplace(start, std::move(region));
}

void DeviceMemory::remove(Place place) noexcept {
  std::unique_lock lock(mutex_);
  const auto region = std::move(place->second);
  regions_.erase(place);
  lock.unlock();
}

// A region that contains the whole range, otherwise one that overlaps it; nullptr: none.
const std::shared_ptr<const DeviceRegion>* DeviceMemory::find_locked(std::uintptr_t start,
                                                                     std::uintptr_t end) const noexcept {
  const std::shared_ptr<const DeviceRegion>* part = nullptr;
  for (auto at = regions_.lower_bound(end); at != regions_.begin();) {
    const DeviceRegion& region = *(--at)->second;
    if (region.start <= start && end <= region.end) return &at->second;
    if (region.end > start && region.start < end) part = &at->second;
    if (start > region.start && start - region.start > longest_) break;
  }
  return part;
}

bool DeviceMemory::includes(std::span<const iovec> buffers) noexcept {
  std::lock_guard lock(mutex_);
  return std::ranges::any_of(buffers, [this](const iovec& buffer) {
    const auto start = reinterpret_cast<std::uintptr_t>(buffer.iov_base);
    return buffer.iov_len != 0 && find_locked(start, start + buffer.iov_len) != nullptr;
  });
}

Lower<fid_mr> DeviceMemory::use(const void* buf, std::size_t len) noexcept {
  const auto start = reinterpret_cast<std::uintptr_t>(buf);
  std::lock_guard lock(mutex_);
  const auto* found = find_locked(start, start + len);
  if (found == nullptr) return nullptr;
  auto* use = new (std::nothrow) DeviceUse(*found);
  return Lower<fid_mr>(use != nullptr ? &use->abi : nullptr);
}

}  // namespace weft::rxm
