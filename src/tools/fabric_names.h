// SPDX-License-Identifier: BSD-2-Clause
// Names that people type, turned into libfabric's values. The library itself is asked what a value is called
// (fi_tostr of fabric(7)), so that a tool knows exactly the names its library prints.
#pragma once

#include <rdma/fabric.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace weft::tools {

// One flag of `type` (FI_TYPE_CAPS, FI_TYPE_MODE ...), as its bit. Letter case does not matter, and the prefix (FI_)
// may be left out.
std::optional<uint64_t> flag_named(std::string_view name, fi_type type);

// One value of an enumeration `type` (FI_TYPE_EP_TYPE, FI_TYPE_ADDR_FORMAT ...), likewise; `prefix` may be left out.
std::optional<uint32_t> value_named(std::string_view name, fi_type type, std::string_view prefix);

}  // namespace weft::tools
