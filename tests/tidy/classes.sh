#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# classes.sh ROOT RULE LIMIT: the rules `methods` and `members`: no class of src and prov declares more than LIMIT of them.
# Methods that fill a slot of the C interface (src/abi/ops.h) do not count.
set -eu
rule=$2 limit=$3
. "$(dirname "$0")/sources.sh"
slots=" $(cd "$root" && cat src/abi/*.h 2>/dev/null | sed -n 's/.*WEFT_SLOT(\([a-z_]*\)).*/\1/p; s/.*WEFT_SLOT_AS([a-z_]*, *\([a-z_]*\)).*/\1/p' | sort -u | tr '\n' ' ')"
scan '^(src|prov)/.*\.(h|cc)$' -v slots="$slots" -f "$here/code.awk" -f "$here/classes.awk" |
  awk -F '\t' -v rule="$rule" -v limit="$limit" '
    { count = rule == "methods" ? $3 : $4 }
    count > limit { printf "%s:%s\t%d\ta class has at most %d %s\n", $1, $2, count, limit, rule }' | judge "$rule"
