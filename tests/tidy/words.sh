#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# words.sh ROOT: forbidden words: addresses of package registries (packages come through the system's own tools), paths
# and names of one machine or one writer's tools, and in the library nothing that ends the process or throws. A bracket
# in each pattern keeps this file from matching itself.
set -eu
. "$(dirname "$0")/sources.sh"
{
  scan '(\.(h|c|cc|cmake|sh|awk|py|css|svg|list|map|in|md|1|txt)|\.ci/run)$' '
    { text = tolower($0) }
    text ~ /[p]ypi\.|[n]pmjs\.|[c]rates\.io|[r]ubygems\.|[d]eb\.debian\.|[p]roxy\.golang|[c]onan\.io|[d]ocker\.io/ {
      printf "%s\t%d\tnames a package registry\n", FILENAME, FNR
    }
    # Paths of a login, of a scratch folder, of a continuous-integration machine.
    text ~ /(^|[^a-z.$}_])\/([h]ome|[r]oot|[w]ork|[u]sers|[b]uilds)\/[a-z]/ || text ~ /\/[t]mp\/(plan|build|bash)/ {
      printf "%s\t%d\tnames a path of one machine\n", FILENAME, FNR
    }
    text ~ /[c]o-authored-by|[g]enerated (by|with) (a|an|the)? ?[a-z]* ?(assistant|model)|language [m]odel/ {
      printf "%s\t%d\tnames the tool of a writer\n", FILENAME, FNR
    }
    text ~ /(^|[^a-z])([f]ixme|[t]odo)([^a-z]|$)/ { printf "%s\t%d\tis unfinished\n", FILENAME, FNR }
    /[ \t]$/ { printf "%s\t%d\tends in blanks\n", FILENAME, FNR }'
  scan '^(src|prov)/.*\.(h|cc)$' '
    { text = $0; gsub(/"[^"]*"/, "", text); sub(/\/\/.*/, "", text) }
    # `throw;` rethrows exceptions of the standard library.
    text ~ /(^|[^a-z_])throw([^;a-z_]|$)/ { printf "%s\t%d\tthrows\n", FILENAME, FNR }
    FILENAME !~ /^src\/tools\// && text ~ /(^|[^a-z_.>])(abort|exit|_exit|quick_exit|terminate) *\(/ {
      printf "%s\t%d\tends the process\n", FILENAME, FNR
    }'
} | judge words
