// SPDX-License-Identifier: BSD-2-Clause
// A handler for the library's log; see library_log.h.
#include "library_log.h"

#include <fmt/format.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext.h>
#include <rdma/providers/fi_log.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::tools {
namespace {

// Never destroyed: the library may log until the process ends.
struct Catcher {
  std::mutex mutex;  // providers log from their own threads, too
  std::vector<std::string> lines;
  fi_ops fid_ops{};
  fi_ops_log ops{};
  fid_logging fid{};
};

Catcher& catcher() {
  static Catcher& instance = *new Catcher;
  return instance;
}

int on_enabled(const fi_provider*, fi_log_level level, fi_log_subsys, uint64_t flags) {
  return level == FI_LOG_WARN && !(flags & FI_LOG_PROV_FILTERED);
}

int on_ready(const fi_provider* provider, fi_log_level level, fi_log_subsys subsys, uint64_t flags, uint64_t*) {
  return on_enabled(provider, level, subsys, flags);
}

void on_log(const fi_provider* provider, fi_log_level, fi_log_subsys, const char*, int, const char* message) {
  std::string_view text(message);
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  // Lines of the core name the provider themselves.
  std::string line =
      provider->name == std::string_view("core") ? std::string(text) : fmt::format("{}: {}", provider->name, text);
  Catcher& self = catcher();
  std::lock_guard lock(self.mutex);
  if (std::find(self.lines.begin(), self.lines.end(), line) == self.lines.end()) self.lines.push_back(std::move(line));
}

// Breaks a line at blanks for a terminal of 80 columns.
std::string folded(std::string_view line) {
  constexpr std::size_t kWidth = 78;
  std::string text = "  ";
  std::size_t used = text.size();
  while (!line.empty()) {
    const std::string_view word = line.substr(0, line.find(' '));
    if (used > 6 && used + word.size() > kWidth) {
      text.pop_back();
      text += "\n      ";
      used = 6;
    }
    text += word;
    used += word.size() + 1;
    line.remove_prefix(word.size());
    if (!line.empty()) {
      text += ' ';
      line.remove_prefix(1);
    }
  }
  return text;
}

int on_close(fid*) {
  return 0;
}

}  // namespace

void catch_library_log() {
  for (const char* setting : {"FI_LOG_LEVEL", "FI_LOG_PROV", "FI_LOG_SUBSYS"})
    if (std::getenv(setting)) return;
  Catcher& self = catcher();
  self.fid_ops.size = sizeof self.fid_ops;
  self.fid_ops.close = on_close;
  self.ops.enabled = on_enabled;
  self.ops.ready = on_ready;
  self.ops.log = on_log;
  self.fid.fid.ops = &self.fid_ops;
  self.fid.ops = &self.ops;
  // A library without fi_import_log prints its log itself.
  (void)fi_import_log(FI_VERSION(1, 13), 0, &self.fid);
}

void print_getinfo_failure(int error) {
  fmt::print(stderr, "fi_getinfo: {} ({})\n", error, fi_strerror(-error));
  Catcher& self = catcher();
  std::lock_guard lock(self.mutex);
  const std::vector<std::string> lines = std::exchange(self.lines, {});
  if (lines.empty() && error == -FI_ENODATA)
    fmt::print(stderr, "No provider matches the request; FI_LOG_LEVEL=info may show more.\n");
  if (!lines.empty()) fmt::print(stderr, "Reasons from the library:\n");
  const bool fold = ::isatty(STDERR_FILENO) == 1;  // scripts search whole lines
  for (const std::string& line : lines) fmt::print(stderr, "{}\n", fold ? folded(line) : "  " + line);
}

}  // namespace weft::tools
