#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# layout.sh CC SOURCE_DIR WEFT_INCLUDE STOCK_INCLUDE WORK_DIR: every definition of the public headers (struct sizes, member
# offsets, enumerators, macros) has the same value in 1.17's headers and in ours, except those that layout_changes.list
# reviews. Names come from the compiler's debug information, so that the list is complete.
set -eu
cc=$1 here=$2 weft=$3 stock=$4 work=$5
. "$here/skip.sh"
[ -f "$stock/rdma/fabric.h" ] || skip "libfabric-dev is not installed ($stock/rdma/fabric.h)"
mkdir -p "$work"
cd "$work"

# names INCLUDE OUTPUT: the definitions of one set of headers.
names() {
  echo '#include "all_headers.h"' >"$2.c"
  $cc -std=c11 -D_GNU_SOURCE -I"$1" -I"$here" -g -fno-eliminate-unused-debug-types -c "$2.c" -o "$2.o"
  readelf -wi "$2.o" >"$2.dwarf"
  $cc -std=c11 -D_GNU_SOURCE -I"$1" -I"$here" -E -dM "$2.c" >"$2.macros"
  { awk -f "$here/names.awk" "$2.dwarf" && awk -f "$here/constants.awk" "$2.macros"; } | LC_ALL=C sort -u >"$2"
}
names "$weft" weft
names "$stock" stock
[ "$(wc -l <stock)" -gt 1000 ] || { echo "found only $(wc -l <stock) names in 1.17's headers"; exit 1; }

# One program, compiled against both.
{
  LC_ALL=C comm -12 stock weft | sed 's/^/both /'
  LC_ALL=C comm -23 stock weft | sed 's/^/stock /'
  LC_ALL=C comm -13 stock weft | sed 's/^/weft /'
} | awk -f "$here/generate.awk" >layout.c
$cc -std=c11 -D_GNU_SOURCE -DWEFT=1 -w -I"$weft" -I"$here" layout.c -o layout_weft
$cc -std=c11 -D_GNU_SOURCE -DWEFT=0 -w -I"$stock" -I"$here" layout.c -o layout_stock
./layout_weft | LC_ALL=C sort >weft.facts
./layout_stock | LC_ALL=C sort >stock.facts

# "-" is 1.17's fact, "+" ours. The reviewed list is exactly the difference: a stale line fails as an unlisted one does.
{
  LC_ALL=C comm -23 stock.facts weft.facts | sed 's/^/- /'
  LC_ALL=C comm -13 stock.facts weft.facts | sed 's/^/+ /'
} | LC_ALL=C sort >found
grep '^[-+] ' "$here/layout_changes.list" | LC_ALL=C sort >reviewed
if ! diff reviewed found >unreviewed; then
  echo "1.17's headers and ours differ otherwise than layout_changes.list says (<: listed, >: found):"
  cat unreviewed
  exit 1
fi
echo "$(wc -l <stock.facts) facts of 1.17 checked, $(wc -l <reviewed) reviewed differences"
