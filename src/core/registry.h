// SPDX-License-Identifier: BSD-2-Clause
// The providers of this process, built-in ones and plug-ins, in order of preference; fi_provider(7), fabric(7) PROVIDER
// INSTALLATION AND SELECTION.
#pragma once

#include <rdma/providers/fi_prov.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "base/status.h"
#include "core/name_list.h"
#include "core/parameters.h"
#include "core/plugin_loader.h"

namespace weft::core {

// Derived from a provider's name and slots, because the C interface has no such field.
enum class ProviderKind {
  kCore,     // reaches hardware or sockets
  kUtility,  // "ofi_...": a layer over a core provider
  kOffload,  // "off_...": serves other providers, never applications
  kHook,     // without getinfo: wraps fabrics named by FI_HOOK
};
ProviderKind kind_of(const fi_provider& provider) noexcept;
// Tests the name only: such a utility need not be installed.
bool is_utility_name(std::string_view name) noexcept;

struct Provider {
  fi_provider* abi;
  ProviderKind kind;
  std::size_t rank;  // place in the order of preference
  bool preferred;    // came as "+file" of FI_PROVIDER_PATH
  bool excluded;     // by FI_PROVIDER
  bool hidden;       // excluded, or another provider of the same name is used
  void* library;     // from dlopen; nullptr when built in
};

// Thread-safe; no lock is held while provider code runs.
class Registry {
 public:
  explicit Registry(const Parameters& parameters);

  static void define(Parameters& parameters);

  // The first call loads all providers; other threads wait for its end. A call from a provider's own initialisation
  // returns at once and uses the providers registered so far. -FI_ENOMEM: the next call loads the rest.
  Status load();

  // Calls every cleanup, then unloads the plug-ins. Call it last before destruction, while the log still works.
  void close() noexcept;

  // In order of preference; call load() first. Providers keep their addresses for this object's lifetime.
  std::vector<const Provider*> providers() const;
  // The provider that `name` selects, in any letter case; nullptr if none.
  const Provider* find(std::string_view name) const;
  // Also for a provider that FI_PROVIDER excludes.
  bool has_name(std::string_view name) const;

  // True for a library of a registered plug-in.
  bool has_library(void* library) const;
  bool has_provider(const fi_provider* abi) const;

  const NameFilter& filter() const noexcept { return filter_; }

  // The origin of a provider: a file, or "built in".
  struct Origin {
    std::string_view path;
    void* library = nullptr;
    bool preferred = false;
  };
  // Called by the loader. False when the provider is refused (the log has the reason) or already registered; then the
  // caller keeps `origin.library`.
  bool register_provider(fi_provider* provider, const Origin& origin);

 private:
  Status load_unlocked() noexcept;
  void warn_of_unknown_names() const;
  void warn_of_unknown_names(const char* variable, const NameFilter& filter) const;
  void warn_of_unused_variables() const;

  const Parameters& parameters_;
  const NameFilter filter_;  // FI_PROVIDER
  const PluginPath path_;    // FI_PROVIDER_PATH

  mutable std::mutex mutex_;
  std::condition_variable loaded_;
  enum class State { kEmpty, kLoading, kLoaded } state_ = State::kEmpty;
  std::thread::id loader_;                            // while loading
  std::vector<std::unique_ptr<Provider>> providers_;  // sorted by rank
};

// Entry points of the providers linked into the library; each may return nullptr like fi_prov_ini. Defined by the
// target that links the core with providers.
using ProviderEntry = fi_provider* (*)();
std::span<const ProviderEntry> builtin_providers() noexcept;

// Provider names of weft and libfabric, in order of preference.
std::span<const std::string_view> known_providers() noexcept;

}  // namespace weft::core
