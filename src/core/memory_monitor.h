// SPDX-License-Identifier: BSD-2-Clause
// The memory monitor that the program has imported, for the provider that caches registrations; fi_open(3) "mr_cache".
#pragma once

#include <rdma/fi_ext.h>

#include <mutex>

namespace weft::core {

// Thread-safe. Part of the library's state.
class MonitorImport {
 public:
  // The last import is used, by a cache that opens later. -FI_EINVAL: not a monitor with all calls.
  int import(fid* imported) noexcept;
  // fi_close of an imported monitor: no call of it is under way, or follows.
  void end(const fid* imported) noexcept;

  // See MonitorSource.
  using Notice = void(void* context, const void* addr, std::size_t len);
  int start(Notice* on_notice, void* context) noexcept;
  void stop() noexcept;
  int subscribe(const void* addr, std::size_t len) noexcept;
  void unsubscribe(const void* addr, std::size_t len) noexcept;
  bool valid(const void* addr, std::size_t len) noexcept;
  void notify(const fid_mem_monitor* monitor, const void* addr, std::size_t len) noexcept;

 private:
  void receive(Notice* on_notice, void* context) noexcept;

  std::mutex mutex_;  // held during calls of the monitor, not during notices; guards the next two
  fid_mem_monitor* imported_ = nullptr;
  fid_mem_monitor* started_ = nullptr;
  std::mutex notice_mutex_;  // guards the rest; held during a notice
  Notice* on_notice_ = nullptr;
  void* context_ = nullptr;
};

}  // namespace weft::core
