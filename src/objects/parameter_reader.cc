// SPDX-License-Identifier: BSD-2-Clause
// Parameters of providers; see parameter_reader.h.
#include "objects/parameter_reader.h"

#include <sstream>

namespace weft {

bool ParameterReader::read_number(const char* name, int& value, int lowest, int highest) const {
  const int result = fi_param_get_int(&provider_, name, &value);
  if (result == -FI_ENODATA) return false;
  if (result == 0 && value >= lowest && value <= highest) return true;
  FI_WARN(&provider_, FI_LOG_CORE, "parameter %s must be a number from %d to %d; it is ignored\n", name, lowest,
          highest);
  return false;
}

void ParameterReader::toggle(const char* name, bool& value) const {
  int given = 0;
  if (fi_param_get_bool(&provider_, name, &given) == 0) value = given != 0;
}

void ParameterReader::text(const char* name, std::string& value) const {
  char* given = nullptr;
  if (fi_param_get_str(&provider_, name, &given) == 0 && given != nullptr) value = given;
}

void ParameterReader::names(const char* name, std::vector<std::string>& list) const {
  std::string given;
  text(name, given);
  std::istringstream words(given);
  for (std::string word; std::getline(words, word, ',');)
    if (!word.empty()) list.push_back(word);
}

}  // namespace weft
