#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# functions.sh GCC SOURCE_DIR WEFT_INCLUDE STOCK_INCLUDE WORK_DIR: every function of 1.17's headers exists in ours with the
# same type, and every inline one compiles to the same instructions: same table, same slot, same arguments.
set -eu
gcc=$1 here=$2 weft=$3 stock=$4 work=$5
. "$here/skip.sh"
[ -f "$stock/rdma/fabric.h" ] || skip "libfabric-dev is not installed ($stock/rdma/fabric.h)"
$gcc --version 2>/dev/null | grep -q 'Free Software' || skip "gcc is needed for -aux-info"
mkdir -p "$work"
cd "$work"
compile() { $gcc -std=c11 -D_GNU_SOURCE -I"$here" "$@"; }

# 1.17's prototypes as gcc sees them: "/* FILE:LINE:NF */ static int fi_x (...); /* ... */".
echo '#include "all_headers.h"' >headers.c
compile -I"$stock" -aux-info stock.aux -c headers.c -o headers.o
sed -n "s|^/\* $stock/rdma/[^ ]* \*/ \([^/]*[ *]fid\{0,1\}_[a-z0-9_]* ([^/]*);\).*|\1|p" stock.aux |
  LC_ALL=C sort -u >prototypes
[ "$(wc -l <prototypes)" -gt 150 ] || { echo "found only $(wc -l <prototypes) prototypes in 1.17's headers"; exit 1; }
sed -n 's/^static .*[ *]\(fi_[a-z0-9_]*\) (.*/\1/p' prototypes >inlines
sed -n 's/^extern .*[ *]\(fi_[a-z0-9_]*\) (.*/\1/p' prototypes >exported

# Declared again after our headers, a different type is an error, and so is an inline function that we do not define.
cat headers.c prototypes >prototypes.c
compile -I"$weft" -Wall -Werror -c prototypes.c -o prototypes.o
compile -I"$weft" -aux-info weft.aux -c headers.c -o headers.o
while read -r function; do
  grep -q "^/\* $weft/rdma/.*[ *]$function (" weft.aux || { echo "$function is not declared by our headers"; exit 1; }
done <exported

# code INCLUDE OUTPUT: "FUNCTION INSTRUCTION" lines of all inline functions but those that 2.x changed on purpose:
# fi_cq_readerr presets src_addr, fi_mr_refresh clears the grown fi_mr_attr, fi_rx_addr takes 0 bits without a shift by 64.
{
  echo '#include "all_headers.h"'
  echo 'void *inlines[] = {'
  grep -v -x -e fi_cq_readerr -e fi_mr_refresh -e fi_rx_addr inlines | sed 's/.*/(void *)&,/'
  echo '};'
} >inlines.c
code() {
  compile -I"$1" -O2 -fno-asynchronous-unwind-tables -ffunction-sections -w -c inlines.c -o "$2.o"
  objdump -dr --no-show-raw-insn "$2.o" >"$2.asm"
  awk '/^Disassembly of section/ { name = $4 } /^ / { print name $0 }' "$2.asm" | LC_ALL=C sort -s -k1,1 >"$2"
}
code "$stock" stock.code
code "$weft" weft.code
diff stock.code weft.code || { echo "inline functions compile differently (<: 1.17, >: ours)"; exit 1; }
echo "$(wc -l <prototypes) prototypes of 1.17 hold; $(wc -l <inlines) inline functions, $(wc -l <stock.code) equal instructions"
