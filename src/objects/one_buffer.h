// SPDX-License-Identifier: BSD-2-Clause
// The buffer of a transfer call with one buffer, in the form of calls with a vector; fi_msg(3).
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <span>

namespace weft {

// Lives as long as the call.
struct OneBuffer {
  iovec iov;
  OneBuffer(const void* buf, std::size_t len) noexcept : iov{const_cast<void*>(buf), len} {}
  operator std::span<const iovec>() const noexcept { return {&iov, 1}; }
};

}  // namespace weft
