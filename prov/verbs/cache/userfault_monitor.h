// SPDX-License-Identifier: BSD-2-Clause
// Reports of the kernel about the process's own private memory: userfaultfd(2), without its page faults. Decision 0018.
#pragma once

#include <atomic>
#include <memory>

#include "verbs/cache/memory_monitor.h"
#include "verbs/cache/report_thread.h"

namespace weft::verbs {

// One at a time in a process: the kernel takes one watcher of a page. Thread-safe like its base.
class UserfaultMonitor final : public MemoryMonitor {
 public:
  // nullptr and the reason in `why`.
  static std::unique_ptr<MemoryMonitor> open(const char*& why) noexcept;
  ~UserfaultMonitor() override;

  bool start(ChangeListener& listener) noexcept override { return thread_.start(descriptor_.load(), listener); }
  void stop() noexcept override;
  bool watch(const MemoryRange& range) noexcept override;
  void unwatch(const MemoryRange& range) noexcept override;
  bool read(ChangeListener& listener) noexcept override;
  bool is_settled() noexcept override;
  bool covers(const MemoryRange& range) noexcept override;
  bool is_usable() const noexcept override { return descriptor_.load(std::memory_order_relaxed) >= 0; }

 private:
  explicit UserfaultMonitor(int descriptor) noexcept : descriptor_(descriptor) {}
  static void on_forked_child() noexcept;

  std::atomic<int> descriptor_;  // -1: closed
  ReportThread thread_;
};

}  // namespace weft::verbs
