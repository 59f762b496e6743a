// SPDX-License-Identifier: BSD-2-Clause
// The search for variables without effect; see unused_variables.h.
#include "core/unused_variables.h"

#include <algorithm>

namespace weft::core {
namespace {

// libfabric's own variables, and prefixes of those (with a final '_'), that weft's core does not define.
constexpr std::string_view kCore[] = {"FI_ADDR_FORMAT",           "FI_HMEM",     "FI_HMEM_", "FI_MR_CACHE_",
                                      "FI_OFFLOAD_COLL_PROVIDER", "FI_PERF_CNTR"};

// Providers of libfabric that weft does not know.
constexpr std::string_view kOtherProviders[] = {"lnx", "ofi_mrail", "ofi_hook", "sm2", "psm", "gni", "mlx", "coll"};

bool covers(std::string_view entry, std::string_view name) noexcept {
  return entry.ends_with('_') ? name.starts_with(entry) : name == entry;
}

bool is_of_libfabric(std::string_view name, std::span<const std::string_view> providers) {
  if (std::ranges::any_of(kCore, [&](std::string_view entry) { return covers(entry, name); })) return true;
  const auto owns = [&](std::string_view provider) {
    return name.starts_with(Parameters::variable(nullptr, std::string(provider) + "_"));
  };
  return std::ranges::any_of(providers, owns) || std::ranges::any_of(kOtherProviders, owns);
}

}  // namespace

std::vector<std::string> unused_variables(const Parameters& parameters, std::span<const std::string_view> providers) {
  std::vector<std::string> names = parameters.set_by_user("FI_");
  std::erase_if(names, [&](const std::string& name) {
    return parameters.find(name) != nullptr || !is_of_libfabric(name, providers);
  });
  return names;
}

}  // namespace weft::core
