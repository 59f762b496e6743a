// SPDX-License-Identifier: BSD-2-Clause
// libfabric.conf: lines of NAME=value that stand in for environment variables, or override them when
// FI_PREFER_SYSCONFIG is set; fabric(7), ENVIRONMENT VARIABLE CONTROLS.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace weft::core {

// Immutable once built, so reading needs no lock and the strings stay where they are.
class ConfigFile {
 public:
  ConfigFile() = default;
  // Blank lines and lines that start with '#' are skipped, as is anything without '='; blanks around name and value do
  // not count; the last of two equal names wins.
  explicit ConfigFile(std::string_view text);

  // An absent or unreadable file is an empty one.
  static ConfigFile read(const char* path);

  // nullptr when the file does not name it.
  const char* find(const std::string& name) const;

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace weft::core
