// SPDX-License-Identifier: BSD-2-Clause
// A domain's part of the process's cache of registrations; FI_MR_CACHE_MONITOR, fi_mr(3).
#pragma once

#include <infiniband/verbs.h>

#include <memory>

#include "verbs/cache/registration_cache.h"

namespace weft::verbs {

// Owner: the domain, whose protection domain outlives it. No registration is in use at its end. Thread-safe.
class DomainCache final : public Registrar {
 public:
  // Defines FI_MR_CACHE_MONITOR, _MAX_COUNT and _MAX_SIZE.
  static void define_parameters();
  // nullptr: registrations are not cached; one line of the log has the reason, unless the user requested it.
  static std::unique_ptr<DomainCache> open(ibv_pd& pd) noexcept;
  ~DomainCache() { cache_->drop(*this); }

  // See RegistrationCache.
  CachedRegion* acquire(const MemoryRange& range, int access) noexcept { return cache_->acquire(*this, range, access); }
  void release(CachedRegion& region) noexcept { cache_->release(region); }
  bool trim() noexcept { return cache_->trim(); }

  ibv_mr* add(const MemoryRange& range, int access) noexcept override;
  void remove(ibv_mr& mr) noexcept override { ibv_dereg_mr(&mr); }

 private:
  DomainCache(ibv_pd& pd, std::shared_ptr<RegistrationCache> cache) noexcept : pd_(pd), cache_(std::move(cache)) {}

  ibv_pd& pd_;
  const std::shared_ptr<RegistrationCache> cache_;
};

}  // namespace weft::verbs
