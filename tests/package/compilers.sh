#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# compilers.sh SOURCE WORK_FOLDER [COMPILER...]: the library, its plug-in and the tools compile with each version of gcc
# and clang that Debian 12 has, and with the static C++ runtime. Without optimisation: only errors are looked for.
set -eu
source=$(cd "$1" && pwd) work=$2
shift 2
status=0 tried=0
mkdir -p "$work"
for cc in ${*:-gcc-11 gcc-12 clang-13 clang-14 clang-15 clang-16 clang-19}; do
  case $cc in clang*) cxx=clang++${cc#clang} ;; *) cxx=g++${cc#gcc} ;; esac
  command -v "$cxx" >/dev/null || { echo "$cc: not installed"; continue; }
  tried=$((tried + 1))
  log=$work/$cc.log
  if { cmake -S "$source" -B "$work/$cc" -G Ninja -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" \
    -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG=-O0 -DCMAKE_CXX_FLAGS_DEBUG=-O0 -DWEFT_BUILD_TESTS=OFF \
    -DWEFT_STATIC_RUNTIME=ON && cmake --build "$work/$cc" -j "${JOBS:-$(nproc)}"; } >"$log" 2>&1 &&
    "$work/$cc/src/tools/fi_info" -p tcp >>"$log" 2>&1; then
    echo "$cc: builds and runs, $(grep -c 'warning:' "$log" || :) warnings"
  else
    grep -m 5 'error' "$log" || tail -n 5 "$log"
    echo "FAIL: $cc"
    status=1
  fi
done
[ "$tried" -gt 0 ] || { echo "SKIP: none of the compilers is installed"; exit 77; }
exit $status
