// SPDX-License-Identifier: BSD-2-Clause
// Sentences about errors, for fi_eq_strerror(3) and fi_cq_strerror(3). They are written where nothing may throw.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <cstring>
#include <exception>
#include <string>
#include <utility>

#include "objects/address.h"

namespace weft {

// Empty when memory runs out: the text of the error's number is reported then.
template <class... Args>
std::string sentence(fmt::format_string<Args...> format, Args&&... args) noexcept try {
  return fmt::format(format, std::forward<Args>(args)...);
} catch (const std::exception&) {
  return {};
}

// The answer of those calls: `text`, or a copy of it that is cut to `buf` if there is one.
inline const char* copy_text(const char* text, char* buf, std::size_t len) noexcept {
  if (buf == nullptr || len == 0) return text;
  std::strncpy(buf, text, len - 1);
  buf[len - 1] = '\0';
  return buf;
}

// Why a connection failed: the reason, the phase, both addresses, the time. For fi_cq_strerror where the application
// has no access to connections. `error` is positive; `why` replaces its text where that is not enough, or is null.
// Empty when memory runs out: then fi_strerror is used.
std::string connect_failure(int error, const char* why, const char* phase, const Address& from, const Address& to,
                            std::chrono::duration<double, std::milli> after) noexcept;

}  // namespace weft
