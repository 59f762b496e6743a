#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# markdown.sh SOURCE: each relative link of README.md and docs/ leads to a file or folder, and to a heading of it. Needs no
# generator.
set -eu
cd "$1"
find README.md docs -name '*.md' | LC_ALL=C sort | xargs awk '
  # The anchor that renderers make from a heading.
  function anchor(text) {
    gsub(/\]\([^)]*\)/, "", text)
    text = tolower(text)
    gsub(/[^a-z0-9_ -]/, "", text)
    gsub(/ /, "-", text)
    return text
  }
  function resolved(from, to) {
    sub(/[^\/]*$/, "", from)
    to = from to
    while (match(to, /[^\/.]+\/\.\.(\/|$)/)) to = substr(to, 1, RSTART - 1) substr(to, RSTART + RLENGTH)
    sub(/\/$/, "", to)
    return to
  }
  FNR == 1 { code = 0 }
  /^```/ { code = !code; next }
  code { next }
  /^#+ / { text = $0; sub(/^#+ /, "", text); headings[FILENAME "#" anchor(text)] = 1 }
  {
    text = $0
    gsub(/`[^`]*`/, "", text)
    while (match(text, /\]\([^) ]+\)/)) {
      link = substr(text, RSTART + 2, RLENGTH - 3)
      text = substr(text, RSTART + RLENGTH)
      if (link !~ /^[a-z]+:/) links[++count] = FILENAME "\t" FNR "\t" link
    }
  }
  END {
    for (i = 1; i <= count; i++) {
      split(links[i], part, "\t")
      split(part[3], target, "#")
      file = target[1] == "" ? part[1] : resolved(part[1], target[1])
      if (system("test -e \"" file "\"") != 0) fault = "does not exist"
      else if (target[2] != "" && !((file "#" target[2]) in headings)) fault = "has no such heading"
      else continue
      printf "%s:%s: %s %s\n", part[1], part[2], part[3], fault
      faults++
    }
    printf "%d links: %d faults\n", count, faults
    exit faults > 0 || count < 100
  }'
