#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# abidiff.sh CC SOURCE_DIR WEFT_INCLUDE STOCK_INCLUDE OUR_LIBRARY STOCK_LIBRARY WORK_DIR: abidiff(1) as a second judge.
# - The two libraries: Debian ships no debug information, so it sees ELF symbols only; none may have been removed.
# - The two sets of headers: both are compiled into a library that has a pointer to every structure. Here it compares all
#   types in depth, the slots of the ops tables with all their arguments above all. abidiff.suppr is the reviewed list.
# It cannot judge macros, inline functions or behaviour: layout.sh, functions.sh and compat.c do.
set -eu
cc=$1 here=$2 weft=$3 stock=$4 library=$5 stock_library=$6 work=$7
. "$here/skip.sh"
command -v abidiff >/dev/null || skip "abidiff is not installed (package abigail-tools)"
[ -e "$stock_library" ] || skip "Debian's libfabric1 is not installed ($stock_library)"
[ -f "$stock/rdma/fabric.h" ] || skip "libfabric-dev is not installed ($stock/rdma/fabric.h)"
mkdir -p "$work"
cd "$work"

# Without debug information on one side the other's is of no use, and reading ours would take a minute.
strip --strip-debug -o ours.so "$library"
# Exit status, bit by bit: 1 and 2 error, 4 something changed (as additions do), 8 incompatible.
result=0
abidiff "$stock_library" ours.so >libraries.txt || result=$?
if [ $((result & 11)) -ne 0 ] || grep -q 'summary: [1-9][0-9]* Removed' libraries.txt; then
  cat libraries.txt
  echo "FAIL: abidiff finds our library incompatible (status $result)"
  exit 1
fi

# types INCLUDE NAME: NAME.so with a pointer to each structure that 1.17's headers define and ours define, too.
types() { $cc -std=c11 -D_GNU_SOURCE -g -shared -fPIC -I"$1" -I"$here" types.c -o "$2.so"; }
names() {
  echo '#include "all_headers.h"' >names.c
  $cc -std=c11 -D_GNU_SOURCE -I"$1" -I"$here" -g -fno-eliminate-unused-debug-types -c names.c -o names.o
  readelf -wi names.o >names.dwarf
  awk -f "$here/names.awk" names.dwarf | sed -n 's/^size //p' | LC_ALL=C sort -u
}
names "$stock" >stock.names
names "$weft" >weft.names
missing=$(LC_ALL=C comm -23 stock.names weft.names)
[ -z "$missing" ] || { echo "FAIL: structures that only 1.17 has: $missing"; exit 1; }
{
  echo '#include "all_headers.h"'
  sed 's/.*/struct & *abi_&;/' stock.names
} >types.c
types "$stock" stock
types "$weft" weft
if ! abidiff --suppressions "$here/abidiff.suppr" stock.so weft.so >types.txt; then
  cat types.txt
  echo "FAIL: types changed that abidiff.suppr does not review"
  exit 1
fi
echo "abidiff: no symbol of 1.17 removed; $(wc -l <stock.names) structures agree in depth"
