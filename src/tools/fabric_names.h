// SPDX-License-Identifier: BSD-2-Clause
// Converts names from the command line to libfabric's values; fi_fabric(3) fi_tostr. The names come from fi_tostr, so
// that a tool knows exactly those that its library prints.
#pragma once

#include <rdma/fabric.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace weft::tools {

// The bit of one flag of `type` (FI_TYPE_CAPS, FI_TYPE_MODE ...). Letter case does not matter, and the prefix (FI_) may
// be omitted.
std::optional<uint64_t> flag_named(std::string_view name, fi_type type);

// The value of one enumerator of `type` (FI_TYPE_EP_TYPE, FI_TYPE_ADDR_FORMAT ...); `prefix` may be omitted.
std::optional<uint32_t> value_named(std::string_view name, fi_type type, std::string_view prefix);

}  // namespace weft::tools
