// SPDX-License-Identifier: BSD-2-Clause
// Finding and loading provider plug-ins; fabric(7) PROVIDER INSTALLATION AND SELECTION, fi_provider(3) fi_prov_ini.
#pragma once

#include <string>
#include <vector>

namespace weft::core {

class Registry;

// FI_PROVIDER_PATH taken apart: "@" in front, folders and "+file" entries between colons.
struct PluginPath {
  bool by_name = false;                // also where the dynamic loader looks for libraries, under known names
  bool first_wins = false;             // of two providers of one name the first one loaded, not the highest version
  std::vector<std::string> preferred;  // files
  std::vector<std::string> folders;    // never empty: the default one when the variable names none
};
PluginPath parse_plugin_path(const char* variable);  // nullptr when it is not set

// $(libdir)/libfabric: the folder "libfabric" beside this library, wherever that was installed.
std::string default_plugin_folder();

// Registers every plug-in there is. One that is refused is named in the log with the reason.
void load_plugins(Registry& registry, const PluginPath& path);

}  // namespace weft::core
