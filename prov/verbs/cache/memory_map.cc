// SPDX-License-Identifier: BSD-2-Clause
// The kind of the process's memory; see memory_map.h.
#include "verbs/cache/memory_map.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "base/unique_fd.h"

namespace weft::verbs {
namespace {

struct Mapping {
  MemoryRange range;
  bool is_fit = false;
};

// A line is "start-end rwxp offset device inode   path".
bool parse(const char* line, Mapping& mapping) noexcept {
  unsigned long start = 0, end = 0, inode = 1;
  char rights[5] = "";
  if (std::sscanf(line, "%lx-%lx %4s %*s %*s %lu", &start, &end, rights, &inode) != 4) return false;
  mapping = {{start, end}, rights[3] == 'p' && inode == 0};
  return true;
}

}  // namespace

bool is_private_anonymous(const MemoryRange& range) noexcept {
  const UniqueFd maps(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
  if (!maps) return false;
  char text[4096 + 1];
  std::size_t filled = 0;
  std::uintptr_t at = range.start;  // the part of `range` before it is private and anonymous
  for (ssize_t size = 0; (size = ::read(maps.get(), text + filled, sizeof text - 1 - filled)) > 0;) {
    filled += static_cast<std::size_t>(size);
    text[filled] = '\0';
    char* line = text;
    for (char* newline = nullptr; (newline = std::strchr(line, '\n')) != nullptr; line = newline + 1) {
      *newline = '\0';
      Mapping mapping;
      if (!parse(line, mapping)) return false;
      if (mapping.range.end <= at) continue;
      if (mapping.range.start > at || !mapping.is_fit) return false;
      at = mapping.range.end;
      if (at >= range.end) return true;
    }
    filled -= static_cast<std::size_t>(line - text);
    std::memmove(text, line, filled);
    if (filled == sizeof text - 1) return false;  // a longer path than there is room for
  }
  return false;
}

}  // namespace weft::verbs
