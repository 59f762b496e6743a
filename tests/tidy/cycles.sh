#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# cycles.sh ROOT: in each folder of src and prov, sub-folders included, at most two rooms form a cycle of includes. A room
# is a .cc with its .h. This also holds with each sub-folder as one room. The measure is the number of rooms in the
# largest cycle.
set -eu
. "$(dirname "$0")/sources.sh"
scan '^(src|prov)/.*\.(h|cc)$' '
  function room_of(path) { sub(/\.(h|cc)$/, "", path); return path }
  function folder_of(path,   word) { split(path, word, "/"); return word[1] "/" word[2] }
  # A sub-folder with its slash stands for the rooms in it.
  function coarse_of(room,   word) { return split(room, word, "/") > 3 ? word[1] "/" word[2] "/" word[3] "/" : room }
  function add(list, folder, room) { list[folder] = list[folder] (seen[folder, room]++ ? "" : " " room) }
  FNR == 1 {
    room = room_of(FILENAME)
    coarse = coarse_of(room)
    folder = folder_of(FILENAME)
    add(rooms, folder, room)
    add(coarse_rooms, folder " ", coarse)
  }
  /^#include "/ {
    name = $2
    gsub(/"/, "", name)
    name = room_of(name)
    # Includes are relative to src and to prov; a name without a folder is beside its includer.
    if (index(name, "/") == 0) target = substr(room, 1, length(room) - length(last(room))) name
    else target = (folder ~ /^prov/ ? "prov/" : "src/") name
    if (target != room && folder_of(target) == folder) reach[room, target] = 1
    if (coarse_of(target) != coarse && folder_of(target) == folder) coarse_reach[coarse, coarse_of(target)] = 1
  }
  function last(path) { return substr(path, match(path, /[^\/]*\/?$/)) }
  END {
    for (folder in rooms) report(folder, rooms[folder], reach)
    for (folder in coarse_rooms) report(substr(folder, 1, length(folder) - 1), coarse_rooms[folder], coarse_reach)
  }
  function report(folder, names, reach,   n, list, i, j, k, size, text, most, which) {
    n = split(names, list, " ")
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
