// SPDX-License-Identifier: BSD-2-Clause
// The monitor that the program has imported: it reports memory before it changes; fi_open(3) "mr_cache".
#pragma once

#include <sys/types.h>

#include <array>
#include <memory>
#include <mutex>

#include "base/unique_fd.h"
#include "objects/monitor_source.h"
#include "verbs/cache/memory_monitor.h"
#include "verbs/cache/report_thread.h"

namespace weft::verbs {

// Notices are stored and read later, because the thread of a notice may hold locks that a call of the monitor takes,
// and the cache's mutex is held during such calls. Thread-safe like its base.
class ImportedMonitor final : public MemoryMonitor {
 public:
  // nullptr: the program has imported none, or it was started before.
  static std::unique_ptr<MemoryMonitor> open() noexcept;
  ~ImportedMonitor() override { stop(); }

  bool start(ChangeListener& listener) noexcept override { return thread_.start(noticed_.get(), listener); }
  void stop() noexcept override;
  bool watch(const MemoryRange& range) noexcept override;
  void unwatch(const MemoryRange& range) noexcept override;
  bool read(ChangeListener& listener) noexcept override;
  bool is_settled() noexcept override;
  bool is_unchanged(const MemoryRange& range) noexcept override;
  bool covers(const MemoryRange& range) noexcept override;
  bool is_usable() const noexcept override;

 private:
  ImportedMonitor(const MonitorSource& source, UniqueFd noticed) noexcept;
  static void on_notice(void* context, const void* addr, std::size_t len) noexcept;

  const MonitorSource& source_;
  const pid_t process_;
  const UniqueFd noticed_;  // readable: there are notices
  std::mutex mutex_;        // guards the next two; nothing else is taken with it
  std::array<MemoryRange, 64> notices_;
  std::size_t count_ = 0;
  bool started_ = false;
  ReportThread thread_;
};

}  // namespace weft::verbs
