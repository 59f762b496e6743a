// SPDX-License-Identifier: BSD-2-Clause
// hints->fabric_attr->prov_name: the providers that may answer a fi_getinfo call; fi_fabric(3) prov_name,
// fi_provider(7) CORE VERSUS UTILITY PROVIDERS.
#pragma once

#include <rdma/fabric.h>

#include <string_view>
#include <vector>

#include "core/registry.h"

namespace weft::core {

// Bits in the flags of fi_getinfo by which layered providers (ours and libfabric's) request the providers below them.
// Providers receive them, too.
inline constexpr uint64_t kInternalCall = 1ULL << 58;
inline constexpr uint64_t kCoresOnly = 1ULL << 59;
inline constexpr uint64_t kWithHidden = 1ULL << 60;
inline constexpr uint64_t kOffloadsOnly = 1ULL << 61;

// Names between semicolons, without regard to case:
//   "core"                   that provider, alone or under a layer
//   "layer"                  that layer over any core
//   "core;layer", reversed   that pair; of other combinations the last name is the one that answers
//   "^name"                  not this one; may follow the others
class ProviderHint {
 public:
  // `prov_name` may be null and must live as long as this object.
  explicit ProviderHint(const char* prov_name);

  // True if the names let this provider answer a call with these flags.
  bool selects(std::string_view name, ProviderKind kind, uint64_t flags) const;

  const std::vector<std::string_view>& names() const noexcept { return names_; }

 private:
  std::string_view answering_name() const noexcept;

  std::vector<std::string_view> names_;
  std::vector<std::string_view> excluded_;
};

}  // namespace weft::core
