// SPDX-License-Identifier: BSD-2-Clause
// A domain's part of the cache; see domain_cache.h.
#include "verbs/cache/domain_cache.h"

#include <rdma/providers/fi_log.h>

#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "objects/parameter_rows.h"
#include "verbs/cache/imported_monitor.h"
#include "verbs/cache/userfault_monitor.h"
#include "verbs/device/logging.h"

namespace weft::verbs {
namespace {

constexpr std::string_view kUserfaultfd = "userfaultfd", kImported = "imported", kDisabled = "disabled";

struct CacheParameters {
  std::string monitor{kDisabled};
  std::size_t most = CacheLimits().count;
  std::size_t most_bytes = CacheLimits().bytes;
};

constexpr ParameterRow<CacheParameters> kRows[] = {
    {"mr_cache_monitor", &CacheParameters::monitor,
     "Source of the reports that end cached registrations: userfaultfd (the kernel), imported (the program's monitor, "
     "else the kernel), disabled (no cache)",
     0, 0, kDisabled.data()},
    {"mr_cache_max_count", &CacheParameters::most, "Most registrations in the cache, with those in use; 0: no cache", 0,
     kMaxBytes},
    {"mr_cache_max_size", &CacheParameters::most_bytes, "Most bytes of memory in cached registrations", 0, kMaxBytes,
     "no limit"},
};

// nullptr: `why`.
std::unique_ptr<MemoryMonitor> choose_monitor(std::string_view requested, const char*& why) noexcept {
  if (requested != kUserfaultfd)
    if (std::unique_ptr<MemoryMonitor> monitor = ImportedMonitor::open(); monitor != nullptr) return monitor;
  return UserfaultMonitor::open(why);
}

// The cache of all domains: the kernel takes one watcher of a page. It ends with the last domain.
std::shared_ptr<RegistrationCache> shared_cache(std::string_view requested, CacheLimits limits) noexcept {
  static std::mutex mutex;
  static std::weak_ptr<RegistrationCache> shared;
  static bool logged = false;
  std::lock_guard lock(mutex);
  if (std::shared_ptr<RegistrationCache> cache = shared.lock()) return cache;
  const char* why = nullptr;
  std::unique_ptr<MemoryMonitor> monitor = choose_monitor(requested, why);
  std::shared_ptr<RegistrationCache> cache;
  if (monitor != nullptr) {
    why = "no thread or no memory is left";
    cache = RegistrationCache::open(std::move(monitor), limits);
  }
  if (cache == nullptr && !std::exchange(logged, true))
    FI_WARN(&provider(), FI_LOG_MR, "registrations are not cached: %s\n", why);
  shared = cache;
  return cache;
}

}  // namespace

void DomainCache::define_parameters() {
  weft::define_parameters(nullptr, kRows);
}

std::unique_ptr<DomainCache> DomainCache::open(ibv_pd& pd) noexcept try {
  const CacheParameters parameters = read_parameters(nullptr, kRows);
  const std::string& monitor = parameters.monitor;
  if (monitor.empty() || monitor == kDisabled || parameters.most == 0) return nullptr;
  if (monitor != kImported && monitor != kUserfaultfd) {
    FI_INFO(&provider(), FI_LOG_MR, "FI_MR_CACHE_MONITOR=%s is not supported: registrations are not cached\n",
            monitor.c_str());
    return nullptr;
  }
  std::shared_ptr<RegistrationCache> cache = shared_cache(monitor, {parameters.most, parameters.most_bytes});
  return std::unique_ptr<DomainCache>(cache != nullptr ? new (std::nothrow) DomainCache(pd, std::move(cache))
                                                       : nullptr);
} catch (const std::bad_alloc&) {
  return nullptr;
}

ibv_mr* DomainCache::add(const MemoryRange& range, int access) noexcept {
  return ibv_reg_mr(&pd_, reinterpret_cast<void*>(range.start), range.size(), access);
}

}  // namespace weft::verbs
