// SPDX-License-Identifier: BSD-2-Clause
// A domain's part of the cache; see domain_cache.h.
#include "verbs/cache/domain_cache.h"

#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

#include <mutex>
#include <new>
#include <string_view>
#include <utility>

#include "verbs/cache/imported_monitor.h"
#include "verbs/cache/userfault_monitor.h"
#include "verbs/device/logging.h"

namespace weft::verbs {
namespace {

constexpr char kMonitor[] = "mr_cache_monitor";
constexpr char kMaxCount[] = "mr_cache_max_count";
constexpr char kMaxSize[] = "mr_cache_max_size";
constexpr std::string_view kUserfaultfd = "userfaultfd";

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
  fi_param_define(nullptr, kMonitor, FI_PARAM_STRING,
                  "Source of the reports that end cached registrations: userfaultfd (the kernel), imported (the "
                  "program's monitor, else the kernel), disabled (no cache) (default: disabled)");
  fi_param_define(nullptr, kMaxCount, FI_PARAM_SIZE_T,
                  "Most registrations in the cache, with those in use; 0: no cache (default: 1024)");
  fi_param_define(nullptr, kMaxSize, FI_PARAM_SIZE_T,
                  "Most bytes of memory in cached registrations (default: no limit)");
}

std::unique_ptr<DomainCache> DomainCache::open(ibv_pd& pd) noexcept {
  char* text = nullptr;
  fi_param_get_str(nullptr, kMonitor, &text);
  const std::string_view monitor(text != nullptr ? text : "");
  CacheLimits limits;
  fi_param_get_size_t(nullptr, kMaxCount, &limits.count);
  fi_param_get_size_t(nullptr, kMaxSize, &limits.bytes);
  if (monitor.empty() || monitor == "disabled" || limits.count == 0) return nullptr;
  if (monitor != "imported" && monitor != kUserfaultfd) {
    FI_INFO(&provider(), FI_LOG_MR, "FI_MR_CACHE_MONITOR=%s is not supported: registrations are not cached\n", text);
    return nullptr;
  }
  std::shared_ptr<RegistrationCache> cache = shared_cache(monitor, limits);
  return std::unique_ptr<DomainCache>(cache != nullptr ? new (std::nothrow) DomainCache(pd, std::move(cache))
                                                       : nullptr);
}

ibv_mr* DomainCache::add(const MemoryRange& range, int access) noexcept {
  return ibv_reg_mr(&pd_, reinterpret_cast<void*>(range.start), range.size(), access);
}

}  // namespace weft::verbs
