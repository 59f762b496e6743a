#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Builds weft and the bench programs in release mode and measures weft, stock libfabric and plain sockets side by side.
#   sh tests/bench/run.sh [--quick | --full] [--output DIR] [--only PREFIX] [--rounds N]
# The build folder is $BUILD, build-bench in the repository by default.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${BUILD:-$root/build-bench}

cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DWEFT_TEST_FOLDERS=bench >/dev/null
cmake --build "$build" --target fabric bench_runner -j "$(nproc)" >/dev/null
weft=$(find "$build" -name libfabric.so.1 | head -n 1)
exec "$(find "$build" -type f -name bench_runner)" --weft "$weft" --command "sh tests/bench/run.sh $*" "$@"
