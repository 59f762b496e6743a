#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# classes.sh ROOT RULE LIMIT: the rules `methods` and `members`: no class of src and prov declares more than LIMIT of them.
# Methods that fill a slot of the C interface do not count: the rows of WEFT_TABLE in src/abi/ops.h name them.
# classes.sh ROOT slots: the names of these methods, one a line.
set -eu
rule=$2 limit=${3:-0}
. "$(dirname "$0")/sources.sh"
# A row is "WEFT_TABLE(table, WEFT_SLOT, method, ...)", or "WEFT_TABLE(table, WEFT_RENAMED, (slot, method), ...)".
slots() {
  awk '/^WEFT_TABLE\(/ { row = ""; inside = 1 }
    inside { row = row $0 }
    inside && /\)$/ {
      inside = 0
      sub(/^WEFT_TABLE\([^,]*,/, "", row)
      renamed = sub(/^ *WEFT_RENAMED,/, "", row)
      sub(/^ *WEFT_SLOT,/, "", row)
      if (renamed) gsub(/\( *[a-z0-9_]+ *,/, "", row)
      gsub(/[^a-z0-9_]+/, "\n", row)
      print row
    }' "$root"/src/abi/*.h 2>/dev/null | grep . | LC_ALL=C sort -u
}
if [ "$rule" = slots ]; then
  slots
  exit
fi
slots=" $(slots | tr '\n' ' ')"
scan '^(src|prov)/.*\.(h|cc)$' -v slots="$slots" -f "$here/code.awk" -f "$here/classes.awk" |
  awk -F '\t' -v rule="$rule" -v limit="$limit" '
    { count = rule == "methods" ? $3 : $4 }
    count > limit { printf "%s:%s\t%d\ta class has at most %d %s\n", $1, $2, count, limit, rule }' | judge "$rule"
