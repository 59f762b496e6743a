#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# quotes.sh DOCUMENTS: each block of C in the pages of the guide is a part of a program in examples/, so that it is compiled
# and run. Indentation and whole lines of comment may differ.
set -eu
cd "$1"
awk '
  function add(text) {
    sub(/^[ \t]+/, "", text)
    sub(/[ \t]+$/, "", text)
    return text == "" || text ~ /^\/\// ? "" : text "\n"
  }
  FNR == 1 { inside = 0 }
  FILENAME ~ /\.[ch]$/ { programs[FILENAME] = programs[FILENAME] add($0); next }
  /^```c$/ { inside = 1; block = ""; line = FNR; next }
  /^```/ && inside {
    inside = 0
    blocks++
    found = 0
    for (name in programs) if (index("\n" programs[name], "\n" block)) found = 1
    if (!found) {
      printf "%s:%d: in no program of examples/:\n%s", FILENAME, line, block
      faults++
    }
  }
  inside { block = block add($0) }
  END {
    printf "%d blocks: %d are in no program\n", blocks, faults
    exit faults > 0 || blocks < 15
  }' examples/*.[ch] guide/*.md
