// SPDX-License-Identifier: BSD-2-Clause
// The number of this process, without a system call: a page of memory has it, which is empty in a forked child.
#pragma once

#include <sys/types.h>

namespace weft::tcp {

// As getpid(2). Thread-safe.
pid_t this_process() noexcept;

}  // namespace weft::tcp
