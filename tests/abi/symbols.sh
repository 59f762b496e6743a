#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# symbols.sh SOURCE_DIR OUR_LIBRARY [STOCK_LIBRARY]: our library exports exactly symbols.list, its version nodes form the
# chain FABRIC_1.0 <- 1.1 <- ... <- 1.10, and it is built as a drop-in must be: SONAME, full RELRO, needed libraries. With
# STOCK_LIBRARY instead: every versioned symbol that 1.17 exports is exported by ours as well.
set -eu
here=$1 library=$2 stock=${3:-}
. "$here/skip.sh"
status=0
fail() { echo "FAIL: $1"; status=1; }

# exported LIBRARY: "name@VERSION" or "name@@VERSION" lines; the version nodes themselves (type A) are no symbols.
exported() { nm -D --defined-only --with-symbol-versions "$1" | awk '$2 != "A" { print $3 }' | LC_ALL=C sort; }

if [ -n "$stock" ]; then
  [ -e "$stock" ] || skip "Debian's libfabric1 is not installed ($stock)"
  # A default version of 1.17 may be a compat version today: compare without the second @.
  exported "$library" | sed 's/@@/@/' | LC_ALL=C sort >ours.found
  missing=$(exported "$stock" | sed 's/@@/@/' | LC_ALL=C sort | LC_ALL=C comm -23 - ours.found)
  [ -z "$missing" ] || fail "1.17 exports these and we do not: $missing"
  [ $status -ne 0 ] || echo "all $(exported "$stock" | wc -l) versioned symbols of 1.17 are exported"
  exit $status
fi

exported "$library" >symbols.found
grep -v '^#' "$here/symbols.list" | LC_ALL=C sort | diff - symbols.found ||
  fail "exports differ from symbols.list (<: listed, >: found)"

# "000000: Rev: 1  Flags: none  Index: 3  Cnt: 2  Name: FABRIC_1.1" then its parent "  Parent 1: FABRIC_1.0".
readelf -VW "$library" | awk '/Name: FABRIC_/ { node = $NF; print node, "-" } /Parent [0-9]*: / { print node, $NF }' |
  awk '{ parent[$1] = $2; if (!($1 in at)) { at[$1] = ++n; node[n] = $1 } }
       END { for (i = 1; i <= n; i++) print node[i], parent[node[i]] }' >nodes.found
{
  echo "FABRIC_1.0 -"
  for minor in 1 2 3 4 5 6 7 8 9 10; do echo "FABRIC_1.$minor FABRIC_1.$((minor - 1))"; done
} | diff - nodes.found || fail "version nodes differ (<: wanted, >: found)"

dynamic=$(readelf -dW "$library")
echo "$dynamic" | grep -q 'SONAME.*\[libfabric\.so\.1\]' || fail "SONAME is not libfabric.so.1"
case $(basename "$(readlink -f "$library")") in
  libfabric.so.1.32.0) ;;
  *) fail "file name is $(basename "$(readlink -f "$library")"), not libfabric.so.1.32.0" ;;
esac
echo "$dynamic" | grep -Eq 'BIND_NOW|FLAGS_1.*NOW' || fail "not linked with -z now"
echo "$dynamic" | grep -Eq 'TEXTREL' && fail "has text relocations"
echo "$dynamic" | grep -Eq 'RPATH|RUNPATH' && fail "has an rpath"
segments=$(readelf -lW "$library")
echo "$segments" | grep -q GNU_RELRO || fail "has no RELRO segment"
echo "$segments" | grep 'GNU_STACK' | grep -q RWE && fail "asks for an executable stack"
for needed in $(echo "$dynamic" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
  case $needed in
    libc.so.* | libm.so.* | libstdc++.so.* | libgcc_s.so.* | ld-linux*.so.*) ;;
    libasan.so.* | libubsan.so.* | libtsan.so.*) [ -n "${WEFT_SANITIZE:-}" ] || fail "needs $needed" ;;
    *) fail "needs $needed" ;;
  esac
done
[ $status -ne 0 ] || echo "$(wc -l <symbols.found) exports, $(wc -l <nodes.found) version nodes, hardening and needs as they must be"
exit $status
