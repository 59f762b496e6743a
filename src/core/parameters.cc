// SPDX-License-Identifier: BSD-2-Clause
// Run-time parameters; fi_provider(3).
#include "core/parameters.h"

#include <fmt/format.h>
#include <rdma/fi_errno.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "core/name_list.h"

namespace weft::core {
namespace {

constexpr std::size_t kMostComplaints = 8;

// Only blanks may follow the number.
bool ends_clean(const char* text, const char* end) {
  return end != text && trim(end).empty();
}

}  // namespace

std::string Parameters::variable(const fi_provider* provider, std::string_view name) {
  std::string variable = "FI_";
  if (provider != nullptr && provider->name != nullptr) variable.append(provider->name).append("_");
  variable.append(name);
  std::ranges::transform(variable, variable.begin(), upper_case);
  return variable;
}

void Parameters::define(std::string variable, fi_param_type type, std::string help) {
  const std::lock_guard lock(mutex_);
  const bool known = std::ranges::any_of(defined_, [&](const Parameter& p) { return p.name == variable; });
  if (!known) defined_.push_back({std::move(variable), type, std::move(help)});
}

const Parameter* Parameters::find(const fi_provider* provider, std::string_view name) const noexcept {
  const bool core = provider == nullptr || provider->name == nullptr;
  const std::size_t size = sizeof "FI_" - 1 + (core ? 0 : std::strlen(provider->name) + 1) + name.size();
  const auto is_wanted = [&](std::string_view variable) {
    if (variable.size() != size) return false;
    const auto skip = [&](std::string_view part) {
      const bool starts = equal_ignoring_case(variable.substr(0, part.size()), part);
      if (starts) variable.remove_prefix(part.size());
      return starts;
    };
    return skip("FI_") && (core || (skip(provider->name) && skip("_"))) && equal_ignoring_case(variable, name);
  };
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(defined_, is_wanted, &Parameter::name);
  return found == defined_.end() ? nullptr : &*found;
}

std::vector<const Parameter*> Parameters::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<const Parameter*> list;
  for (const Parameter& parameter : defined_) list.push_back(&parameter);
  return list;
}

const char* Parameters::text(const std::string& variable) const {
  const char* from_file = config_.find(variable);
  const char* from_environment = ::secure_getenv(variable.c_str());
  if (from_file == nullptr || (from_environment != nullptr && !prefer_config_)) return from_environment;
  return from_file;
}

std::vector<std::string> Parameters::set_by_user(std::string_view prefix) const {
  std::vector<std::string> names;
  for (const auto& [name, value] : config_.values()) names.push_back(name);
  for (char** each = ::environ; each != nullptr && *each != nullptr; ++each) {
    const std::string_view variable = *each;
    names.emplace_back(variable.substr(0, variable.find('=')));
  }
  // text() ignores the environment of a set-user-ID program.
  std::erase_if(names, [&](const std::string& name) { return !name.starts_with(prefix) || text(name) == nullptr; });
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

bool Parameters::flag(const char* variable, bool otherwise) const {
  const char* value = text(variable);
  return value == nullptr ? otherwise : parse_flag(value).value_or(otherwise);
}

long Parameters::integer(const char* variable, long otherwise, int base) const {
  const char* value = text(variable);
  if (value == nullptr) return otherwise;
  const Result<int> number = parse_int(value, base);
  return number ? *number : otherwise;
}

std::string Parameters::wrong_type(const std::string& variable, const char* value) const {
  return fmt::format("variable {}={}{} has the wrong type and is ignored", variable, value,
                     value == config_.find(variable) ? " in " WEFT_SYSCONFDIR "/libfabric.conf" : "");
}

Result<bool> parse_flag(std::string_view text) {
  text = trim(text);
  for (const char* word : {"0", "false", "no", "off"}) {
    if (equal_ignoring_case(text, word)) return false;
  }
  for (const char* word : {"1", "true", "yes", "on"}) {
    if (equal_ignoring_case(text, word)) return true;
  }
  return failure(FI_EINVAL);
}

Result<int> parse_int(const char* text, int base) {
  char* end = nullptr;
  const long long value = std::strtoll(text, &end, base);
  if (!ends_clean(text, end) || !std::in_range<int>(value)) return failure(FI_EINVAL);
  return static_cast<int>(value);
}

Result<std::size_t> parse_size(const char* text) {
  // strtoull converts "-1" to the largest number.
  if (trim(text).starts_with('-')) return failure(FI_EINVAL);
  char* end = nullptr;
  errno = 0;
  const unsigned long long value = std::strtoull(text, &end, 0);
  if (!ends_clean(text, end) || errno == ERANGE) return failure(FI_EINVAL);
  return value;
}

ConfigFile::ConfigFile(std::string_view text) {
  std::size_t number = 0;
  for (std::string_view line : split(text, '\n')) {
    line = trim(line);
    ++number;
    if (line.empty() || line.starts_with('#')) continue;
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) {
      if (complaints_.size() < kMostComplaints)
        complaints_.push_back(fmt::format("line {} is not NAME=value and is ignored", number));
      continue;
    }
    values_[std::string(trim(line.substr(0, equals)))] = trim(line.substr(equals + 1));
  }
}

ConfigFile ConfigFile::read(const char* path) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path, "re"), std::fclose);
  std::string text;
  char piece[4096];
  int error = file == nullptr ? errno : 0;
  while (error == 0) {
    const std::size_t size = std::fread(piece, 1, sizeof piece, file.get());
    text.append(piece, size);
    if (size == 0) break;
  }
  if (file != nullptr && std::ferror(file.get()) != 0) error = errno;
  ConfigFile config(text);
  if (error != 0 && error != ENOENT)
    config.complaints_.push_back(fmt::format("the file cannot be read: {}", std::strerror(error)));
  return config;
}

const char* ConfigFile::find(const std::string& name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? nullptr : found->second.c_str();
}

}  // namespace weft::core
