// SPDX-License-Identifier: BSD-2-Clause
// Run-time parameters, which fi_param_define declares and fi_param_get reads from the environment and libfabric.conf;
// fi_provider(3) fi_param_define / fi_param_get.
#pragma once

#include <rdma/fabric.h>
#include <rdma/providers/fi_prov.h>

#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace weft::core {

// Immutable, so reading needs no lock and the strings keep their addresses.
// libfabric.conf: lines of NAME=value that replace unset environment variables, or override set ones when
// FI_PREFER_SYSCONFIG is true; fabric(7) ENVIRONMENT VARIABLE CONTROLS.
class ConfigFile {
 public:
  ConfigFile() = default;
  // Skips blank lines, lines that start with '#' and lines without '='. Trims blanks around name and value. The last of
  // two equal names wins.
  explicit ConfigFile(std::string_view text);

  // An absent or unreadable file counts as empty.
  static ConfigFile read(const char* path);

  // Sentences about the lines that are neither blank, nor a comment, nor NAME=value, and about an unreadable file.
  const std::vector<std::string>& complaints() const noexcept { return complaints_; }

  // nullptr when the file does not set `name`.
  const char* find(const std::string& name) const;
  const std::map<std::string, std::string>& values() const noexcept { return values_; }

 private:
  std::map<std::string, std::string> values_;
  std::vector<std::string> complaints_;
};

struct Parameter {
  std::string name;  // the environment variable
  fi_param_type type;
  std::string help;
};

// Thread-safe. Logs nothing, because the log reads its own settings here; the exported calls log instead.
class Parameters {
 public:
  // `prefer_config`: the file wins over the environment.
  explicit Parameters(ConfigFile config, bool prefer_config = false)
      : config_(std::move(config)), prefer_config_(prefer_config) {}

  // FI_<PROVIDER>_<NAME>, or FI_<NAME> for the core's own (nullptr).
  static std::string variable(const fi_provider* provider, std::string_view name);

  // Keeps the first definition of a name.
  void define(std::string variable, fi_param_type type, std::string help);

  // The definition, or nullptr. Valid as long as this object. Needs no memory: a setting is not lost for lack of it.
  const Parameter* find(const fi_provider* provider, std::string_view name) const noexcept;
  std::vector<const Parameter*> all() const;

  // The user's current setting, or nullptr. Points into the environment or the file.
  const char* text(const std::string& variable) const;

  // The warning about a setting that cannot be read; it names libfabric.conf if `value` is from there.
  std::string wrong_type(const std::string& variable, const char* value) const;
  const ConfigFile& config() const noexcept { return config_; }

  // The names that begin with `prefix` and have a setting, sorted.
  std::vector<std::string> set_by_user(std::string_view prefix) const;

  // The core's own settings, read as text and parsed as below; `otherwise` when unset or wrong.
  bool flag(const char* variable, bool otherwise) const;
  long integer(const char* variable, long otherwise, int base = 0) const;

 private:
  const ConfigFile config_;
  const bool prefer_config_;
  mutable std::mutex mutex_;
  std::deque<Parameter> defined_;  // guarded by mutex_; elements never move and never change
};

// 0/false/no/off and 1/true/yes/on in any case. -FI_EINVAL otherwise.
Result<bool> parse_flag(std::string_view text);
// A whole number in C notation (decimal, 0x, 0). -FI_EINVAL for anything else and for numbers out of range.
Result<int> parse_int(const char* text, int base = 0);
Result<std::size_t> parse_size(const char* text);

}  // namespace weft::core
