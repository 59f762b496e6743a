// SPDX-License-Identifier: BSD-2-Clause
// Names and lists of names as users write them in FI_PROVIDER, FI_LOG_PROV, fabric_attr->prov_name and libfabric.conf:
// splitting, trimming, comparing without regard to case, and the "a,b" / "^a,b" filter. fabric(7), fi_fabric(3).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft::core {

// The pieces between separators; empty pieces are kept, so "" gives one.
std::vector<std::string_view> split(std::string_view text, char separator);
std::string_view trim(std::string_view text) noexcept;
// Changes ASCII letters only, whatever locale the program has set: in a Turkish one, "i" and "I" are no pair.
constexpr char upper_case(char c) noexcept {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}
bool equal_ignoring_case(std::string_view a, std::string_view b) noexcept;

// "a,b": only these. "^a,b": all but these (one caret for the whole list). Default: everything.
class NameFilter {
 public:
  NameFilter() = default;
  explicit NameFilter(const char* list);  // nullptr: everything

  // An entry "xxx" stands for the provider xxx alone and under any layer ("xxx;yyy"); an entry "xxx;yyy" only for that
  // pair.
  bool allows(std::string_view name) const noexcept;
  // True if any name with this core provider could pass: "xxx;yyy" needs the core "xxx", although it rejects plain
  // "xxx".
  bool may_need(std::string_view core) const noexcept;

  bool negated() const noexcept { return negated_; }
  const std::vector<std::string>& names() const noexcept { return names_; }

 private:
  std::vector<std::string> names_;
  bool negated_ = true;
};

}  // namespace weft::core
