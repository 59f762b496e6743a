// SPDX-License-Identifier: BSD-2-Clause
// Parameters of providers; see parameter_rows.h.
#include "objects/parameter_rows.h"

#include <rdma/providers/fi_log.h>

#include <cinttypes>
#include <sstream>
#include <type_traits>
#include <utility>

namespace weft {
namespace {

// One parameter while it is read.
struct Reading {
  fi_provider* provider;
  const char* name;
  std::int64_t lowest;
  std::int64_t highest;

  template <class T>
  void operator()(T* value) const {
    std::conditional_t<std::is_same_v<T, std::size_t>, std::size_t, int> given = 0;  // as defined
    const int result = fi_param_get(provider, name, &given);
    if (result == -FI_ENODATA || result == -FI_EINVAL) return;  // unset; or no number, which the library has logged
    if (result == 0 && std::cmp_greater_equal(given, lowest) && std::cmp_less_equal(given, highest))
      *value = static_cast<T>(given);
    else
      FI_WARN(provider, FI_LOG_CORE, "parameter %s must be a number from %" PRId64 " to %" PRId64 "; it is ignored\n",
              name, lowest, highest);
  }
  void operator()(bool* value) const {
    int given = 0;
    if (fi_param_get_bool(provider, name, &given) == 0) *value = given != 0;
  }
  void operator()(std::string* value) const {
    char* given = nullptr;
    if (fi_param_get_str(provider, name, &given) == 0 && given != nullptr) *value = given;
  }
  void operator()(std::vector<std::string>* value) const {
    std::string given;
    (*this)(&given);
    std::istringstream words(given);
    for (std::string word; std::getline(words, word, ',');)
      if (!word.empty()) value->push_back(word);
  }
};

// One parameter while it is defined.
struct Definition {
  const fi_provider* provider;
  const char* name;
  const char* help;
  const char* otherwise;

  void define(fi_param_type type, const char* value) const {
    fi_param_define(provider, name, type, "%s (default: %s)", help, otherwise != nullptr ? otherwise : value);
  }
  template <class T>
  void operator()(T* value) const {
    define(std::is_same_v<T, std::size_t> ? FI_PARAM_SIZE_T : FI_PARAM_INT, std::to_string(*value).c_str());
  }
  void operator()(bool* value) const { define(FI_PARAM_BOOL, *value ? "yes" : "no"); }
  void operator()(std::string*) const { define(FI_PARAM_STRING, "all"); }
  void operator()(std::vector<std::string>*) const { define(FI_PARAM_STRING, "all"); }
};

}  // namespace

void define_parameter(const fi_provider* provider, const char* name, ParameterValue value, const char* help,
                      const char* otherwise) {
  std::visit(Definition{provider, name, help, otherwise}, value);
}

void read_parameter(fi_provider* provider, const char* name, ParameterValue value, std::int64_t lowest,
                    std::int64_t highest) {
  std::visit(Reading{provider, name, lowest, highest}, value);
}

}  // namespace weft
