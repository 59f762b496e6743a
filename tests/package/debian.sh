#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# debian.sh BUILD WORK_FOLDER: CPack makes Debian packages of a build. Each has its own files, the fields that let it take
# libfabric's place, a licence, a changelog and compressed manual pages. The same build packed a second time gives the
# same bytes, and lintian finds no errors; LONG=no leaves out these two. The page on packages quotes the Dockerfile.
set -eu
source=$(cd "$(dirname "$0")/../.." && pwd)
build=$1 work=$2
command -v dpkg-shlibdeps >/dev/null || { echo "SKIP: dpkg-dev is not installed"; exit 77; }
rm -rf "$work"
mkdir -p "$work"
cd "$work"
export SOURCE_DATE_EPOCH=1700000000
umask 022
status=0
fail() { echo "FAIL: $1"; status=1; }

# pack NAME: packs into the folder of that name.
pack() { cpack --config "$build/CPackConfig.cmake" -B "$work/$1" >"$1.log" 2>&1 || { cat "$1.log"; exit 1; }; }
pack first
(cd first && ls -- *.deb) >names
# contains PACKAGE PATTERN...: the package's files include one for each pattern (of the whole path, without the dot).
contains() {
  name=$1
  shift
  dpkg-deb -c first/"$name"_*.deb | awk '{ sub(/^\./, "", $6); print $6 }' >"$name.files"
  for pattern in "$@"; do
    grep -Eqx -- "$pattern" "$name.files" || fail "$name has no $pattern"
  done
  for file in copyright 'changelog\.Debian\.gz'; do
    grep -qx "/usr/share/doc/$name/$file" "$name.files" || fail "$name has no $file"
  done
  grep -Ev '^/usr(/|$)|^/$' "$name.files" && fail "$name has files outside /usr"
  grep -E '/man[0-9]/.*[0-9]$' "$name.files" && fail "$name has manual pages that are not compressed"
  return 0
}
# field PACKAGE FIELD WORDS...: the field of the package contains each of the words.
field() {
  name=$1 value=$(dpkg-deb -f first/"$1"_*.deb "$2") what=$2
  shift 2
  for word in "$@"; do
    case $value in *"$word"*) ;; *) fail "$name: $what lacks '$word': $value" ;; esac
  done
}

version=$(dpkg-deb -f first/weft-libfabric1_*.deb Version)
contains weft-libfabric1 '/usr/lib(/.*)?/libfabric\.so\.1' '/usr/lib(/.*)?/libfabric\.so\.1\.[0-9.]+'
field weft-libfabric1 Provides "libfabric1 (= $version)" 'libfabric1 (= 1.17.0-3)'
field weft-libfabric1 Conflicts libfabric1
field weft-libfabric1 Replaces libfabric1
field weft-libfabric1 Depends 'libc6 (>= ' 'libstdc++6 (>= '
contains weft-libfabric-dev '/usr/lib(/.*)?/libfabric\.so' '/usr/lib(/.*)?/pkgconfig/libfabric\.pc' \
  '/usr/share/man/man3/fi_connect\.3\.gz' '/usr/share/man/man7/fabric\.7\.gz' '/usr/include/rdma/fabric\.h' '/usr/lib(/.*)?/cmake/weft/weft-config\.cmake'
contains weft-libfabric-dev '/usr/lib(/.*)?/libkfabric\.so' '/usr/lib(/.*)?/pkgconfig/libkfabric\.pc' \
  '/usr/include/kfi/kfi_cm\.h'
field weft-libfabric-dev Depends "weft-libfabric1 (= $version)" "weft-libkfabric1 (= $version)"
contains weft-libkfabric1 '/usr/lib(/.*)?/libkfabric\.so\.1'
field weft-libkfabric1 Depends 'libfabric1 (>= 1.17' 'libc6 (>= ' 'libstdc++6 (>= '
contains weft-libfabric-bin /usr/bin/fi_info /usr/bin/fi_pingpong '/usr/share/man/man1/fi_info\.1\.gz'
field weft-libfabric-bin Depends "weft-libfabric1 (= $version)" 'libc6 (>= '
contains weft-doc /usr/share/doc/weft-doc/README.md /usr/share/doc/weft-doc/docs/limits.md
field weft-doc Architecture all
if grep -q '^weft-verbs_' names; then
  contains weft-verbs '/usr/lib(/.*)?/libfabric/libverbs-fi\.so'
  field weft-verbs Depends 'libfabric1 (>= 1.17' librdmacm1 libibverbs1
fi
if grep -q '^weft-conformance_' names; then
  contains weft-conformance /usr/bin/fi_conform '/usr/share/man/man1/fi_conform\.1\.gz'
fi

sed -n '/^```dockerfile/,/^```$/p' "$source/docs/packages.md" | grep -v '^```' >quoted
grep -v '^#' "$source/cmake/packaging/Dockerfile" | diff quoted - || fail "docs/packages.md (<) quotes another Dockerfile (>)"

# No file is in two packages.
sort -- *.files | grep -v '/$' | uniq -d >twice
[ ! -s twice ] || { cat twice; fail "files in two packages"; }

# The library's symbols file names what the library exports, no more and no less; deb-symbols(5).
dpkg-deb -e first/weft-libfabric1_*.deb control
dpkg-deb -x first/weft-libfabric1_*.deb root
nm -D --defined-only --with-symbol-versions "$(find root -name 'libfabric.so.1.*')" |
  awk '{ sub(/@@/, "@", $3); print $2 == "A" ? $3 "@" $3 : $3 }' | sed 's/^\(.*\)@.*@.*@.*/\1/' | LC_ALL=C sort -u >exports
sed -n 's/^ \([^ ]*\) .*/\1/p' control/symbols | LC_ALL=C sort >listed
diff listed exports || fail "symbols (<) differ from the exports (>)"
readelf -S "$(find root -name 'libfabric.so.1.*')" | grep -q '\.symtab' && fail "the library is not stripped"
grep -q 'libfabric 1 ' control/shlibs || fail "no shlibs"
grep -q ldconfig control/triggers || fail "no trigger for ldconfig"

zcat "$(find . -path './first/*' -name changelog.Debian.gz | head -n 1)" | grep -q '14 Nov 2023\|20[0-9][0-9]' || fail "no date"

if [ "${LONG:-}" != no ]; then
  pack second
  while read -r name; do
    cmp "first/$name" "second/$name" || fail "$name has other bytes the second time"
  done <names
  if ! command -v lintian >/dev/null; then
    echo "lintian is not installed: the packages are not judged by it"
  elif ! lintian --allow-root --fail-on error first/*.deb >lintian.log 2>&1; then
    cat lintian.log
    fail "lintian"
  fi
fi
[ $status -ne 0 ] || echo "$(wc -l <names) packages: $(tr '\n' ' ' <names)"
exit $status
