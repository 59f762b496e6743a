#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# configure.sh SOURCE WORK_FOLDER GENERATOR CC CXX: a plain configuration succeeds on a machine without the packages of the
# tests, and of RDMA. One line names each part that is left out, and the packages that it needs.
set -eu
source=$1 work=$2 generator=$3 cc=$4 cxx=$5
rm -rf "$work"
mkdir -p "$work"
cd "$work"

# configure NAME OPTION...: into a folder of that name; leaves the line on parts left out in `line`, empty without any.
configure() {
  name=$1
  shift
  cmake -S "$source" -B "$name" -G "$generator" -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" "$@" \
    >"$name.log" 2>&1 || { cat "$name.log"; echo "FAIL: $name does not configure"; exit 1; }
  [ "$(grep -c 'weft: not built' "$name.log")" -le 1 ] || { cat "$name.log"; echo "FAIL: $name has several lines"; exit 1; }
  line=$(grep 'weft: not built' "$name.log" || :)
}
# names WORD...: the line has all of them.
names() {
  for word in "$@"; do
    case $line in *"$word"*) ;; *) echo "FAIL: $name does not name $word: $line"; exit 1 ;; esac
  done
}
without() { echo "-DCMAKE_DISABLE_FIND_PACKAGE_$1=ON"; }

configure no_verbs "$(without PkgConfig)"
names 'provider verbs' libibverbs-dev librdmacm-dev
configure build_packages "$(without GTest)" "$(without CLI11)"
names 'tests with GoogleTest' benchmarks 'apt-get install libgtest-dev libcli11-dev'
configure no_tests "$(without GTest)" "$(without CLI11)" -DWEFT_BUILD_TESTS=OFF
case $line in *GoogleTest*) echo "FAIL: tests were not requested: $line"; exit 1 ;; esac
configure static_runtime "$(without GTest)" "$(without CLI11)" -DWEFT_BUILD_TESTS=OFF -DWEFT_STATIC_RUNTIME=ON
grep -rq -e '-static-libstdc++ -static-libgcc' --include=build.ninja --include=link.txt static_runtime ||
  { echo "FAIL: WEFT_STATIC_RUNTIME links nothing in"; exit 1; }
echo "configurations without GoogleTest, CLI11 and rdma-core succeed and name what they lack"
