#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# layers.sh ROOT: every #include in a folder of layers.list is one that the folder's layer may have
# (docs/architecture.md).
set -eu
. "$(dirname "$0")/sources.sh"
# C and system headers have no folder, or one of the kernel's and libc's.
scan '^(include|src|prov|tests)/.*\.(h|c|cc)$' -v table="$here/layers.list" '
  BEGIN {
    system_folders = " sys/ net/ netinet/ arpa/ linux/ "
    while ((getline line < table) > 0) {
      if (line ~ /^#/ || line == "") continue
      n = split(line, word, " ")
      layers[++layer_count] = word[1]
      allowed[word[1]] = " "
      for (i = 2; i <= n; i++) allowed[word[1]] = allowed[word[1]] word[i] " "
    }
  }
  FNR == 1 {
    layer = ""
    for (i = 1; i <= layer_count; i++)
      if (index(FILENAME, layers[i] "/") == 1 && length(layers[i]) > length(layer)) layer = layers[i]
  }
  layer != "" && /^[ \t]*#[ \t]*include[ \t]*[<"]/ {
    name = $0
    sub(/^[ \t]*#[ \t]*include[ \t]*/, "", name)
    quoted = substr(name, 1, 1) == "\""
    name = substr(name, 2)
    sub(/[>"].*/, "", name)
    folder = match(name, /^[^\/]*\//) ? substr(name, 1, RLENGTH) : ""
    if (!quoted && (folder == "" || index(system_folders, " " folder " "))) next
    if (quoted && folder == "" && index(allowed[layer], " ./ ")) next
    if (!allows(allowed[layer], (quoted ? "" : "<") name))
      printf "%s\t%d\t%s may not include %s\n", FILENAME, FNR, layer, name
  }
  function allows(prefixes, name,   word, n, i) {
    n = split(prefixes, word, " ")
    for (i = 1; i <= n; i++) if (index(name, word[i]) == 1) return 1
    return 0
  }' | judge layers
