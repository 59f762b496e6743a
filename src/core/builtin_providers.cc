// SPDX-License-Identifier: BSD-2-Clause
// The providers linked into the library; fi_provider(7). The build lists them in WEFT_BUILTIN_PROVIDERS as X(tcp)
// X(udp) ...; the entry point weft_<name>_ini corresponds to fi_prov_ini of a plug-in.
#include "core/registry.h"

#define X(name) extern "C" fi_provider* weft_##name##_ini(void);
WEFT_BUILTIN_PROVIDERS
#undef X

namespace weft::core {

std::span<const ProviderEntry> builtin_providers() noexcept {
#define X(name) weft_##name##_ini,
  static constexpr ProviderEntry kEntries[] = {WEFT_BUILTIN_PROVIDERS nullptr};
#undef X
  return std::span(kEntries).first(std::size(kEntries) - 1);
}

}  // namespace weft::core
