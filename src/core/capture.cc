// SPDX-License-Identifier: BSD-2-Clause
// The reason for which a provider refuses; see capture.h.
#include "core/capture.h"

#include <algorithm>
#include <new>

#include "core/name_list.h"

namespace weft::core {
namespace {

// A provider logs its last candidate last: one line with its own value, one with the requested value.
constexpr std::size_t kLines = 4;

thread_local Capture* innermost = nullptr;

}  // namespace

Capture::Capture() noexcept : outer_(innermost) {
  innermost = this;
}
Capture::~Capture() {
  innermost = outer_;
}
Capture* Capture::current() noexcept {
  return innermost;
}

void Capture::add(std::string_view line) noexcept try {
  line = trim(line);
  if (line.empty()) return;
  std::erase(lines_, line);  // ten interfaces may give the same reason
  if (lines_.size() == kLines) lines_.erase(lines_.begin());
  lines_.emplace_back(line);
} catch (const std::bad_alloc&) {
}

std::string Capture::reason() const {
  std::string text;
  for (const std::string& line : lines_) {
    if (!text.empty()) text += "; ";
    text += line;
  }
  return text;
}

}  // namespace weft::core
