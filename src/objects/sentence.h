// SPDX-License-Identifier: BSD-2-Clause
// Sentences about errors, for fi_eq_strerror(3) and fi_cq_strerror(3). They are written where nothing may throw.
#pragma once

#include <fmt/format.h>

#include <exception>
#include <string>
#include <utility>

namespace weft {

// Empty when memory runs out: the text of the error's number is reported then.
template <class... Args>
std::string sentence(fmt::format_string<Args...> format, Args&&... args) noexcept try {
  return fmt::format(format, std::forward<Args>(args)...);
} catch (const std::exception&) {
  return {};
}

}  // namespace weft
