// SPDX-License-Identifier: BSD-2-Clause
// Captures the library's log for the lifetime of the object; fi_provider(3) fi_import_log. One at a time.
#pragma once

#include <gtest/gtest.h>
#include <rdma/fi_ext.h>
#include <rdma/providers/fi_log.h>

#include <mutex>
#include <string>

class LogCapture {
 public:
  LogCapture() {
    lines().text.clear();
    EXPECT_EQ(fi_import_log(FI_VERSION(1, 18), 0, &log_), 0);
  }
  ~LogCapture() { fi_close(&log_.fid); }
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  std::string text() const {
    std::lock_guard lock(lines().mutex);
    return lines().text;
  }
  bool has(const std::string& words) const { return text().find(words) != std::string::npos; }

 private:
  struct Lines {
    std::mutex mutex;
    std::string text;
  };
  static Lines& lines() {
    static Lines all;
    return all;
  }
  static int is_wanted(fi_log_level level) { return level <= FI_LOG_INFO; }
  static void write(const fi_provider*, fi_log_level, fi_log_subsys, const char*, int, const char* message) {
    std::lock_guard lock(lines().mutex);
    lines().text.append(message).append("\n");
  }

  fi_ops_log ops_{
      sizeof(fi_ops_log),
      [](const fi_provider*, fi_log_level level, fi_log_subsys, uint64_t) { return is_wanted(level); },
      [](const fi_provider*, fi_log_level level, fi_log_subsys, uint64_t, uint64_t*) { return is_wanted(level); },
      write};
  fid_logging log_{{}, &ops_};
};
