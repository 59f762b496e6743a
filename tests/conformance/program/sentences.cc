// SPDX-License-Identifier: BSD-2-Clause
// The table is compiled in: CMakeLists.txt makes sentences.inc from sentences.tsv.
#include "program/sentences.h"

#include <fnmatch.h>

#include <algorithm>
#include <string>

namespace conform {

const std::vector<Sentence>& sentences() {
  static const std::vector<Sentence> ordered = [] {
    std::vector<Sentence> list{
#include "sentences.inc"
    };
    std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.page < b.page; });
    return list;
  }();
  return ordered;
}

bool selects(std::string_view pattern, const Sentence& sentence) {
  const auto matches = [&](std::string_view text) {
    return fnmatch(std::string(pattern).c_str(), std::string(text).c_str(), 0) == 0;
  };
  return matches(sentence.id) || matches(sentence.page) || matches(sentence.id.substr(0, sentence.id.find('.')));
}

}  // namespace conform
