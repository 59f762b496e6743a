// SPDX-License-Identifier: BSD-2-Clause
// The search for provider plug-ins; fabric(7) PROVIDER INSTALLATION AND SELECTION, fi_provider(3) fi_prov_ini.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace weft::core {

class Registry;

// FI_PROVIDER_PATH: an optional "@" in front, then folders and "+file" entries between colons.
struct PluginPath {
  bool by_name = false;                // also search the dynamic loader's folders, for known names
  bool first_wins = false;             // the first plug-in of a name wins, not the newest
  std::vector<std::string> preferred;  // files
  std::vector<std::string> folders;    // never empty: the default folder when the variable names none
};
PluginPath parse_plugin_path(const char* variable);  // nullptr: the variable is not set

// $(libdir)/libfabric: the folder "libfabric" beside this library, also when the installation was moved.
std::string default_plugin_folder();

// Registers every plug-in in the path. The log names each refused plug-in with the reason. -FI_ENOMEM: ended early.
Status load_plugins(Registry& registry, const PluginPath& path);

}  // namespace weft::core
