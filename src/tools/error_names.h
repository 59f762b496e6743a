// SPDX-License-Identifier: BSD-2-Clause
// The names of the error codes of <rdma/fi_errno.h>; fi_errno(3).
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace weft::tools {

struct ErrorName {
  std::string_view name;  // with FI_
  int number;             // positive
};

// All errors, by number.
std::span<const ErrorName> error_names();

// Equal in any letter case.
bool same_name(std::string_view a, std::string_view b);

// Finds a name in any letter case, with or without FI_; nullptr when unknown.
const ErrorName* error_named(std::string_view name);

// Parses a decimal, octal (0..) or hexadecimal (0x..) number of either sign; returns its absolute value.
std::optional<int> error_number(std::string_view text);

}  // namespace weft::tools
