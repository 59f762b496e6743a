// SPDX-License-Identifier: BSD-2-Clause
// The fixture of the core's tests; see fake_provider.h.
#include "fake_provider.h"

#include <algorithm>
#include <mutex>

extern char** environ;

namespace weft::core {
namespace {

std::mutex lines_mutex;
std::vector<std::string> lines;
fi_log_level recorded_level;

int log_enabled(const fi_provider*, fi_log_level level, fi_log_subsys, uint64_t flags) {
  return level <= recorded_level && flags == 0;
}
int log_ready(const fi_provider* provider, fi_log_level level, fi_log_subsys subsys, uint64_t flags, uint64_t*) {
  return log_enabled(provider, level, subsys, flags);
}
void log_line(const fi_provider*, fi_log_level, fi_log_subsys, const char*, int, const char* message) {
  const std::lock_guard lock(lines_mutex);
  lines.emplace_back(message);
}
fi_ops_log handler{sizeof handler, log_enabled, log_ready, log_line};

}  // namespace

std::vector<ProviderEntry>& builtins() {
  static std::vector<ProviderEntry> entries;
  return entries;
}

std::span<const ProviderEntry> builtin_providers() noexcept {
  return builtins();
}

void CoreTest::SetUp() {
  unload();
  std::vector<std::string> names;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view name = std::string_view(*each).substr(0, std::string_view(*each).find('='));
    if (name.starts_with("FI_")) names.emplace_back(name);
  }
  for (const std::string& name : names) ::unsetenv(name.c_str());
  set("FI_PROVIDER_PATH", "");  // no plug-ins unless a test sets it
  builtins().clear();
  lines.clear();
}

void CoreTest::TearDown() {
  unload();
  builtins().clear();
}

void CoreTest::record(fi_log_level level) {
  recorded_level = level;
  state().log.install(&handler);
}

std::vector<std::string>& CoreTest::log() {
  return lines;
}

bool CoreTest::logged(const std::string& part) {
  return std::ranges::any_of(lines, [&](const std::string& line) { return line.find(part) != std::string::npos; });
}

std::vector<std::string> CoreTest::getinfo(const fi_info* hints, uint64_t flags, uint32_t version) {
  fi_info* info = nullptr;
  error_ = fi_getinfo(version, nullptr, nullptr, flags, hints, &info);
  std::vector<std::string> names;
  for (const fi_info* each = info; each != nullptr; each = each->next) {
    names.emplace_back(each->fabric_attr->prov_name);
  }
  fi_freeinfo(info);
  return names;
}

std::vector<std::string> CoreTest::getinfo_named(const char* prov_name) {
  const InfoPtr hints(allocate_info());
  hints->fabric_attr->prov_name = ::strdup(prov_name);
  return getinfo(hints.get());
}

}  // namespace weft::core
