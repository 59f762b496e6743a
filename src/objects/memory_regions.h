// SPDX-License-Identifier: BSD-2-Clause
// Registered memory of a software provider's domain: keys, access rights, bounds; fi_mr(3) governs. No memory is
// pinned; a peer's access is checked against the registrations.
#pragma once

#include <rdma/fi_domain.h>

#include <atomic>
#include <functional>
#include <unordered_map>

#include "abi/ops.h"
#include "base/keyed_hash.h"
#include "base/mutex.h"
#include "base/ref.h"
#include "base/status.h"
#include "objects/counter.h"
#include "objects/event_queue.h"

namespace weft {

class MemoryRegions;

// FI_MR_BASIC and FI_MR_SCALABLE of api < 1.5 (and the FI_LOCAL_MR mode bit) as the mr_mode bits that mean the same.
int effective_mr_mode(int mr_mode, uint64_t info_mode) noexcept;

// One registration. Owner: its C handle.
class MemoryRegion final : public Object<fid_mr> {
 public:
  // Slots of fi_ops. `bind` takes a counter (FI_REMOTE_WRITE, FI_REMOTE_READ) or, in FI_MR_ENDPOINT mode, an endpoint.
  int close();
  int bind(::fid* object, uint64_t flags);
  int control(int command, void* arg);  // FI_ENABLE, FI_REFRESH, FI_GET_RAW_MR

 private:
  friend class MemoryRegions;
  MemoryRegion(MemoryRegions& registry, const iovec& memory, uint64_t access, uint64_t flags, void* context) noexcept;

  const Ref<MemoryRegions> registry_;
  const iovec memory_;
  const uint64_t access_;
  // Under the registry's lock:
  bool enabled_;
  std::uint64_t generation_ = 0;  // the registry's at the registration
  ::fid* endpoint_ = nullptr;
  Ref<CounterCore> on_write_;
  Ref<CounterCore> on_read_;
};

// The regions of one domain, which owns this object: the domain's close answers -FI_EBUSY while in_use(). Thread-safe.
class MemoryRegions : public RefCounted {
 public:
  struct Options {
    int mr_mode = 0;      // effective_mr_mode() of the domain
    size_t key_size = 8;  // bytes a key may have on the wire
    uint32_t api_version = 0;
    // Turns a handle passed to fi_mr_bind into a counter; null if it is not a counter of this provider.
    CounterCore* (*counter_from)(const ::fid*) = nullptr;
    // False: all calls are serialised, unless lock() is enabled.
    bool locking = true;
    // Returns after every copy that relied on check() has ended; fi_close(mr) calls it after the key was removed. A
    // provider that checks and copies under one lock takes and releases that lock here.
    std::function<void()> quiesce;
  };
  explicit MemoryRegions(Options options);
  ~MemoryRegions();
  Mutex& lock() noexcept { return mutex_; }

  // fi_mr_regattr, to which the domain's other slots lead. Errors: -FI_EINVAL, -FI_ENOKEY (key in use),
  // -FI_EKEYREJECTED (key too large), -FI_EBADFLAGS, -FI_ENOSYS (device memory).
  int regattr(const fi_mr_attr* attr, uint64_t flags, fid_mr** mr);

  // fi_domain_bind with FI_REG_MR: registrations also post FI_MR_COMPLETE there.
  void report_to(EventQueueCore* queue) noexcept;

  // Translates a peer's access of `len` bytes at `addr` of region `key`. `access` is FI_REMOTE_READ or FI_REMOTE_WRITE.
  // -FI_ENOKEY: unknown key or not enabled, -FI_EACCES: right or range missing. The pointer is valid until quiesce()
  // may run. Regions that were registered after the generation `since` do not count.
  Result<void*> check(uint64_t key, uint64_t addr, size_t len, uint64_t access, std::uint64_t since = kLatest) noexcept;
  // An access has finished: counters bound to the region count it. A closed region counts nothing.
  void count_access(uint64_t key, uint64_t access) noexcept;
  // A region was bound to a counter at some time; otherwise count_access has no effect.
  bool has_counters() const noexcept { return has_counters_.load(std::memory_order_relaxed); }

  // Changes whenever a region is closed. A provider that keeps a pointer from check() between two critical sections
  // reads it before the check, and compares it later: when it has changed, the pointer is valid if check() with that
  // generation succeeds again, because a closed region's key may be in use for another region.
  std::uint64_t generation() const noexcept { return generation_.load(std::memory_order_acquire); }
  static constexpr std::uint64_t kLatest = ~std::uint64_t{0};

 private:
  friend class MemoryRegion;
  Result<uint64_t> choose_key_locked(uint64_t requested) noexcept;
  void remove(MemoryRegion& region) noexcept;

  const Options options_;
  const uint64_t max_key_;
  const KeyedHash hash_;  // provider-chosen keys are hard to guess, also for a peer that has one
  std::atomic<bool> has_counters_{false};
  std::atomic<std::uint64_t> generation_{0};
  Mutex mutex_;  // guards the rest and the regions' mutable members
  uint64_t next_key_ = 0;
  std::unordered_map<uint64_t, MemoryRegion*> regions_;
  Ref<EventQueueCore> events_;
};

}  // namespace weft
