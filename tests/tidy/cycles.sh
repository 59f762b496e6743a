#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# cycles.sh ROOT: in each folder of src and prov, sub-folders included, at most two rooms form a cycle of includes. A room
# is a .cc with its .h. The measure is the number of rooms in the largest cycle.
set -eu
. "$(dirname "$0")/sources.sh"
scan '^(src|prov)/.*\.(h|cc)$' '
  function room_of(path) { sub(/\.(h|cc)$/, "", path); return path }
  function folder_of(path,   word) { split(path, word, "/"); return word[1] "/" word[2] }
  FNR == 1 { room = room_of(FILENAME); folder = folder_of(FILENAME); rooms[folder] = rooms[folder] (seen[room]++ ? "" : " " room) }
  /^#include "/ {
    name = $2
    gsub(/"/, "", name)
    name = room_of(name)
    # Includes are relative to src and to prov; a name without a folder is beside its includer.
    if (index(name, "/") == 0) target = substr(room, 1, length(room) - length(last(room))) name
    else target = (folder ~ /^prov/ ? "prov/" : "src/") name
    if (target != room && folder_of(target) == folder) reach[room, target] = 1
  }
  function last(path) { sub(/^.*\//, "", path); return path }
  END {
    for (folder in rooms) report(folder)
  }
  function report(folder,   n, list, i, j, k, size, text, most, which) {
    n = split(rooms[folder], list, " ")
    for (k = 1; k <= n; k++)
      for (i = 1; i <= n; i++)
        if ((list[i], list[k]) in reach)
          for (j = 1; j <= n; j++)
            if ((list[k], list[j]) in reach) reach[list[i], list[j]] = 1
    most = 0
    for (i = 1; i <= n; i++) {
      size = 1
      text = last(list[i])
      for (j = 1; j <= n; j++)
        if (i != j && ((list[i], list[j]) in reach) && ((list[j], list[i]) in reach)) { size++; text = text " " last(list[j]) }
      if (size > most) { most = size; which = text }
    }
    if (most > 2) printf "%s\t%d\trooms that include each other: %s\n", folder, most, which
  }' | judge cycles
