// SPDX-License-Identifier: BSD-2-Clause
// Finding and loading provider plug-ins; fabric(7), fi_provider(3).
#include "core/plugin_loader.h"

#include <dlfcn.h>
#include <rdma/providers/fi_prov.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <system_error>

#include "core/core_provider.h"
#include "core/registry.h"

namespace weft::core {
namespace {

struct CloseLibrary {
  void operator()(void* library) const noexcept { ::dlclose(library); }
};
using Library = std::unique_ptr<void, CloseLibrary>;

// A file without a slash is searched by the dynamic loader; that it is nowhere is the normal case.
void load_plugin(Registry& registry, const std::string& file, bool preferred = false) {
  // Local: two plug-ins may carry the same helper symbols.
  Library library(::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (!library) {
    const std::string why = ::dlerror();
    // The loader names a bare file only while it cannot find it, and by its whole path or its dependency afterwards.
    if (file.find('/') == std::string::npos && why.starts_with(file)) return;
    FI_WARN(&core_provider(), FI_LOG_CORE, "plug-in %s refused: %s\n", file.c_str(), why.c_str());
    if (why.find("FABRIC_") != std::string::npos) {
      FI_WARN(&core_provider(), FI_LOG_CORE,
              "plug-in %s was built for a newer libfabric; this one is %d.%d and defines FABRIC_1.0 to FABRIC_1.9\n",
              file.c_str(), FI_MAJOR_VERSION, FI_MINOR_VERSION);
    }
    return;
  }
  using Entry = fi_provider* (*)();
  const auto entry = reinterpret_cast<Entry>(::dlsym(library.get(), "fi_prov_ini"));
  if (entry == nullptr) {
    FI_WARN(&core_provider(), FI_LOG_CORE, "plug-in %s refused: it exports no fi_prov_ini\n", file.c_str());
    return;
  }
  fi_provider* provider = entry();
  if (provider == nullptr) {
    FI_INFO(&core_provider(), FI_LOG_CORE, "plug-in %s has nothing to offer on this machine\n", file.c_str());
    return;
  }
  if (registry.register_provider(provider, {file, library.get(), preferred})) static_cast<void>(library.release());
}

// Every plug-in of a folder, in reverse alphabetical order.
void load_folder(Registry& registry, const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<std::string> files;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().native().ends_with(FI_LIB_SUFFIX)) files.push_back(entry->path().native());
  }
  if (error && (error != std::errc::no_such_file_or_directory || folder != default_plugin_folder())) {
    FI_WARN(&core_provider(), FI_LOG_CORE, "cannot search %s for plug-ins: %s\n", folder.c_str(),
            error.message().c_str());
  }
  std::ranges::sort(files, std::greater<>());
  for (const std::string& file : files) load_plugin(registry, file);
}

}  // namespace

std::string default_plugin_folder() {
  static constexpr char kHere = 0;
  Dl_info self{};
  ::dladdr(&kHere, &self);
  const std::filesystem::path library = self.dli_fname == nullptr ? "" : self.dli_fname;
  return library.parent_path() / "libfabric";
}

PluginPath parse_plugin_path(const char* variable) {
  PluginPath path;
  path.by_name = variable == nullptr;
  std::string_view entries = path.by_name ? "" : variable;
  path.first_wins = entries.starts_with('@');
  if (path.first_wins) entries.remove_prefix(1);
  for (const std::string_view entry : split(entries, ':')) {
    if (entry.starts_with('+')) {
      path.preferred.emplace_back(entry.substr(1));
    } else if (!entry.empty()) {
      path.folders.emplace_back(entry);
    }
  }
  if (path.folders.empty()) path.folders.push_back(default_plugin_folder());
  return path;
}

void load_plugins(Registry& registry, const PluginPath& path) {
  for (std::string_view name : known_providers()) {
    if (!path.by_name) break;
    if (name.starts_with("ofi_") || name.starts_with("off_")) name.remove_prefix(4);
    load_plugin(registry, "lib" + std::string(name) + "-" FI_LIB_SUFFIX);
  }
  for (const std::string& file : path.preferred) load_plugin(registry, file, true);
  for (const std::string& folder : path.folders) load_folder(registry, folder);
}

}  // namespace weft::core
