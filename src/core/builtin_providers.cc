// SPDX-License-Identifier: BSD-2-Clause
// The providers that are linked into the library. The build lists them in WEFT_BUILTIN_PROVIDERS as X(tcp) X(udp) ...;
// each has an entry point weft_<name>_ini, which is to it what fi_prov_ini is to a plug-in.
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
