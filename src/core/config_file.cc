// SPDX-License-Identifier: BSD-2-Clause
// The parser of libfabric.conf; fabric(7).
#include "core/config_file.h"

#include <fstream>
#include <sstream>

#include "core/name_list.h"

namespace weft::core {

ConfigFile::ConfigFile(std::string_view text) {
  for (std::string_view line : split(text, '\n')) {
    line = trim(line);
    const std::size_t equals = line.find('=');
    if (line.starts_with('#') || equals == std::string_view::npos) continue;
    values_[std::string(trim(line.substr(0, equals)))] = trim(line.substr(equals + 1));
  }
}

ConfigFile ConfigFile::read(const char* path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  return ConfigFile(text.view());
}

const char* ConfigFile::find(const std::string& name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? nullptr : found->second.c_str();
}

}  // namespace weft::core
