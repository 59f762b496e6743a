// SPDX-License-Identifier: BSD-2-Clause
// The log behind fi_log: level, provider and subsystem filters, rate limit, destination, and the handler with which an
// application may replace it; fabric(7) LOGGING INTERFACE, fi_provider(3) fi_log_enabled / fi_import_log.
#pragma once

#include <rdma/fi_ext.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"
#include "core/name_list.h"
#include "core/parameters.h"

namespace weft::core {

// Messages are cut to this many bytes, the final NUL included.
inline constexpr std::size_t kLogMessageSize = 1024;

// The limit for lines of one place in the code: peers may cause any number of them. Thread-safe.
class LineLimit {
 public:
  static constexpr unsigned kLines = 100;  // per interval
  struct Verdict {
    bool shown;
    unsigned left_out;  // lines since the last one that was shown
  };
  Verdict admit(const char* function, int line, uint64_t now_ms, uint64_t interval_ms) noexcept;

 private:
  struct Place {
    uint64_t since_ms = 0;
    unsigned shown = 0;
    unsigned left_out = 0;
  };
  static constexpr std::size_t kPlaces = 256;  // places with the same index share a limit
  std::mutex mutex_;
  std::array<Place, kPlaces> places_;
};

// The reason for which a provider refuses; fi_getinfo(3). While a provider answers fi_getinfo, the lines that it logs
// on this thread are kept, whether or not the user enabled the log; the last lines are the reason. This works for every
// plug-in, because fi_log is the only way in which a provider reports.
//
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

// Thread-safe. The constructor reads the settings once.
class Log {
 public:
  explicit Log(const Parameters& parameters);

  // A warning of the core about a setting, whatever the settings filter.
  void warn(const std::string& text) const noexcept;

  // Declares FI_LOG_... so that `fi_info -e` lists them.
  static void define(Parameters& parameters);

  bool enabled(const fi_provider* provider, fi_log_level level, fi_log_subsys subsys) const noexcept;
  // enabled(), but only once per interval for one `showtime` (a time in ms, 0 at first, owned by the call site).
  bool ready(const fi_provider* provider, fi_log_level level, fi_log_subsys subsys, uint64_t* showtime) const noexcept;
  // One line in one write, so that lines of several threads and processes never mix. Never waits, because callers hold
  // locks that the data path needs: a line for a full pipe is lost, and so are the lines of a place beyond LineLimit.
  void write(const fi_provider* provider, fi_log_level level, fi_log_subsys subsys, const char* function, int line,
             const char* message) const noexcept;

  // `handler` replaces the log until another handler or nullptr is installed. The caller owns it; it must have all of
  // its functions and live until it is replaced or the library is no longer used.
  void install(const fi_ops_log* handler) noexcept { handler_.store(handler, std::memory_order_release); }
  const fi_ops_log* handler() const noexcept { return handler_.load(std::memory_order_acquire); }

 private:
  bool provider_filtered(const fi_provider* provider) const noexcept;
  void open_destination(const char* path, int mode);
  void put(const fi_provider* provider, fi_log_level level, fi_log_subsys subsys, const char* function, int line,
           const char* message) const noexcept;

  int level_ = -1;  // the most verbose level shown; -1 shows nothing
  unsigned subsystems_ = ~0U;
  NameFilter providers_;
  uint64_t interval_ms_ = 0;
  UniqueFd file_;  // empty: a standard stream
  int destination_ = STDERR_FILENO;
  mutable LineLimit limit_;
  std::atomic<const fi_ops_log*> handler_{nullptr};
};

// The name under which the core itself logs, for fi_log; neither registered nor callable.
inline const fi_provider& core_provider() noexcept {
  static constexpr fi_provider kCore{.version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION),
                                     .fi_version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION),
                                     .context = {},
                                     .name = "core",
                                     .getinfo = nullptr,
                                     .fabric = nullptr,
                                     .cleanup = nullptr};
  return kCore;
}

}  // namespace weft::core
