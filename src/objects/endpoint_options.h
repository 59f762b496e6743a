// SPDX-License-Identifier: BSD-2-Clause
// How endpoint options cross the C interface; fi_endpoint(3), fi_getopt and fi_setopt.
#pragma once

#include <rdma/fi_errno.h>

#include <cstddef>
#include <cstring>

namespace weft {

// -FI_ETOOSMALL, with *len the size that is needed, when `buf` cannot hold the value.
template <class T>
int report_option(const T& value, void* buf, std::size_t* len) noexcept {
  if (buf == nullptr || len == nullptr) return -FI_EINVAL;
  const std::size_t room = *len;
  *len = sizeof value;
  if (room < sizeof value) return -FI_ETOOSMALL;
  std::memcpy(buf, &value, sizeof value);
  return 0;
}

// -FI_EINVAL unless the application passed a T.
template <class T>
int read_option(const void* buf, std::size_t len, T& value) noexcept {
  if (buf == nullptr || len != sizeof value) return -FI_EINVAL;
  std::memcpy(&value, buf, sizeof value);
  return 0;
}

}  // namespace weft
