// SPDX-License-Identifier: BSD-2-Clause
// Reads the parameters that a provider has declared with fi_param_define; fi_provider(7). A parameter that nobody set
// leaves its value alone, and so does a wrong one, which is logged.
#pragma once

#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

#include <limits>
#include <string>
#include <vector>

namespace weft {

class ParameterReader {
 public:
  // For parameters that only the range of an int limits.
  static constexpr int kMaxInt = std::numeric_limits<int>::max();

  explicit ParameterReader(fi_provider& provider) noexcept : provider_(provider) {}

  // An integer of lowest..highest.
  template <class T>
  void number(const char* name, T& value, int lowest, int highest) const {
    int given = 0;
    if (read_number(name, given, lowest, highest)) value = static_cast<T>(given);
  }
  void toggle(const char* name, bool& value) const;
  void text(const char* name, std::string& value) const;
  // Names separated by commas, appended to `list`.
  void names(const char* name, std::vector<std::string>& list) const;

 private:
  bool read_number(const char* name, int& value, int lowest, int highest) const;

  fi_provider& provider_;
};

}  // namespace weft
