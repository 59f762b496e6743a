// SPDX-License-Identifier: BSD-2-Clause
// The reason for which a provider refuses; fi_getinfo(3). While a provider answers fi_getinfo, the lines that it logs
// on this thread are kept, whether or not the user enabled the log; the last lines are the reason. This works for every
// plug-in, because fi_log is the only way in which a provider reports.
#pragma once

#include <rdma/providers/fi_log.h>

#include <string>
#include <string_view>
#include <vector>

namespace weft::core {

// Active on the constructing thread during its lifetime. Captures nest: a layered provider calls fi_getinfo itself, and
// the report of the inner call is a line of the outer capture.
class Capture {
 public:
  Capture() noexcept;
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // The innermost capture of this thread, or nullptr.
  static Capture* current() noexcept;
  static bool wants(fi_log_level level) noexcept { return level <= FI_LOG_INFO && current() != nullptr; }

  // Keeps the last few distinct lines; fewer when memory runs out.
  void add(std::string_view line) noexcept;
  // The lines joined, the oldest first; empty without lines.
  std::string reason() const;

 private:
  std::vector<std::string> lines_;
  Capture* const outer_;
};

}  // namespace weft::core
