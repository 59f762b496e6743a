#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Builds weft and the bench programs in release mode and measures weft, stock libfabric and plain sockets side by side:
# connections over tcp; with `udp` as the first word, datagrams; with `local`, reliable datagrams within the host. With
# `verbs` or `ud` (connections, datagrams) the verbs providers and raw verbs, in one boot of tests/rxe/run.sh; with
# `rdm`, reliable datagrams over verbs and connections. These count instructions, unless RXE_MODE says otherwise.
#   sh tests/bench/run.sh [udp | local | verbs | ud | rdm] [--quick | --full] [--output DIR] [--only PREFIX] [--rounds N]
# The build folder is $BUILD, build-bench in the repository by default.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${BUILD:-$root/build-bench}
command="sh tests/bench/run.sh $*"

plan=tcp
case ${1:-} in
  udp | local | verbs | ud | rdm)
    plan=$1
    shift
    ;;
esac
cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DWEFT_TEST_FOLDERS=bench >/dev/null
cmake --build "$build" --target fabric bench_runner -j "$(nproc)" >/dev/null
weft=$(find "$build" -name libfabric.so.1 | head -n 1)
runner=$(find "$build" -type f -name bench_runner)
case $plan in
  tcp | udp | local) exec "$runner" --plan $plan --weft "$weft" --command "$command" "$@" ;;
esac

# Files written in the guest stay there, except in one folder.
results=$build/verbs-report
output=
words=$#
while [ $words -gt 0 ]; do
  case $1 in
    --output) output=$2 words=$((words - 1)); shift ;;
    --output=*) output=${1#*=} ;;
    *) set -- "$@" "$1" ;;
  esac
  shift
  words=$((words - 1))
done
rm -rf "$results"
mkdir -p "$results"
if [ "${RXE_MODE:=count}" = count ]; then
  export RXE_MODE RXE_CPUS=1
  set -- --counted "$@"
fi
if [ $plan = rdm ]; then
  export FI_UNIVERSE_SIZE=16  # otherwise libfabric requires a longer completion queue than Soft-RoCE has
fi
processor=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)
sh "$root/tests/rxe/run.sh" -t 3600 -m 3000 -o "$results" "$runner" --plan $plan --weft "$weft" \
  --plugins "$(dirname "$(find "$build" -name libverbs-fi.so | head -n 1)")" --command "$command" \
  --host "$processor, load average $(cut -d ' ' -f 1 /proc/loadavg)" --output "$results" "$@"
if [ -n "$output" ]; then
  mkdir -p "$output"
  cp "$results"/* "$output"
fi
