// SPDX-License-Identifier: BSD-2-Clause
// prov_name in hints: the providers that may answer; fi_fabric(3).
#include "core/provider_hint.h"

#include <gtest/gtest.h>

namespace weft::core {
namespace {

constexpr ProviderKind kCore = ProviderKind::kCore;
constexpr ProviderKind kLayer = ProviderKind::kUtility;

struct Case {
  const char* hint;
  uint64_t flags;
  const char* provider;
  ProviderKind kind;
  bool selected;
};

TEST(ProviderHint, NamesSelectProviders) {
  const Case cases[] = {
      // No name.
      {nullptr, 0, "tcp", kCore, true},
      {"", 0, "ofi_rxm", kLayer, true},
      // One core: alone and under layers.
      {"tcp", 0, "tcp", kCore, true},
      {"TCP", 0, "tcp", kCore, true},
      {"tcp", 0, "udp", kCore, false},
      {"tcp", 0, "ofi_rxm", kLayer, true},
      {"tcp", kCoresOnly, "tcp", kCore, true},
      {"tcp", kCoresOnly, "udp", kCore, false},
      // One layer: over any core that takes layers.
      {"ofi_rxm", 0, "ofi_rxm", kLayer, true},
      {"ofi_rxm", 0, "ofi_rxd", kLayer, false},
      {"ofi_rxm", 0, "tcp", kCore, false},
      {"ofi_rxm", kCoresOnly, "tcp", kCore, true},
      {"ofi_rxm", kCoresOnly, "sockets", kCore, false},
      {"sockets;ofi_rxm", kCoresOnly, "sockets", kCore, true},
      {";ofi_rxm", 0, "ofi_rxm", kLayer, true},
      {";ofi_rxm", 0, "tcp", kCore, false},
      // Pairs in either order.
      {"tcp;ofi_rxm", 0, "ofi_rxm", kLayer, true},
      {"ofi_rxm;tcp", 0, "ofi_rxm", kLayer, true},
      {"tcp;ofi_rxm", 0, "tcp", kCore, false},
      {"ofi_rxm;tcp", kCoresOnly, "tcp", kCore, true},
      {"tcp;ofi_rxm", kCoresOnly, "udp", kCore, false},
      // Otherwise the last name answers.
      {"tcp;udp", 0, "udp", kCore, true},
      {"tcp;udp", 0, "tcp", kCore, false},
      {"tcp;ofi_rxm;ofi_mrail", 0, "ofi_mrail", kLayer, true},
      {"tcp;ofi_rxm;ofi_mrail", 0, "ofi_rxm", kLayer, false},
      {"tcp;", 0, "tcp", kCore, false},
      {";tcp", 0, "tcp", kCore, true},
      // Exclusions.
      {"^tcp", 0, "tcp", kCore, false},
      {"^tcp", 0, "udp", kCore, true},
      {"tcp;^ofi_rxm", 0, "ofi_rxm", kLayer, false},
      {"tcp;^ofi_rxm", 0, "tcp", kCore, true},
      {"^ofi_rxm", kCoresOnly, "tcp", kCore, true},
      // Layers never answer for cores.
      {nullptr, kCoresOnly, "ofi_rxm", kLayer, false},
      {nullptr, kCoresOnly, "shm", kCore, false},
      {nullptr, kCoresOnly, "tcp", kCore, true},
  };
  for (const Case& each : cases) {
    EXPECT_EQ(ProviderHint(each.hint).selects(each.provider, each.kind, each.flags), each.selected)
        << (each.hint == nullptr ? "(none)" : each.hint) << " / " << each.provider << " / " << each.flags;
  }
}

}  // namespace
}  // namespace weft::core
