// SPDX-License-Identifier: BSD-2-Clause
// The providers that may answer a fi_getinfo call; fi_fabric(3), fi_provider(7).
#include "core/provider_hint.h"

#include <algorithm>
#include <span>

namespace weft::core {
namespace {

// Providers that are complete without a layer, so that a layer over them must be requested by name.
constexpr std::string_view kNotLayered[] = {"sockets", "shm", "efa", "psm3", "ucx", "cxi"};

bool contains(std::span<const std::string_view> names, std::string_view name) noexcept {
  return std::ranges::any_of(names, [&](std::string_view each) { return equal_ignoring_case(each, name); });
}

}  // namespace

ProviderHint::ProviderHint(const char* prov_name) {
  if (prov_name == nullptr || *prov_name == '\0') return;
  for (std::string_view name : split(prov_name, ';')) {
    if (name.empty() && names_.empty()) continue;
    if (!name.starts_with('^')) {
      names_.push_back(name);
      continue;
    }
    name.remove_prefix(1);
    for (const std::string_view each : split(name, ',')) excluded_.push_back(each);
  }
}

std::string_view ProviderHint::answering_name() const noexcept {
  const bool reversed = names_.size() == 2 && is_utility_name(names_[0]) && !is_utility_name(names_[1]);
  return reversed ? names_.front() : names_.back();
}

bool ProviderHint::selects(std::string_view name, ProviderKind kind, uint64_t flags) const {
  if (contains(excluded_, name)) return false;
  if ((flags & kCoresOnly) != 0) {
    if (kind != ProviderKind::kCore) return false;
    const bool any_core = std::ranges::all_of(names_, is_utility_name);
    return any_core ? !contains(kNotLayered, name) : contains(names_, name);
  }
  if (names_.empty() || equal_ignoring_case(name, answering_name())) return true;
  return names_.size() == 1 && kind == ProviderKind::kUtility && !is_utility_name(names_.front());
}

}  // namespace weft::core
