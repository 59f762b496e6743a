// SPDX-License-Identifier: BSD-2-Clause
// libfabric.conf: lines of NAME=value that replace unset environment variables, or override set ones when
// FI_PREFER_SYSCONFIG is true; fabric(7) ENVIRONMENT VARIABLE CONTROLS.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace weft::core {

// Immutable, so reading needs no lock and the strings keep their addresses.
class ConfigFile {
 public:
  ConfigFile() = default;
  // Skips blank lines, lines that start with '#' and lines without '='. Trims blanks around name and value. The last of
  // two equal names wins.
  explicit ConfigFile(std::string_view text);

  // An absent or unreadable file counts as empty.
  static ConfigFile read(const char* path);

  // nullptr when the file does not set `name`.
  const char* find(const std::string& name) const;
  const std::map<std::string, std::string>& values() const noexcept { return values_; }

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace weft::core
