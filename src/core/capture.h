// SPDX-License-Identifier: BSD-2-Clause
// Why a provider refuses: while one answers fi_getinfo, what it logs on this thread is kept, whether or not the user
// asked for a log. The last lines are its reason. It works for plug-ins of any make, because fi_log is all they have.
#pragma once

#include <rdma/providers/fi_log.h>

#include <string>
#include <string_view>
#include <vector>

namespace weft::core {

// Installed on its thread for its own lifetime. Captures nest: a layered provider calls fi_getinfo itself, and what the
// inner call reports is a line of the outer one.
class Capture {
 public:
  Capture() noexcept;
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // The innermost of this thread, or nullptr.
  static Capture* current() noexcept;
  static bool wants(fi_log_level level) noexcept { return level <= FI_LOG_INFO && current() != nullptr; }

  // Keeps the last few distinct lines. Out of memory, it keeps fewer.
  void add(std::string_view line) noexcept;
  // All lines in one, the oldest first; empty when there are none.
  std::string reason() const;

 private:
  std::vector<std::string> lines_;
  Capture* const outer_;
};

}  // namespace weft::core
