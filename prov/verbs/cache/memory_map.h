// SPDX-License-Identifier: BSD-2-Clause
// The kind of the process's memory, from /proc/self/maps; proc_pid_maps(5). Any thread; no allocation.
#pragma once

#include "verbs/cache/memory_monitor.h"

namespace weft::verbs {

// All of the range is mapped, private, and no file's. False if that cannot be read.
bool is_private_anonymous(const MemoryRange& range) noexcept;

}  // namespace weft::verbs
