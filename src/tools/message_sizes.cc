// SPDX-License-Identifier: BSD-2-Clause
// Message sizes and counts; see message_sizes.h.
#include "message_sizes.h"

#include <charconv>
#include <limits>

namespace weft::tools {
namespace {

constexpr std::size_t kLargestSize = std::size_t{6} << 20;

std::string shorten(uint64_t value, uint64_t unit, bool with_tenth) {
  std::string_view suffixes = "kmgt";
  if (value < unit) return fmt::format("{}", value);
  uint64_t scale = unit;
  while (suffixes.size() > 1 && value / scale >= unit) {
    scale *= unit;
    suffixes.remove_prefix(1);
  }
  const uint64_t whole = value / scale;
  const uint64_t tenth = value % scale * 10 / scale;
  if (with_tenth && whole < 10 && tenth != 0) return fmt::format("{}.{}{}", whole, tenth, suffixes.front());
  return fmt::format("{}{}", whole, suffixes.front());
}

Result<std::size_t> parse_size(std::string_view text) {
  constexpr std::string_view kSuffixes = "kmg";
  std::size_t number = 0;
  const char* end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, number);
  unsigned shift = 0;
  if (stop != end && stop + 1 == end)
    if (auto place = kSuffixes.find(static_cast<char>(*stop | 0x20)); place != kSuffixes.npos) {
      shift = 10 * (static_cast<unsigned>(place) + 1);
      ++stop;
    }
  if (error != std::errc() || stop != end || number > std::numeric_limits<std::size_t>::max() >> shift)
    return fail(FI_EINVAL, "'{}' is not a message size such as 64, 4k or 1m", text);
  return number << shift;
}

}  // namespace

std::vector<std::size_t> default_sizes() {
  return {64, 256, 1024, 4096, 65536, 1048576};
}

std::vector<std::size_t> all_sizes() {
  std::vector<std::size_t> sizes{0, 1};
  for (std::size_t power = 2; power <= kLargestSize; power *= 2) {
    sizes.push_back(power);
    sizes.push_back(power + power / 2);
  }
  return sizes;
}

Result<std::vector<std::size_t>> parse_sizes(std::string_view text) {
  if (text == "all") return all_sizes();
  std::vector<std::size_t> sizes;
  while (true) {
    const std::string_view item = text.substr(0, text.find(','));
    WEFT_TRY_FOR(size, parse_size(item));
    sizes.push_back(size);
    if (item.size() == text.size()) return sizes;
    text.remove_prefix(item.size() + 1);
  }
}

std::string short_bytes(uint64_t bytes) {
  return shorten(bytes, 1024, true);
}
std::string short_count(uint64_t count) {
  return shorten(count, 1000, false);
}

}  // namespace weft::tools
