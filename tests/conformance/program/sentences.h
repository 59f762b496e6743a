// SPDX-License-Identifier: BSD-2-Clause
// The table of sentences.tsv.
#pragma once
#include <string_view>
#include <vector>

namespace conform {

struct Sentence {
  std::string_view id;     // the test, "CmConnect.RequestReachesTheListener"
  std::string_view page;   // "fi_cm(3)"
  std::string_view kind;   // "manual", "beyond" or "weft"
  std::string_view since;  // the interface that introduced it, "2.0"; "-": older than 1.17
  std::string_view text;
};

// In the order of the manual pages, then of the table.
const std::vector<Sentence>& sentences();

// Whether `*` and `?` in the pattern match the id; a pattern without a dot matches a whole suite or a page.
bool selects(std::string_view pattern, const Sentence& sentence);

}  // namespace conform
