// SPDX-License-Identifier: BSD-2-Clause
// Between the library and a provider with a cache of registrations: the memory monitor that the program has imported.
// fi_open_ops(3) of the object "mr_cache"; fi_open(3).
#pragma once

#include <cstddef>

namespace weft {

// The name ends with the version of the table.
inline constexpr char kMonitorSource[] = "weft_monitor_source_1";

// The calls act on the monitor that was started; without one, `subscribe` fails and `valid` is false. None may be made
// from a notice.
struct MonitorSource {
  std::size_t size;
  // `on_notice` is called for memory that is about to change, by any thread, which may hold locks of an allocator. It
  // takes no lock that another thread holds during a call of this table. -FI_ENODATA: none is imported; -FI_EBUSY: it
  // was started before; or the monitor's error.
  int (*start)(void (*on_notice)(void* context, const void* addr, std::size_t len), void* context);
  // No notice is under way when it returns.
  void (*stop)();
  int (*subscribe)(const void* addr, std::size_t len);
  void (*unsubscribe)(const void* addr, std::size_t len);
  bool (*valid)(const void* addr, std::size_t len);
};

}  // namespace weft
