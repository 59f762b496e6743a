#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# prototypes.sh GCC SOURCE_DIR WEFT_INCLUDE STOCK_INCLUDE WORK_DIR: every function of 1.17's headers, inline or exported,
# exists in ours with the same type. 1.17's prototypes, as gcc sees them, are declared again after our headers: the
# compiler refuses a different one, and a warning made an error refuses one that we do not define.
set -eu
gcc=$1 here=$2 weft=$3 stock=$4 work=$5
. "$here/skip.sh"
[ -f "$stock/rdma/fabric.h" ] || skip "libfabric-dev is not installed ($stock/rdma/fabric.h)"
$gcc --version 2>/dev/null | grep -q 'Free Software' || skip "gcc is needed for -aux-info"
mkdir -p "$work"
cd "$work"

echo '#include "all_headers.h"' >stock.c
$gcc -std=c11 -D_GNU_SOURCE -I"$stock" -I"$here" -aux-info stock.aux -c stock.c -o /dev/null
{
  echo '#include "all_headers.h"'
  # "/* FILE:LINE:NF */ static int fi_x (...); /* ... */" for everything that a file below rdma/ declares.
  sed -n "s|^/\* $stock/rdma/[^ ]* \*/ \(.*[ *]fid\{0,1\}_[a-z0-9_]* (.*);\) /\*.*|\1|p
          s|^/\* $stock/rdma/[^ ]* \*/ \(.*[ *]fid\{0,1\}_[a-z0-9_]* (.*);\)\$|\1|p" stock.aux | LC_ALL=C sort -u
} >prototypes.c
count=$(grep -c ';$' prototypes.c)
[ "$count" -gt 150 ] || { echo "found only $count prototypes in 1.17's headers"; exit 1; }
$gcc -std=c11 -D_GNU_SOURCE -Wall -Werror -I"$weft" -I"$here" -c prototypes.c -o prototypes.o

# An exported function that our headers forgot would pass as a fresh declaration: it must be declared by them.
$gcc -std=c11 -D_GNU_SOURCE -I"$weft" -I"$here" -aux-info weft.aux -c stock.c -o /dev/null
sed -n 's/^extern .*[ *]\(fi_[a-z0-9_]*\) (.*/\1/p' prototypes.c >exported
while read -r function; do
  grep -q "^/\* $weft.*[ *]$function (" weft.aux || { echo "$function is not declared by our headers"; exit 1; }
done <exported
echo "$count prototypes of 1.17 hold, $(wc -l <exported) of them exported"
