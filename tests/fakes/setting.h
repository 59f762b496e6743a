// SPDX-License-Identifier: BSD-2-Clause
// A parameter of the environment for as long as a test needs it.
#pragma once

#include <cstdlib>

class Setting {
 public:
  Setting(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Setting() { unsetenv(name_); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
};
