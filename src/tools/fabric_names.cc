// SPDX-License-Identifier: BSD-2-Clause
// Names of flags and enumeration values; see fabric_names.h.
#include "fabric_names.h"

#include "error_names.h"

namespace weft::tools {
namespace {

constexpr std::string_view kFlagPrefix = "FI_";
constexpr uint32_t kEnumValues = 64;  // every enumeration of the API is dense and shorter

bool is_called(const char* official, std::string_view name, std::string_view prefix) {
  if (official == nullptr) return false;
  std::string_view full(official);
  return same_name(full, name) || (full.starts_with(prefix) && same_name(full.substr(prefix.size()), name));
}

}  // namespace

std::optional<uint64_t> flag_named(std::string_view name, fi_type type) {
  if (name.empty()) return std::nullopt;
  for (int bit = 0; bit < 64; ++bit) {
    const uint64_t flag = uint64_t{1} << bit;
    if (is_called(fi_tostr(&flag, type), name, kFlagPrefix)) return flag;
  }
  return std::nullopt;
}

std::optional<uint32_t> value_named(std::string_view name, fi_type type, std::string_view prefix) {
  if (name.empty()) return std::nullopt;
  for (uint32_t value = 0; value < kEnumValues; ++value)
    if (is_called(fi_tostr(&value, type), name, prefix)) return value;
  return std::nullopt;
}

}  // namespace weft::tools
