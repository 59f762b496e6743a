// SPDX-License-Identifier: BSD-2-Clause
// Names from the command line and libfabric's values: errors of fi_errno(3), flags and enumerators of fi_tostr in
// fi_fabric(3), so that a tool accepts exactly those that its library prints.
#pragma once

#include <rdma/fabric.h>

#include <cstdint>
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

// Finds a name in any letter case, with or without FI_; nullptr when unknown.
const ErrorName* error_named(std::string_view name);

// Parses a decimal, octal (0..) or hexadecimal (0x..) number of either sign; returns its absolute value.
std::optional<int> error_number(std::string_view text);

// The bit of one flag of `type` (FI_TYPE_CAPS, FI_TYPE_MODE ...). Letter case does not matter, and the prefix (FI_) may
// be omitted.
std::optional<uint64_t> flag_named(std::string_view name, fi_type type);

// The value of one enumerator of `type` (FI_TYPE_EP_TYPE, FI_TYPE_ADDR_FORMAT ...); `prefix` may be omitted.
std::optional<uint32_t> value_named(std::string_view name, fi_type type, std::string_view prefix);

}  // namespace weft::tools
