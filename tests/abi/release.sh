#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# release.sh CC SOURCE_DIR WEFT_INCLUDE WORK_DIR: the public headers define every name of libfabric's release that
# release.list has, with its value, and no other name; fi_version(3). Rows of a later release than the headers' must not
# be defined yet: raising FI_MAJOR_VERSION and FI_MINOR_VERSION makes them required.
set -eu
cc=$1 here=$2 weft=$3 work=$4
mkdir -p "$work"
cd "$work"
compile() { $cc -std=c11 -D_GNU_SOURCE -I"$weft" -I"$here" "$@"; }

grep -v '^#' "$here/release.list" >rows
echo '#include "all_headers.h"' >headers.c
compile -E -dM headers.c >macros
release=$(awk '$2 == "FI_MAJOR_VERSION" { major = $3 } $2 == "FI_MINOR_VERSION" { minor = $3 }
  END { print major "." minor }' macros)

# The rows of this release and of those before it (and of weft itself), and the rows of later ones.
awk -v release="$release" 'BEGIN { split(release, now, ".") }
  { split($1, of, ".")
    later = of[1] + 0 > now[1] + 0 || (of[1] == now[1] && of[2] + 0 > now[2] + 0)
    print > (later ? "later" : "required") }' rows
: >>later
[ "$(wc -l <required)" -gt 600 ] || { echo "found only $(wc -l <required) rows of release $release"; exit 1; }

# 1. Values and calls: each row is one declaration that fails to compile if the name is missing or differs.
{
  cat headers.c
  awk '$2 == "const" { printf "_Static_assert((unsigned long long)(%s) == %sULL, \"%s is not %s\");\n", $3, $4, $3, $4 }
    $2 == "text" { printf "_Static_assert(sizeof(%s) == sizeof(\"%s\"), \"%s is not %s\");\n", $3, $4, $3, $4
                   printf "const char text_%d[] = %s;\n", NR, $3 }
    $2 == "call" { printf "void* const call_%d = (void*)&%s;\n", NR, $3 }' required
} >required.c
compile -w -fmax-errors=0 -c required.c -o required.o 2>errors ||
  { grep -E 'error' errors; echo "FAIL: names of release $release are missing or differ"; exit 1; }
awk '$2 == "text" { print $4 }' required | while read -r text; do
  grep -qaF "$text" required.o || { echo "FAIL: no name has the text $text"; exit 1; }
done

# 2. Names that no row has, and names of later releases. Debug information lists enumerators, the macros are listed above.
compile -g -fno-eliminate-unused-debug-types -c headers.c -o headers.o
readelf -wi headers.o >headers.dwarf
{ awk -f "$here/names.awk" headers.dwarf | grep '^const '; awk -f "$here/constants.awk" macros; } |
  awk '{ print $2 }' | LC_ALL=C sort -u >defined
awk '$2 != "call" { print $3 }' required | LC_ALL=C sort -u | LC_ALL=C comm -13 - defined >extra
[ ! -s extra ] || { echo "FAIL: release.list has no row of release $release or weft for:" $(cat extra); exit 1; }
awk '$2 == "call" { print $3 }' later | while read -r call; do
  ! grep -qw "$call" headers.dwarf || { echo "FAIL: $call belongs to a later release than $release"; exit 1; }
done
echo "release $release: $(wc -l <required) names as in release.list, $(wc -l <later) of later releases absent"
