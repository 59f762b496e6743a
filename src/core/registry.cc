// SPDX-License-Identifier: BSD-2-Clause
// The providers of this process; fi_provider(7), fabric(7).
#include "core/registry.h"

#include <dlfcn.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <array>
#include <exception>
#include <new>

#include "core/log.h"

namespace weft::core {
namespace {

template <class... Names>
constexpr std::array<std::string_view, sizeof...(Names)> list_of(Names... names) noexcept {
  return {names...};
}

// The order of fi_getinfo's answers. Other providers follow in the order of registration.
constexpr auto kOrder =
    list_of("efa", "psm2", "opx", "usnic", "verbs", "cxi", "psm3", "ucx", "ofi_rxm", "ofi_rxd", "shm", "udp", "tcp",
            "sockets", "net", "ofi_hook_perf", "ofi_hook_trace", "ofi_hook_profile", "ofi_hook_monitor",
            "ofi_hook_debug", "ofi_hook_noop", "ofi_hook_hmem", "ofi_hook_dmabuf_peer_mem", "off_coll");

constexpr uint32_t kOldestProviderApi = FI_VERSION(1, 3);

std::size_t rank_of(std::string_view name) noexcept {
  return static_cast<std::size_t>(std::ranges::find(kOrder, name) - std::begin(kOrder));
}

// libfabric's own variables, and prefixes of those (with a final '_'), that weft's core does not define.
constexpr std::string_view kCore[] = {"FI_HMEM", "FI_HMEM_", "FI_MR_", "FI_OFFLOAD_COLL_PROVIDER", "FI_PERF_CNTR"};

// Providers of libfabric that weft does not have.
constexpr std::string_view kOtherProviders[] = {"lnx", "ofi_mrail", "ofi_hook", "sm2", "psm", "gni", "mlx", "coll"};

bool covers_variable(std::string_view entry, std::string_view name) noexcept {
  return entry.ends_with('_') ? name.starts_with(entry) : name == entry;
}

// Other names that begin with FI_ belong to other libraries.
bool is_of_libfabric(std::string_view name) {
  if (std::ranges::any_of(kCore, [&](std::string_view entry) { return covers_variable(entry, name); })) return true;
  const auto owns = [&](std::string_view provider) {
    return name.starts_with(Parameters::variable(nullptr, std::string(provider) + "_"));
  };
  return std::ranges::any_of(kOrder, owns) || std::ranges::any_of(kOtherProviders, owns);
}

}  // namespace

std::span<const std::string_view> known_providers() noexcept {
  return kOrder;
}

bool is_utility_name(std::string_view name) noexcept {
  constexpr std::string_view kPrefix = "ofi_";
  return equal_ignoring_case(name.substr(0, kPrefix.size()), kPrefix);
}

ProviderKind kind_of(const fi_provider& provider) noexcept {
  const std::string_view name = provider.name;
  if (provider.getinfo == nullptr) return ProviderKind::kHook;
  if (is_utility_name(name) || name.starts_with("lnx")) return ProviderKind::kUtility;
  return name.starts_with("off_") ? ProviderKind::kOffload : ProviderKind::kCore;
}

Registry::Registry(const Parameters& parameters)
    : parameters_(parameters),
      filter_(parameters.text("FI_PROVIDER")),
      path_(parse_plugin_path(parameters.text("FI_PROVIDER_PATH"))) {}

void Registry::close() noexcept {
  for (const auto& provider : providers_) {
    if (provider->abi->cleanup != nullptr) provider->abi->cleanup();
  }
  for (const auto& provider : providers_) {
    if (provider->library != nullptr) ::dlclose(provider->library);
  }
  providers_.clear();
}

void Registry::define(Parameters& parameters) {
  parameters.define("FI_PROVIDER", FI_PARAM_STRING,
                    "Use only these providers, a comma separated list; a leading ^ negates the list (default: all)");
  parameters.define("FI_PROVIDER_PATH", FI_PARAM_STRING,
                    "Folders to search for provider plug-ins, separated by colons. A leading @ prefers the plug-in "
                    "found first to the one with the highest version; an entry +/path/libname-fi.so is preferred to "
                    "any other of that name (default: " +
                        default_plugin_folder() + ")");
}

Status Registry::load() {
  std::unique_lock lock(mutex_);
  if (loader_ == std::this_thread::get_id()) return Status();  // a provider calls while it is loaded
  loaded_.wait(lock, [&] { return state_ != State::kLoading; });
  if (state_ == State::kLoaded) return Status();
  state_ = State::kLoading;
  loader_ = std::this_thread::get_id();
  lock.unlock();
  const Status status = load_unlocked();
  lock.lock();
  state_ = status.ok() ? State::kLoaded : State::kEmpty;
  loader_ = {};
  loaded_.notify_all();
  return status;
}

Status Registry::load_unlocked() noexcept try {
  if (const Status status = load_plugins(*this, path_); !status.ok()) return status;
  for (const ProviderEntry entry : builtin_providers()) {
    if (fi_provider* provider = entry()) register_provider(provider, {.path = "built in"});
  }
  warn_of_unknown_names();
  warn_of_unused_variables();
  return Status();
} catch (const std::bad_alloc&) {
  return Status(-FI_ENOMEM);
} catch (const std::exception& error) {
  FI_WARN(&core_provider(), FI_LOG_CORE, "loading providers ended early: %s\n", error.what());
  return Status();
}

bool Registry::register_provider(fi_provider* abi, const Origin& origin) {
  const auto path_size = static_cast<int>(origin.path.size());
  if (abi->name == nullptr || *abi->name == '\0' || abi->fabric == nullptr) {
    FI_WARN(&core_provider(), FI_LOG_CORE, "provider refused (%.*s): no name or no fabric call\n", path_size,
            origin.path.data());
    return false;
  }
  if (FI_VERSION_LT(abi->fi_version, kOldestProviderApi)) {
    FI_WARN(&core_provider(), FI_LOG_CORE,
            "provider %s refused (%.*s): it implements API %u.%u, 1.3 is the oldest supported\n", abi->name, path_size,
            origin.path.data(), FI_MAJOR(abi->fi_version), FI_MINOR(abi->fi_version));
    return false;
  }
  FI_INFO(&core_provider(), FI_LOG_CORE, "registering provider %s %u.%u (%.*s)\n", abi->name, FI_MAJOR(abi->version),
          FI_MINOR(abi->version), path_size, origin.path.data());

  const ProviderKind kind = kind_of(*abi);
  // A list of wanted names selects cores: layers stay, and their results are filtered. A negated list excludes both.
  const bool excluded =
      filter_.negated() ? !filter_.allows(abi->name) : kind == ProviderKind::kCore && !filter_.may_need(abi->name);
  auto added = std::make_unique<Provider>(Provider{.abi = abi,
                                                   .kind = kind,
                                                   .rank = rank_of(abi->name),
                                                   .preferred = origin.preferred,
                                                   .excluded = excluded,
                                                   .hidden = excluded,
                                                   .library = origin.library});
  const std::lock_guard lock(mutex_);
  for (const auto& rival : providers_) {
    if (rival->abi == abi) return false;  // one library under two file names
    if (added->hidden || rival->hidden || !equal_ignoring_case(rival->abi->name, abi->name)) continue;
    const bool stays = rival->preferred != origin.preferred ? rival->preferred
                                                            : path_.first_wins || rival->abi->version >= abi->version;
    (stays ? added : rival)->hidden = true;
  }
  const auto place = std::ranges::upper_bound(providers_, added->rank, {}, &Provider::rank);
  providers_.insert(place, std::move(added));
  return true;
}

std::vector<const Provider*> Registry::providers() const {
  const std::lock_guard lock(mutex_);
  std::vector<const Provider*> list;
  for (const auto& provider : providers_) list.push_back(provider.get());
  return list;
}

bool Registry::has_library(void* library) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(providers_, [&](const auto& provider) { return provider->library == library; });
}

