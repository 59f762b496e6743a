// SPDX-License-Identifier: BSD-2-Clause
// Registrations that stay for the next use; see registration_cache.h.
#include "verbs/cache/registration_cache.h"

#include <rdma/providers/fi_log.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <system_error>
#include <utility>

#include "base/library_thread.h"
#include "verbs/device/logging.h"

namespace weft::verbs {
namespace {

using Clock = std::chrono::steady_clock;

// The kernel discards the pages after the report was read; a registration made in between has the old pages. So the
// memory is not cached for a while.
constexpr std::chrono::seconds kDiscardTime{1};
// Reports follow their change at once. If none arrives in this time, the kernel has lost it.
constexpr std::chrono::seconds kPatience{10};
// Registrations that begin in front of a range and are examined.
constexpr int kSteps = 8;

MemoryRange pages_of(const MemoryRange& range) noexcept {
  static const auto size = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  return {range.start / size * size, (range.end + size - 1) / size * size};
}

}  // namespace

std::shared_ptr<RegistrationCache> RegistrationCache::open(std::unique_ptr<MemoryMonitor> monitor,
                                                           CacheLimits limits) noexcept try {
  const auto leave = [](RegistrationCache* cache) {
    if (cache->monitor_->is_usable()) delete cache;
  };
  std::shared_ptr<RegistrationCache> cache(new RegistrationCache(std::move(monitor), limits), leave);
  cache->thread_ = library_thread([opened = cache.get()]() noexcept { opened->retire_changed(); });
  return cache->monitor_->start(*cache) ? cache : nullptr;
} catch (const std::system_error&) {
  return nullptr;
} catch (const std::bad_alloc&) {
  return nullptr;
}

RegistrationCache::~RegistrationCache() {
  monitor_->stop();
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    work_.notify_all();
  }
  thread_.join();
}

// ---- With the mutex held ----

void RegistrationCache::on_change(const MemoryRange& range, MemoryChange change) noexcept {
  if (change == MemoryChange::kDiscarded) {
    discarded_[next_discarded_ % discarded_.size()] = {range, Clock::now() + kDiscardTime};
    ++next_discarded_;
  }
  for (auto at = table_.begin(); at != table_.end() && at->first < range.end;) {
    CachedRegion& region = *(at++)->second;
    if (!region.pages.overlaps(range)) continue;
    take_out(region);
    // Unmapped memory is not watched any more, and its successor is not ours.
    const MemoryRange gone = change == MemoryChange::kUnmapped ? range : MemoryRange{};
    if (gone.size() == 0) {
      unwatch_rest(region.pages);
    } else {
      if (region.pages.start < gone.start) unwatch_rest({region.pages.start, gone.start});
      if (gone.end < region.pages.end) unwatch_rest({gone.end, region.pages.end});
    }
    if (region.uses == 0) changed_.push_back(region);
  }
  if (!changed_.empty()) work_.notify_one();
}

// Before the table is read: a thread may get the address of memory that another one has unmapped and not yet reported.
bool RegistrationCache::settle() noexcept {
  if (broken_ || !monitor_->is_usable()) return false;
  const auto start = Clock::now();
  while (!monitor_->is_settled()) {
    if (monitor_->read(*this)) continue;
    std::this_thread::yield();
    if (Clock::now() - start < kPatience) continue;
    broken_ = true;
    return false;
  }
  return true;
}

CachedRegion* RegistrationCache::find(const Registrar& registrar, const MemoryRange& range, int access) noexcept {
  auto at = table_.upper_bound(range.start);
  for (int step = 0; step < kSteps && at != table_.begin(); ++step) {
    CachedRegion& region = *(--at)->second;
    if (region.ready && region.registrar == &registrar && region.access == access && region.range.contains(range))
      return &region;
  }
  return nullptr;
}

// Takes the region from the table and the list; its pages may still be watched.
void RegistrationCache::take_out(CachedRegion& region) noexcept {
  region.node = table_.extract(region.place);
  region.in_table = false;
  region.ready = false;
  region.unlink();
  bytes_ -= region.range.size();
}

// Ends the watch of those pages that no other region of the table has.
void RegistrationCache::unwatch_rest(const MemoryRange& pages) noexcept {
  std::uintptr_t at = pages.start;
  for (const auto& [start, region] : table_) {
    if (region->pages.start >= pages.end) break;
    if (region->pages.end <= at) continue;
    if (region->pages.start > at) monitor_->unwatch({at, region->pages.start});
    at = region->pages.end;
  }
  if (at < pages.end) monitor_->unwatch({at, pages.end});
}

bool RegistrationCache::is_discarded(const MemoryRange& pages) noexcept {
  const auto now = Clock::now();
  // More of them than there are places: the oldest was overwritten, so any memory may have changed.
  const Discarded& next = discarded_[next_discarded_ % discarded_.size()];
  if (next.until > now) return true;
  return std::ranges::any_of(discarded_,
                             [&](const Discarded& one) { return one.until > now && one.range.overlaps(pages); });
}

