// SPDX-License-Identifier: BSD-2-Clause
// Arbitrary text in FI_PROVIDER, FI_PROVIDER_PATH, libfabric.conf and hints->fabric_attr->prov_name: it must be
// accepted and interpreted according to its syntax; fabric(7), fi_fabric(3).
#include <algorithm>
#include <cctype>

#include "core/parameters.h"
#include "core/plugin_loader.h"
#include "core/provider_hint.h"
#include "input.h"

namespace weft::core {

std::span<const ProviderEntry> builtin_providers() noexcept {
  return {};
}

}  // namespace weft::core

namespace {

using namespace weft::core;

constexpr const char* kNames[] = {"tcp", "udp", "ofi_rxm", "tcp;ofi_rxm", "udp;ofi_rxd"};

std::string in_capitals(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

void check_filter(const std::string& text, const std::string& name) {
  const NameFilter filter(text.c_str());
  WEFT_FUZZ_CHECK(filter.negated() == text.starts_with('^'));
  WEFT_FUZZ_CHECK(filter.allows(name) == NameFilter(in_capitals(text).c_str()).allows(in_capitals(name)));
  if (!filter.negated()) WEFT_FUZZ_CHECK(filter.allows(name) != NameFilter(("^" + text).c_str()).allows(name));
  // A result that passes must include its core provider.
  const std::string core = name.substr(0, name.find(';'));
  if (filter.allows(name)) WEFT_FUZZ_CHECK(filter.may_need(core));
}

void check_hint(const std::string& text, const std::string& name) {
  const ProviderHint hint(text.c_str());
  const bool answers = hint.selects(name, ProviderKind::kCore, 0);
  WEFT_FUZZ_CHECK(!hint.selects(name, ProviderKind::kUtility, kCoresOnly));
  WEFT_FUZZ_CHECK(!ProviderHint((text + ";^" + name).c_str()).selects(name, ProviderKind::kCore, 0) ||
                  name.find(';') != std::string::npos);
  // A single name that matches must be that name, ignoring case.
  if (answers && hint.names().size() == 1) WEFT_FUZZ_CHECK(equal_ignoring_case(hint.names().front(), name));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  weft::fuzz::Input input(data, size);
  const std::string text = input.take_string();
  const std::string own = input.take_string();
  for (const char* name : kNames) {
    check_filter(text, name);
    check_hint(text, name);
  }
  if (!own.empty() && own.find_first_of(",^;") == std::string::npos) check_filter(text, own);

  const PluginPath path = parse_plugin_path(text.c_str());
  WEFT_FUZZ_CHECK(!path.by_name && !path.folders.empty() && path.first_wins == text.starts_with('@'));

  const ConfigFile file(std::string_view(reinterpret_cast<const char*>(data), size));
  WEFT_FUZZ_CHECK(file.find("") == nullptr || std::memchr(data, '=', size) != nullptr);
  return 0;
}
