// SPDX-License-Identifier: BSD-2-Clause
// The calls of libibverbs and librdmacm that fail in a test that lets each fail once, and their errors.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string>
#include <vector>

namespace ends {

inline int error_for(const std::string& call) {
  const bool allocates = call.find("create") != call.npos || call.find("alloc") != call.npos ||
                         call.find("reg_mr") != call.npos || call.find("post") != call.npos;
  return allocates ? ENOMEM : EIO;
}

// The first occurrences, the last one, and one between.
inline std::vector<uint64_t> occurrences(uint64_t count) {
  std::vector<uint64_t> list;
  for (uint64_t nth = 1; nth <= std::min<uint64_t>(count, 6); ++nth) list.push_back(nth);
  if (count > 8) list.push_back((count + 6) / 2);
  if (count > 6) list.push_back(count);
  return list;
}

}  // namespace ends
