#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# headers.sh CC CXX INCLUDE_DIR WORK_DIR: each public header compiles alone, and twice, as C99, C11 and C++20 without
# a warning, and every inline function in it is valid where it is used. SWIG, which has a parser of its own, sees standard C.
set -eu
cc=$1 cxx=$2 include=$3 work=$4
warnings="-Wall -Wextra -Wpedantic -Werror -Wno-unused-function"
mkdir -p "$work"
cd "$include"
# SWIG does not follow the headers of the system.
sed -n 's/^ *# *include <\(.*\)>.*/\1/p' rdma/*.h rdma/providers/*.h | grep -v '^rdma/' | sort -u | while read -r system; do
  mkdir -p "$work/none/$(dirname "$system")"
  : >"$work/none/$system"
done
status=0 count=0
for header in rdma/*.h rdma/providers/*.h; do
  count=$((count + 1))
  printf '#include <%s>\n#include <%s>\nint weft_%d(void);\n' "$header" "$header" $count >"$work/alone.c"
  cp "$work/alone.c" "$work/alone.cc"
  for standard in c99 c11; do
    $cc -std=$standard $warnings -I"$include" -c "$work/alone.c" -o "$work/alone.o" ||
      { echo "FAIL: $header in $standard"; status=1; }
  done
  $cc -E -P -U__GNUC__ -nostdinc -I"$work/none" -I"$include" "$work/alone.c" | grep -w __extension__ &&
    { echo "FAIL: SWIG cannot read $header"; status=1; }
  $cxx -std=c++20 $warnings -I"$include" -c "$work/alone.cc" -o "$work/alone.o" ||
    { echo "FAIL: $header in C++20"; status=1; }
done
[ $count -ge 16 ] || { echo "FAIL: found only $count headers in $include"; status=1; }
[ $status -ne 0 ] || echo "$count headers stand alone in C99, C11 and C++20"
exit $status
