// SPDX-License-Identifier: BSD-2-Clause
// Notices of the program's monitor; see imported_monitor.h.
#include "verbs/cache/imported_monitor.h"

#include <dlfcn.h>
#include <rdma/fi_ext.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <utility>

#include "verbs/cache/memory_map.h"

namespace weft::verbs {
namespace {

const void* start_of(const MemoryRange& range) noexcept {
  return reinterpret_cast<const void*>(range.start);
}

// Null: not this library's. Releases before 1.5 have no fi_open, and load this plug-in too.
const MonitorSource* find_source() noexcept {
  const auto open = reinterpret_cast<decltype(&fi_open)>(::dlsym(RTLD_DEFAULT, "fi_open"));
  fid* object = nullptr;
  if (open == nullptr || open(FI_VERSION(1, 13), "mr_cache", nullptr, 0, 0, &object, nullptr) != 0) return nullptr;
  void* table = nullptr;
  const int error = fi_open_ops(object, kMonitorSource, 0, &table, nullptr);
  fi_close(object);
  return error == 0 ? static_cast<const MonitorSource*>(table) : nullptr;
}

}  // namespace

std::unique_ptr<MemoryMonitor> ImportedMonitor::open() noexcept {
  const MonitorSource* source = find_source();
  UniqueFd noticed(source != nullptr ? net::event_open() : -1);
  if (!noticed) return nullptr;
  std::unique_ptr<ImportedMonitor> monitor(new (std::nothrow) ImportedMonitor(*source, std::move(noticed)));
  if (monitor == nullptr || source->start(on_notice, monitor.get()) != 0) return nullptr;
  monitor->started_ = true;
  return monitor;
}

ImportedMonitor::ImportedMonitor(const MonitorSource& source, UniqueFd noticed) noexcept
    : source_(source), process_(::getpid()), noticed_(std::move(noticed)) {}

void ImportedMonitor::stop() noexcept {
  thread_.stop();
  if (std::exchange(started_, false)) source_.stop();
}

// When there are too many, the last place stands for all memory.
void ImportedMonitor::on_notice(void* context, const void* addr, std::size_t len) noexcept {
  auto& self = *static_cast<ImportedMonitor*>(context);
  const auto start = reinterpret_cast<std::uintptr_t>(addr);
  std::lock_guard lock(self.mutex_);
  if (self.count_ == self.notices_.size())
    self.notices_.back() = {0, UINTPTR_MAX};
  else
    self.notices_[self.count_++] = {start, start + std::min<std::uintptr_t>(len, UINTPTR_MAX - start)};
  net::event_signal(self.noticed_.get());
}

bool ImportedMonitor::watch(const MemoryRange& range) noexcept {
  return source_.subscribe(start_of(range), range.size()) == 0;
}

void ImportedMonitor::unwatch(const MemoryRange& range) noexcept {
  source_.unsubscribe(start_of(range), range.size());
}

bool ImportedMonitor::read(ChangeListener& listener) noexcept {
  std::unique_lock lock(mutex_);
  const auto notices = notices_;
  const std::size_t count = std::exchange(count_, 0);
  net::event_drain(noticed_.get());
  lock.unlock();
  for (std::size_t i = 0; i < count; ++i) listener.on_change(notices[i], MemoryChange::kAnnounced);
  return count != 0;
}

bool ImportedMonitor::is_settled() noexcept {
  std::lock_guard lock(mutex_);
  return count_ == 0;
}

bool ImportedMonitor::is_unchanged(const MemoryRange& range) noexcept {
  return source_.valid(start_of(range), range.size());
}

bool ImportedMonitor::covers(const MemoryRange& range) noexcept {
  return is_private_anonymous(range);
}

bool ImportedMonitor::is_usable() const noexcept {
  return ::getpid() == process_;
}

}  // namespace weft::verbs
