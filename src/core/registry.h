// SPDX-License-Identifier: BSD-2-Clause
// The providers this process knows: built-in ones and plug-ins, in order of preference; fi_provider(7), fabric(7)
// PROVIDER INSTALLATION AND SELECTION.
#pragma once

#include <rdma/providers/fi_prov.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/name_list.h"
#include "core/parameters.h"
#include "core/plugin_loader.h"

namespace weft::core {

// The C interface does not tell; names and slots do (register_provider).
enum class ProviderKind {
  kCore,     // reaches hardware or sockets
  kUtility,  // "ofi_...": a layer over a core provider
  kOffload,  // "off_...": serves other providers, never applications
  kHook,     // without getinfo: wraps fabrics named by FI_HOOK
};
ProviderKind kind_of(const fi_provider& provider) noexcept;
// A utility, also by the name of one that is not here.
bool is_utility_name(std::string_view name) noexcept;

struct Provider {
  fi_provider* abi;
  ProviderKind kind;
  std::size_t rank;  // place in the order of preference
  bool preferred;    // came as "+file" of FI_PROVIDER_PATH
  bool excluded;     // by FI_PROVIDER
  bool hidden;       // excluded, or another one of the same name won
  void* library;     // of dlopen; nullptr when built in
};

// Thread-safe; no lock is held while provider code runs.
class Registry {
 public:
  explicit Registry(const Parameters& parameters);
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  static void define(Parameters& parameters);

  // Loads all providers the first time; other threads wait for that to end. A provider that gets here from its own
  // initialisation goes on with those that are registered so far.
  void load();

  // Calls every cleanup, then unloads the plug-ins: the last thing before this object dies, while the log still works.
  void close() noexcept;

  // In order of preference; load() first. Providers stay where they are until this object dies.
  std::vector<const Provider*> providers() const;
  // The one that `name` selects, in any case; nullptr if there is none.
  const Provider* find(std::string_view name) const;

  const NameFilter& filter() const noexcept { return filter_; }

  // Where a provider comes from: a file, or "built in".
  struct Origin {
    std::string_view path;
    void* library = nullptr;
    bool preferred = false;
  };
  // What the loader calls. False when the provider is refused (the log says why) or known already; then the caller
  // keeps `origin.library`.
  bool register_provider(fi_provider* provider, const Origin& origin);

 private:
  void load_unlocked();
  void warn_of_unknown_names() const;

  const NameFilter filter_;  // FI_PROVIDER
  const PluginPath path_;    // FI_PROVIDER_PATH

  mutable std::mutex mutex_;
  std::condition_variable loaded_;
  enum class State { kEmpty, kLoading, kLoaded } state_ = State::kEmpty;
  std::thread::id loader_;
  std::vector<std::unique_ptr<Provider>> providers_;  // sorted by rank
};

// Entry points of what is linked into the library; it may answer nullptr like fi_prov_ini. Defined by whoever links
// the core together with providers.
using ProviderEntry = fi_provider* (*)();
std::span<const ProviderEntry> builtin_providers() noexcept;

// Names this project and its relatives have given to providers, the best first.
std::span<const std::string_view> known_providers() noexcept;

}  // namespace weft::core
