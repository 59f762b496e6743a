// SPDX-License-Identifier: BSD-2-Clause
// The search for provider plug-ins; fabric(7), fi_provider(3).
#include "core/plugin_loader.h"

#include <dirent.h>
#include <dlfcn.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_prov.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <string_view>

#include "core/log.h"
#include "core/registry.h"

namespace weft::core {
namespace {

struct CloseLibrary {
  void operator()(void* library) const noexcept { ::dlclose(library); }
};
using Library = std::unique_ptr<void, CloseLibrary>;

struct CloseFolder {
  void operator()(DIR* folder) const noexcept { ::closedir(folder); }
};

// The dynamic loader reports a lack of memory only in its text.
bool is_out_of_memory(const std::string& why) {
  return why.find(::strerror(ENOMEM)) != std::string::npos || why.find("out of memory") != std::string::npos;
}

// The dynamic loader searches for a name without a slash; usually there is no such file.
// -FI_ENOMEM when memory runs out; a refused plug-in is no error.
Status load_plugin(Registry& registry, const std::string& file, bool preferred = false) {
  // Local: two plug-ins may define the same helper symbols.
  Library library(::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (!library) {
    const char* error = ::dlerror();
    if (error == nullptr) return Status(-FI_ENOMEM);  // no memory for the message
    const std::string why = error;
    if (is_out_of_memory(why)) return Status(-FI_ENOMEM);
    // The message starts with the bare name only if the file was not found, otherwise with a path or a dependency.
    if (file.find('/') == std::string::npos && why.starts_with(file)) return Status();
    FI_WARN(&core_provider(), FI_LOG_CORE, "plug-in %s refused: %s\n", file.c_str(), why.c_str());
    if (why.find("FABRIC_") != std::string::npos) {
      FI_WARN(&core_provider(), FI_LOG_CORE,
              "plug-in %s was built for a newer libfabric; this one is %d.%d and defines FABRIC_1.0 to FABRIC_1.10\n",
              file.c_str(), FI_MAJOR_VERSION, FI_MINOR_VERSION);
    }
    return Status();
  }
  if (registry.has_library(library.get())) return Status();  // a second file name, or an earlier load ended early
  using Entry = fi_provider* (*)();
  const auto entry = reinterpret_cast<Entry>(::dlsym(library.get(), "fi_prov_ini"));
  if (entry == nullptr) {
    FI_WARN(&core_provider(), FI_LOG_CORE, "plug-in %s refused: it exports no fi_prov_ini\n", file.c_str());
    return Status();
  }
  fi_provider* provider = entry();
  if (provider == nullptr) {
    FI_INFO(&core_provider(), FI_LOG_CORE, "plug-in %s has nothing to offer on this machine\n", file.c_str());
    return Status();
  }
  if (registry.register_provider(provider, {file, library.get(), preferred}))
    static_cast<void>(library.release());
  else if (provider->cleanup != nullptr && !registry.has_provider(provider))
    provider->cleanup();  // the provider may have started threads
  return Status();
}

// The plug-ins of a folder, in reverse alphabetical order. readdir and not std::filesystem, whose iterators allocate in
// functions that must not throw.
Result<std::vector<std::string>> plugins_in(const std::string& folder) {
  const std::unique_ptr<DIR, CloseFolder> stream(::opendir(folder.c_str()));
  if (!stream) return failure(errno);
  const std::string prefix = folder.ends_with('/') ? folder : folder + "/";
  std::vector<std::string> files;
  for (errno = 0; const dirent* entry = ::readdir(stream.get()); errno = 0) {
    if (std::string_view(entry->d_name).ends_with(FI_LIB_SUFFIX)) files.push_back(prefix + entry->d_name);
  }
  if (errno != 0) return failure(errno);
  std::ranges::sort(files, std::greater<>());
  return files;
}

Status load_folder(Registry& registry, const std::string& folder) {
  const Result<std::vector<std::string>> files = plugins_in(folder);
  if (!files) {
    if (files.error().code() == -FI_ENOMEM) return files.error();
    if (files.error().code() != -FI_ENOENT || folder != default_plugin_folder()) {
      FI_WARN(&core_provider(), FI_LOG_CORE, "cannot search folder %s for plug-ins: %s\n", folder.c_str(),
              fi_strerror(files.error().error()));
    }
    return Status();
  }
  for (const std::string& file : *files) {
    if (const Status status = load_plugin(registry, file); !status.ok()) return status;
  }
  return Status();
}

}  // namespace

std::string default_plugin_folder() {
  static constexpr char kHere = 0;
  Dl_info self{};
  ::dladdr(&kHere, &self);
  const std::string library = self.dli_fname == nullptr ? "" : self.dli_fname;
  return library.substr(0, library.rfind('/') + 1) + "libfabric";  // npos + 1 is 0
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

Status load_plugins(Registry& registry, const PluginPath& path) {
  Status status;
  for (std::string_view name : known_providers()) {
    if (!path.by_name || !status.ok()) break;
    if (name.starts_with("ofi_") || name.starts_with("off_")) name.remove_prefix(4);
    status = load_plugin(registry, "lib" + std::string(name) + "-" FI_LIB_SUFFIX);
  }
  for (const std::string& file : path.preferred) {
    if (status.ok()) status = load_plugin(registry, file, true);
  }
  for (const std::string& folder : path.folders) {
    if (status.ok()) status = load_folder(registry, folder);
  }
  return status;
}

}  // namespace weft::core
