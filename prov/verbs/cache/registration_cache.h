// SPDX-License-Identifier: BSD-2-Clause
// Registrations that stay for the next use of the same memory, until that memory changes; fi_mr(3), decision 0018.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "base/list.h"
#include "verbs/cache/memory_monitor.h"

namespace weft::verbs {

// Makes registrations in one protection domain, and outlives them. Thread-safe.
class Registrar {
 public:
  // nullptr and errno.
  virtual ibv_mr* add(const MemoryRange& range, int access) noexcept = 0;
  virtual void remove(ibv_mr& mr) noexcept = 0;

 protected:
  ~Registrar() = default;
};

struct CachedRegion;
using CachedRegions = std::multimap<std::uintptr_t, CachedRegion*>;  // by the first address

// Owner: the cache. Its mutex guards all but `mr`.
struct CachedRegion : ListHook<CachedRegion> {
  Registrar* registrar = nullptr;
  MemoryRange range;
  MemoryRange pages;
  int access = 0;
  ibv_mr* mr = nullptr;  // nullptr: being made
  std::size_t uses = 0;
  bool ready = false;             // may be found
  CachedRegions::node_type node;  // while it is not in the table
  CachedRegions::iterator place;  // while it is
  bool in_table = false;
};

struct CacheLimits {
  std::size_t count = 1024;  // registrations, those in use included; 0: none is cached
  std::size_t bytes = SIZE_MAX;
};

// Thread-safe. A thread that reads reports, and one that ends registrations of changed memory, must never wait for each
// other or for a thread that unmaps memory. Hence: with the mutex held there is no allocation, no call into libibverbs
// and no log line; the reading thread takes the mutex and nothing else.
class RegistrationCache final : public ChangeListener {
 public:
  // nullptr when memory runs out or no thread can be started. The last owner in a child of fork leaves it as it is: its
  // threads are the parent's.
  static std::shared_ptr<RegistrationCache> open(std::unique_ptr<MemoryMonitor> monitor, CacheLimits limits) noexcept;
  // All registrars have been dropped.
  ~RegistrationCache();
  RegistrationCache(const RegistrationCache&) = delete;
  RegistrationCache& operator=(const RegistrationCache&) = delete;

  // A registration of exactly this access that holds the range, found or made; release() it. nullptr: this memory is
  // not cached, or it cannot be registered: the caller's own attempt then returns the error.
  CachedRegion* acquire(Registrar& registrar, const MemoryRange& range, int access) noexcept;
  void release(CachedRegion& region) noexcept;
  // Ends the registrations that are not in use; for a limit of locked memory. Returns whether there were any.
  bool trim() noexcept;
  // Ends all registrations of a protection domain; none is in use.
  void drop(Registrar& registrar) noexcept;
  std::size_t count() noexcept;

 private:
  using Regions = List<CachedRegion>;
  struct Discarded {
    MemoryRange range;
    std::chrono::steady_clock::time_point until;
  };

  RegistrationCache(std::unique_ptr<MemoryMonitor> monitor, CacheLimits limits) noexcept
      : monitor_(std::move(monitor)), limits_(limits) {}

  void on_reports() noexcept override;
  void on_change(const MemoryRange& range, MemoryChange change) noexcept override;
  bool settle() noexcept;
  CachedRegion* find(const Registrar& registrar, const MemoryRange& range, int access) noexcept;
  CachedRegion* make(std::unique_ptr<CachedRegion> region) noexcept;
  bool admit(CachedRegion& region, Regions& evicted) noexcept;
  void take_out(CachedRegion& region) noexcept;
  void unwatch_rest(const MemoryRange& pages) noexcept;
  bool is_discarded(const MemoryRange& pages) noexcept;
  void retire_changed() noexcept;
  static void end(Regions& regions) noexcept;

  const std::unique_ptr<MemoryMonitor> monitor_;
  const CacheLimits limits_;
  std::mutex mutex_;  // guards the rest
  CachedRegions table_;
  std::size_t bytes_ = 0;
  Regions unused_;   // in the table; the longest unused first
  Regions changed_;  // no longer in the table, not in use: for the thread
  std::array<Discarded, 16> discarded_{};
  std::size_t next_discarded_ = 0;
  bool broken_ = false;  // reports are missing
  bool logged_ = false;  // ... and this was logged
  bool stopping_ = false;
  bool ending_ = false;  // the thread ends registrations
  std::condition_variable work_, idle_;
  std::thread thread_;
};

}  // namespace weft::verbs