// Makes room and enters the region, which holds its place while it is made: a change of its memory finds it.
bool RegistrationCache::admit(CachedRegion& region, Regions& evicted) noexcept {
  if (!settle() || is_discarded(region.pages)) return false;
  const std::size_t size = region.range.size();
  if (limits_.count == 0 || size > limits_.bytes) return false;
  while (table_.size() >= limits_.count || bytes_ > limits_.bytes - size) {
    if (unused_.empty()) return false;
    CachedRegion& oldest = unused_.front();
    take_out(oldest);
    unwatch_rest(oldest.pages);
    evicted.push_back(oldest);
  }
  if (!monitor_->watch(region.pages)) {
    unwatch_rest(region.pages);
    return false;
  }
  region.place = table_.insert(std::move(region.node));
  region.in_table = true;
  bytes_ += size;
  return true;
}

// ---- Without it ----

void RegistrationCache::end(Regions& regions) noexcept {
  while (!regions.empty()) {
    const std::unique_ptr<CachedRegion> region(&regions.pop_front());
    if (region->mr != nullptr) region->registrar->remove(*region->mr);
  }
}

CachedRegion* RegistrationCache::acquire(Registrar& registrar, const MemoryRange& range, int access) noexcept try {
  if (!monitor_->is_usable()) return nullptr;
  {
    std::unique_lock lock(mutex_);
    if (!settle()) {
      const bool is_new = broken_ && !std::exchange(logged_, true);
      lock.unlock();
      if (is_new)
        FI_WARN(&provider(), FI_LOG_MR,
                "registrations are not cached any more: a change of memory was not reported in time\n");
      return nullptr;
    }
    CachedRegion* found = find(registrar, range, access);
    if (found != nullptr && !monitor_->is_unchanged(found->pages)) on_change(found->pages, MemoryChange::kAnnounced);
    if (found != nullptr && found->in_table && monitor_->is_settled()) {
      if (found->uses++ == 0) found->unlink();
      return found;
    }
  }
  auto region = std::make_unique<CachedRegion>();
  region->registrar = &registrar;
  // Peers reach exactly the range that they are given; for this end's own use whole pages are registered anyway.
  constexpr int kRemote = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  region->pages = pages_of(range);
  region->range = (access & kRemote) != 0 ? range : region->pages;
  region->access = access;
  region->uses = 1;
  CachedRegions one;
  one.emplace(region->range.start, region.get());
  region->node = one.extract(one.begin());
  return make(std::move(region));
} catch (const std::bad_alloc&) {
  return nullptr;
}

CachedRegion* RegistrationCache::make(std::unique_ptr<CachedRegion> region) noexcept {
  Regions evicted;
  bool admitted = false;
  {
    std::lock_guard lock(mutex_);
    admitted = admit(*region, evicted);
  }
  end(evicted);
  if (!admitted) return nullptr;
  const bool covered = monitor_->covers(region->pages);
  if (covered) region->mr = region->registrar->add(region->range, region->access);
  {
    // A change in the meantime has taken the region out: then this use is its only one.
    std::lock_guard lock(mutex_);
    const bool settled = settle();
    if (region->in_table && settled && region->mr != nullptr) {
      region->ready = true;
    } else if (region->in_table) {
      take_out(*region);
      unwatch_rest(region->pages);
    }
  }
  return region->mr != nullptr ? region.release() : nullptr;
}

void RegistrationCache::release(CachedRegion& region) noexcept {
  if (!monitor_->is_usable()) return;  // a child of fork: the registration is its parent's
  Regions ended;
  {
    std::lock_guard lock(mutex_);
    if (--region.uses != 0) return;
    (region.in_table ? unused_ : ended).push_back(region);
  }
  end(ended);
}

bool RegistrationCache::trim() noexcept {
  Regions ended;
  if (!monitor_->is_usable()) return false;
  {
    std::lock_guard lock(mutex_);
    while (!unused_.empty()) {
      CachedRegion& region = unused_.front();
      take_out(region);
      unwatch_rest(region.pages);
      ended.push_back(region);
    }
  }
  const bool any = !ended.empty();
  end(ended);
  return any;
}

void RegistrationCache::drop(Registrar& registrar) noexcept {
  if (!monitor_->is_usable()) return;
  Regions ended;
  {
    std::unique_lock lock(mutex_);
    unused_.for_each([&](CachedRegion& region) {
      if (region.registrar != &registrar) return;
      take_out(region);
      unwatch_rest(region.pages);
      ended.push_back(region);
    });
    changed_.for_each([&](CachedRegion& region) {
      if (region.registrar != &registrar) return;
      region.unlink();
      ended.push_back(region);
    });
    idle_.wait(lock, [&] { return !ending_; });
  }
  end(ended);
}

void RegistrationCache::on_reports() noexcept {
  std::lock_guard lock(mutex_);
  while (monitor_->read(*this)) {
  }
}

std::size_t RegistrationCache::count() noexcept {
  std::lock_guard lock(mutex_);
  return table_.size();
}

// The thread. Ending a registration may free memory, which the thread that reads reports must not do.
void RegistrationCache::retire_changed() noexcept {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [&] { return stopping_ || !changed_.empty(); });
    if (changed_.empty()) return;
    Regions ended;
    ended.splice_back(changed_);
    ending_ = true;
    lock.unlock();
    end(ended);
    lock.lock();
    ending_ = false;
    idle_.notify_all();
  }
}

}  // namespace weft::verbs
