// SPDX-License-Identifier: BSD-2-Clause
// Registration and the check of remote accesses; fi_mr(3).
#include "objects/memory_regions.h"

#include <rdma/fi_ext.h>

#include "objects/access_rights.h"
#include "objects/domain_base.h"

namespace weft {

namespace {

constexpr uint64_t kRegisterFlags = FI_RMA_EVENT | FI_RMA_PMEM | FI_MR_SINGLE_USE | FI_MR_WEFT_UNCACHED;

}  // namespace

int effective_mr_mode(int mr_mode, uint64_t info_mode) noexcept {
  if (mr_mode != FI_MR_UNSPEC && mr_mode != FI_MR_BASIC && mr_mode != FI_MR_SCALABLE) return mr_mode;
  const int local = (info_mode & FI_LOCAL_MR) != 0 ? FI_MR_LOCAL : 0;
  return mr_mode == FI_MR_BASIC ? FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | local : local;
}

MemoryRegion::MemoryRegion(MemoryRegions& registry, const iovec& memory, uint64_t access, uint64_t flags,
                           void* context) noexcept
    : registry_(registry), memory_(memory), access_(access) {
  const int mode = registry.options_.mr_mode;
  const bool counted = (mode & FI_MR_RMA_EVENT) != 0 && (flags & FI_RMA_EVENT) != 0;
  enabled_ = !counted && (mode & FI_MR_ENDPOINT) == 0;
  abi.fid = {FI_CLASS_MR, context, ops_of<MemoryRegion>};
  abi.mem_desc = this;
  abi.key = FI_KEY_NOTAVAIL;
}

int MemoryRegion::close() {
  registry_->remove(*this);
  delete this;
  return 0;
}

int MemoryRegion::bind(::fid* object, uint64_t flags) {
  if (object == nullptr) return -FI_EINVAL;
  if (object->fclass == FI_CLASS_EP || object->fclass == FI_CLASS_SEP || object->fclass == FI_CLASS_RX_CTX) {
    if (flags != 0) return -FI_EBADFLAGS;
    Lock lock(registry_->mutex_);
    endpoint_ = object;
    return 0;
  }
  CounterCore* counter =
      registry_->options_.counter_from != nullptr ? registry_->options_.counter_from(object) : nullptr;
  if (counter == nullptr) return -FI_EINVAL;
  if (flags == 0 || (flags & ~uint64_t{FI_REMOTE_WRITE | FI_REMOTE_READ}) != 0) return -FI_EBADFLAGS;
  Lock lock(registry_->mutex_);
  if ((flags & FI_REMOTE_WRITE) != 0) on_write_ = Ref(*counter);
  if ((flags & FI_REMOTE_READ) != 0) on_read_ = Ref(*counter);
  registry_->has_counters_.store(true);
  return 0;
}

int MemoryRegion::control(int command, void* arg) {
  switch (command) {
    case FI_ENABLE: {
      Lock lock(registry_->mutex_);
      if ((registry_->options_.mr_mode & FI_MR_ENDPOINT) != 0 && endpoint_ == nullptr) return -FI_EOPBADSTATE;
      enabled_ = true;
      return 0;
    }
    case FI_REFRESH:
      return 0;  // no page is cached
    case FI_GET_RAW_MR: {
      const bool virtual_addresses = (registry_->options_.mr_mode & FI_MR_VIRT_ADDR) != 0;
      return report_raw_key(arg, abi.key, virtual_addresses ? reinterpret_cast<uintptr_t>(memory_.iov_base) : 0);
    }
    default:
      return -FI_ENOSYS;
  }
}

MemoryRegions::MemoryRegions(Options options)
    : options_(std::move(options)),
      max_key_(options_.key_size >= sizeof(uint64_t) ? ~uint64_t{0} : (uint64_t{1} << (8 * options_.key_size)) - 1),
      mutex_(options_.locking) {}

MemoryRegions::~MemoryRegions() = default;

// Members of `attr` after `context` are read only where is_device_memory() finds an API that has them.
int MemoryRegions::regattr(const fi_mr_attr* attr, uint64_t flags, fid_mr** mr) {
  if (attr == nullptr || mr == nullptr || attr->mr_iov == nullptr) return -FI_EINVAL;
  if ((flags & (FI_HMEM_DEVICE_ONLY | FI_MR_DMABUF)) != 0) return -FI_ENOSYS;
  if (is_device_memory(*attr, flags, options_.api_version)) return -FI_ENOSYS;
  if ((flags & ~(kRegisterFlags | FI_HMEM_HOST_ALLOC)) != 0) return -FI_EBADFLAGS;
  if (attr->iov_count != 1 || attr->offset != 0) return -FI_EINVAL;  // mr_iov_limit is 1
  const iovec& memory = attr->mr_iov[0];
  if ((attr->access & ~kAccessRights) != 0 || wraps_around(memory)) return -FI_EINVAL;

  std::unique_ptr<MemoryRegion> region(new MemoryRegion(*this, memory, attr->access, flags, attr->context));
  Ref<EventQueueCore> events;
  EventQueueCore::Reserved event;
  {
    Lock lock(mutex_);
    events = events_;
    if (events && (event = EventQueueCore::reserve_result()) == nullptr) return -FI_ENOMEM;
    const auto key = choose_key_locked(attr->requested_key);
    if (!key) return key.error().code();
    regions_.emplace(*key, region.get());
    region->abi.key = *key;
    region->generation_ = generation();
  }
  MemoryRegion* made = region.release();
  *mr = &made->abi;
  if (events) {
    const fi_eq_entry entry{&made->abi.fid, attr->context, 0};
    events->post(std::move(event), FI_MR_COMPLETE, entry);
  }
  return 0;
}

Result<uint64_t> MemoryRegions::choose_key_locked(uint64_t requested) noexcept {
  if ((options_.mr_mode & FI_MR_PROV_KEY) == 0) {
    if (requested > max_key_) return failure(FI_EKEYREJECTED);
    if (regions_.contains(requested)) return failure(FI_ENOKEY);
    return requested;
  }
  if (regions_.size() >= max_key_) return failure(FI_ENOKEY);
  for (;;) {
    const uint64_t key = hash_(next_key_++) & max_key_;
    if (key != FI_KEY_NOTAVAIL && !regions_.contains(key)) return key;
  }
}

void MemoryRegions::remove(MemoryRegion& region) noexcept {
  {
    Lock lock(mutex_);
    regions_.erase(region.abi.key);
    generation_.fetch_add(1, std::memory_order_release);
  }
  if (options_.quiesce) options_.quiesce();
}

void MemoryRegions::report_to(EventQueueCore* queue) noexcept {
  Lock lock(mutex_);
  events_ = queue != nullptr ? Ref(*queue) : Ref<EventQueueCore>();
}

Result<void*> MemoryRegions::check(uint64_t key, uint64_t addr, size_t len, uint64_t access,
                                   std::uint64_t since) noexcept {
  Lock lock(mutex_);
  const auto found = regions_.find(key);
  if (found == regions_.end()) return failure(FI_ENOKEY);
  const MemoryRegion& region = *found->second;
  if (!region.enabled_ || region.generation_ > since) return failure(FI_ENOKEY);
  if ((region.access_ & access) != access) return failure(FI_EACCES);
  const auto base = reinterpret_cast<uintptr_t>(region.memory_.iov_base);
  // Wraps for addresses below the base, and is then larger than any length.
  const uint64_t offset = (options_.mr_mode & FI_MR_VIRT_ADDR) != 0 ? addr - base : addr;
  if (offset > region.memory_.iov_len || len > region.memory_.iov_len - offset) return failure(FI_EACCES);
  return reinterpret_cast<void*>(base + offset);  // a region of all memory starts at NULL
}

void MemoryRegions::count_access(uint64_t key, uint64_t access) noexcept {
  if (!has_counters()) return;
  Lock lock(mutex_);
  const auto found = regions_.find(key);
  if (found == regions_.end()) return;
  if ((access & FI_REMOTE_WRITE) != 0 && found->second->on_write_) found->second->on_write_->add(1);
  if ((access & FI_REMOTE_READ) != 0 && found->second->on_read_) found->second->on_read_->add(1);
}

}  // namespace weft
