// SPDX-License-Identifier: BSD-2-Clause
// A failure in a tool: an error code and the sentence for its user. fi_errno(3).
#pragma once

#include <fmt/format.h>
#include <rdma/fi_errno.h>

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace weft::tools {

struct Failure {
  int error;         // positive fi_errno
  std::string what;  // the failed step, and its place
};

template <class T>
using Result = tl::expected<T, Failure>;
using Status = Result<void>;

template <class... Args>
tl::unexpected<Failure> fail(int error, fmt::format_string<Args...> what, Args&&... args) {
  return tl::unexpected(Failure{error, fmt::format(what, std::forward<Args>(args)...)});
}

// Converts a negative fi_errno to a failure: "what: -61 (No data available)".
template <class... Args>
Status check(long answer, fmt::format_string<Args...> what, Args&&... args) {
  if (answer >= 0) return {};
  const int error = static_cast<int>(-answer);
  return fail(error, "{}: {} ({})", fmt::format(what, std::forward<Args>(args)...), -error, fi_strerror(error));
}

// Returns from the function if `expression` failed.
#define WEFT_TRY(expression)                                                           \
  do {                                                                                 \
    if (auto status_ = (expression); !status_) return tl::unexpected(status_.error()); \
  } while (false)

// WEFT_TRY for a function that returns a Result; if it has not failed, `value` is declared and gets its value.
#define WEFT_TRY_FOR(value, expression)                                       \
  auto value##_or_failure = (expression);                                     \
  if (!value##_or_failure) return tl::unexpected(value##_or_failure.error()); \
  auto& value = *value##_or_failure

}  // namespace weft::tools
