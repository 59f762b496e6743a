// SPDX-License-Identifier: BSD-2-Clause
// Names and lists of names as users write them; fabric(7), fi_fabric(3).
#include "core/name_list.h"

#include <algorithm>

namespace weft::core {
namespace {

bool covers(std::string_view entry, std::string_view name) noexcept {
  if (name.size() > entry.size() && name[entry.size()] == ';') name = name.substr(0, entry.size());
  return equal_ignoring_case(entry, name);
}

}  // namespace

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  for (;;) {
    const std::size_t end = text.find(separator);
    pieces.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

std::string_view trim(std::string_view text) noexcept {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

bool equal_ignoring_case(std::string_view a, std::string_view b) noexcept {
  return std::ranges::equal(a, b, {}, upper_case, upper_case);
}

NameFilter::NameFilter(const char* text) {
  if (text == nullptr) return;
  std::string_view list = text;
  negated_ = list.starts_with('^');
  if (negated_) list.remove_prefix(1);
  for (std::string_view name : split(list, ',')) {
    if (name = trim(name); !name.empty()) names_.emplace_back(name);
  }
}

bool NameFilter::allows(std::string_view name) const noexcept {
  const bool listed = std::ranges::any_of(names_, [&](const std::string& entry) { return covers(entry, name); });
  return listed != negated_;
}

bool NameFilter::may_need(std::string_view core) const noexcept {
  if (negated_) return allows(core);
  return std::ranges::any_of(
      names_, [&](std::string_view entry) { return equal_ignoring_case(entry.substr(0, entry.find(';')), core); });
}

}  // namespace weft::core
