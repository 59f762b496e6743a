// SPDX-License-Identifier: BSD-2-Clause
// Registration of memory; see memory_region.h.
#include "verbs/transfer/memory_region.h"

#include <rdma/fi_endpoint.h>
#include <rdma/fi_ext.h>
#include <sys/resource.h>

#include <cerrno>
#include <new>

#include "abi/ops.h"
#include "objects/access_rights.h"
#include "objects/domain_base.h"
#include "verbs/device/device.h"
#include "verbs/device/logging.h"
#include "verbs/transfer/domain_services.h"

namespace weft::verbs {
namespace {

constexpr uint64_t kOutside = FI_MR_WEFT_UNCACHED | FI_MR_SINGLE_USE | FI_RMA_EVENT | FI_MR_DMABUF;
constexpr int kPeerRights = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
constexpr uint64_t kFlags = FI_RMA_EVENT | FI_MR_SINGLE_USE | FI_HMEM_HOST_ALLOC | FI_MR_DMABUF | FI_MR_WEFT_UNCACHED;

// Advice for a failed registration; null: the error is clear.
const char* advice_for(int error) noexcept {
  switch (error) {
    case ENOMEM:
      return "the limit of locked memory is reached, or the device's of registrations; see ulimit -l";
    case EFAULT:
      return "the range is not mapped, or it is read-only and was registered for writing; memory of an accelerator is "
             "registered as a DMA buffer (FI_MR_DMABUF)";
    case EACCES:
    case EPERM:
      return "this memory may not be registered for writing";
    case EOPNOTSUPP:
      return "the device or the kernel cannot register this kind of memory";
    default:
      return nullptr;
  }
}

Status report_failure(int error, const void* base, size_t len) noexcept {
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  const char* advice = advice_for(error);
  FI_WARN(&provider(), FI_LOG_MR, "cannot register %zu bytes at %p: %s%s%s (RLIMIT_MEMLOCK is %lld bytes)\n", len, base,
          fi_strerror(error), advice != nullptr ? ": " : "", advice != nullptr ? advice : "",
          limit.rlim_cur == RLIM_INFINITY ? -1LL : static_cast<long long>(limit.rlim_cur));
  return Status::from_errno(error);
}

// Devices have no empty registrations: a byte of our own that neither this process nor a peer may access.
Result<MemoryRegionHandle> register_nothing(DomainServices& domain) noexcept {
  const ibv_sge& own = domain.spill();
  if (own.length == 0) return failure(FI_ENOMEM);
  MemoryRegionHandle mr(ibv_reg_mr(domain.pd(), reinterpret_cast<void*>(own.addr), 1, 0));
  if (mr == nullptr) return failure(report_failure(errno, nullptr, 0));
  return mr;
}

Result<MemoryRegionHandle> register_host(DomainServices& domain, const iovec& memory, int access) noexcept {
  if (wraps_around(memory)) return failure(FI_EINVAL);
  if (memory.iov_len == 0) return register_nothing(domain);
  MemoryRegionHandle mr(ibv_reg_mr(domain.pd(), memory.iov_base, memory.iov_len, access));
  // Cached registrations count against the same limits.
  if (mr == nullptr && errno == ENOMEM && domain.cache() != nullptr && domain.cache()->trim())
    mr.reset(ibv_reg_mr(domain.pd(), memory.iov_base, memory.iov_len, access));
  if (mr == nullptr) return failure(report_failure(errno, memory.iov_base, memory.iov_len));
  return mr;
}

// nullptr: this memory is not cached, or cannot be registered.
CachedRegion* find_cached(DomainServices& domain, const iovec& memory, int access, uint64_t flags,
                          Reuse reuse) noexcept {
  const auto base = reinterpret_cast<uintptr_t>(memory.iov_base);
  constexpr uintptr_t kLargestPage = uintptr_t{1} << 16;  // whole pages are registered
  if (!domain.caches() || (flags & kOutside) != 0) return nullptr;
  if ((access & kPeerRights) != 0 && reuse != Reuse::kAllRights) return nullptr;
  if (memory.iov_len == 0 || base > UINTPTR_MAX - kLargestPage || memory.iov_len > UINTPTR_MAX - kLargestPage - base)
    return nullptr;
  return domain.cache() == nullptr ? nullptr : domain.cache()->acquire({base, base + memory.iov_len}, access);
}

Result<MemoryRegionHandle> register_dmabuf(DomainServices& domain, const fi_mr_dmabuf& buffer, int access) noexcept {
  if (buffer.len == 0 || buffer.fd < 0) return failure(FI_EINVAL);
  const uint64_t address = reinterpret_cast<uintptr_t>(buffer.base_addr) + buffer.offset;
  MemoryRegionHandle mr(ibv_reg_dmabuf_mr(domain.pd(), buffer.offset, buffer.len, address, buffer.fd, access));
  if (mr == nullptr) return failure(report_failure(errno, buffer.base_addr, buffer.len));
  return mr;
}

AccessRules rules_of(const Device& device, uint64_t caps) noexcept {
  const bool wanted = caps == 0 || (caps & FI_ATOMIC) != 0;
  return {.atomics = wanted && device.attr().orig_attr.atomic_cap != IBV_ATOMIC_NONE, .iwarp = device.is_iwarp()};
}

}  // namespace

int access_of(uint64_t access, const AccessRules& rules) noexcept {
  int rights = 0;
  if ((access & (FI_RECV | FI_READ | FI_REMOTE_WRITE | FI_COLLECTIVE)) != 0) rights |= IBV_ACCESS_LOCAL_WRITE;
  if ((access & FI_REMOTE_READ) != 0) rights |= IBV_ACCESS_REMOTE_READ;
  if ((access & FI_REMOTE_WRITE) != 0) rights |= IBV_ACCESS_REMOTE_WRITE;
  if ((access & FI_REMOTE_WRITE) != 0 && rules.atomics) rights |= IBV_ACCESS_REMOTE_ATOMIC;
  if ((access & FI_READ) != 0 && rules.iwarp) rights |= IBV_ACCESS_REMOTE_WRITE;
  return rights;
}

// Without FI_MR_DMABUF, members of `attr` after `context` are not read: programs of API < 1.5 do not have them.
int MemoryRegion::open(DomainServices& domain, uint64_t caps, const fi_mr_attr* attr, uint64_t flags, Reuse reuse,
                       fid_mr** out) {
  if (attr == nullptr || out == nullptr || attr->mr_iov == nullptr) return -FI_EINVAL;
  if ((flags & FI_HMEM_DEVICE_ONLY) != 0 && (flags & FI_MR_DMABUF) == 0 && (caps & FI_HMEM) == 0) return -FI_ENOSYS;
  if ((flags & ~(kFlags | FI_HMEM_DEVICE_ONLY)) != 0) return -FI_EBADFLAGS;
  if (attr->iov_count != 1 || attr->offset != 0) return -FI_EINVAL;  // mr_iov_limit is 1
  if ((attr->access & ~kAccessRights) != 0) return -FI_EINVAL;

  const int access = access_of(attr->access, rules_of(domain.device(), caps));
  const bool dmabuf = (flags & FI_MR_DMABUF) != 0;
  if (CachedRegion* cached = find_cached(domain, attr->mr_iov[0], access, flags, reuse); cached != nullptr) {
    const auto base = reinterpret_cast<uintptr_t>(attr->mr_iov[0].iov_base);
    auto* region = new (std::nothrow) MemoryRegion(domain, nullptr, cached, base, attr->context);
    if (region == nullptr) {
      domain.cache()->release(*cached);
      return -FI_ENOMEM;
    }
    *out = &region->abi;
    return 0;
  }
  auto mr = dmabuf ? register_dmabuf(domain, *attr->dmabuf, access) : register_host(domain, attr->mr_iov[0], access);
  if (!mr) return mr.error().code();
  const uint64_t base = dmabuf ? reinterpret_cast<uintptr_t>(attr->dmabuf->base_addr) + attr->dmabuf->offset
                               : reinterpret_cast<uintptr_t>(attr->mr_iov[0].iov_base);
  auto* region = new MemoryRegion(domain, std::move(*mr), nullptr, base, attr->context);
  *out = &region->abi;
  return 0;
}

MemoryRegion::MemoryRegion(DomainServices& domain, MemoryRegionHandle mr, CachedRegion* cached, uint64_t base,
                           void* context) noexcept
    : domain_(domain), mr_(std::move(mr)), cached_(cached), base_(base) {
  const ibv_mr& used = cached_ != nullptr ? *cached_->mr : *mr_;
  abi.fid = {FI_CLASS_MR, context, ops_of<MemoryRegion>};
  abi.mem_desc = reinterpret_cast<void*>(static_cast<uintptr_t>(used.lkey));
  abi.key = used.rkey;
}

int MemoryRegion::close() {
  if (cached_ != nullptr) domain_->cache()->release(*cached_);
  delete this;
  return 0;
}

// Counters are refused: the device does not report a peer's accesses. Binding to an endpoint has no effect: regions
// belong to domains (no FI_MR_ENDPOINT).
int MemoryRegion::bind(::fid* object, uint64_t flags) {
  if (object == nullptr) return -FI_EINVAL;
  if (object->fclass != FI_CLASS_EP && object->fclass != FI_CLASS_RX_CTX) return -FI_EOPNOTSUPP;
  return flags == 0 ? 0 : -FI_EBADFLAGS;
}

int MemoryRegion::control(int command, void* argument) {
  switch (command) {
    case FI_ENABLE:
    case FI_REFRESH:  // the pages are pinned and cannot have changed
      return 0;
    case FI_GET_RAW_MR:
      return report_raw_key(argument, static_cast<uint32_t>(abi.key), base_);
    default:
      return -FI_ENOSYS;
  }
}

}  // namespace weft::verbs
