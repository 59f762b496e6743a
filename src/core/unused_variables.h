// SPDX-License-Identifier: BSD-2-Clause
// Variables of libfabric that have no effect in this process; fabric(7) ENVIRONMENT VARIABLE CONTROLS.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/parameters.h"

namespace weft::core {

// The variables that the user set for libfabric's core or for a provider that weft or libfabric has, and that neither
// the core nor a loaded provider defined. `providers`: the names that weft knows. Other names that begin with FI_
// belong to other libraries.
std::vector<std::string> unused_variables(const Parameters& parameters, std::span<const std::string_view> providers);

}  // namespace weft::core