bool Registry::has_provider(const fi_provider* abi) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(providers_, [&](const auto& provider) { return provider->abi == abi; });
}

const Provider* Registry::find(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  for (const auto& provider : providers_) {
    if (!provider->hidden && equal_ignoring_case(provider->abi->name, name)) return provider.get();
  }
  return nullptr;
}

bool Registry::has_name(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(providers_,
                             [&](const auto& provider) { return equal_ignoring_case(provider->abi->name, name); });
}

void Registry::warn_of_unknown_names() const {
  warn_of_unknown_names("FI_PROVIDER", filter_);
  warn_of_unknown_names("FI_LOG_PROV", NameFilter(parameters_.text("FI_LOG_PROV")));
}

void Registry::warn_of_unknown_names(const char* variable, const NameFilter& filter) const {
  for (const std::string& entry : filter.names()) {
    for (const std::string_view name : split(entry, ';')) {
      if (equal_ignoring_case(name, core_provider().name) || has_name(name)) continue;
      FI_WARN(&core_provider(), FI_LOG_CORE, "%s names %.*s, but no provider has this name\n", variable,
              static_cast<int>(name.size()), name.data());
    }
  }
}

// Variables for libfabric's core, or for a provider that weft or libfabric has, that no loaded code defined.
void Registry::warn_of_unused_variables() const {
  std::string names;
  constexpr std::string_view kPrefix = "FI_";
  for (const std::string& name : parameters_.set_by_user(kPrefix))
    if (parameters_.find(nullptr, name.substr(kPrefix.size())) == nullptr && is_of_libfabric(name))
      names += (names.empty() ? "" : ", ") + name;
  if (names.empty()) return;
  FI_WARN(&core_provider(), FI_LOG_CORE, "variables without effect, no loaded provider defines them: %s\n",
          names.c_str());
}

}  // namespace weft::core
