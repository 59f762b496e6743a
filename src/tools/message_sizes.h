// SPDX-License-Identifier: BSD-2-Clause
// Message sizes and counts as text. fi_pingpong(1) -S and OUTPUT.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "failure.h"

namespace weft::tools {

// 64 256 1k 4k 64k 1m
std::vector<std::size_t> default_sizes();

// 0, then every power of two and the middle between two neighbours, up to 6 MiB.
std::vector<std::size_t> all_sizes();

// "all", or sizes separated by commas: decimal numbers, each with an optional k, m or g (powers of 1024).
Result<std::vector<std::size_t>> parse_sizes(std::string_view text);

// At most five characters, cut and not rounded. In units of 1024: 64, 1k, 1.9k, 11m.
std::string short_bytes(uint64_t bytes);
// In units of 1000, whole: 999, 1k, 12k.
std::string short_count(uint64_t count);

}  // namespace weft::tools
