#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# instruction_count.sh BINARY LIMIT PROVIDER MODEL MODE: instructions that the library executes for a message of BINARY,
# lock_count.cc, at both ends. Fails if there are more than LIMIT in each of three runs: ticks of the clock, and reads that
# come before their message, add some to a run on a slow machine.
set -eu
binary=$1 limit=$2 provider=$3 model=$4 mode=$5
command -v callgrind_annotate > /dev/null || { echo "skipped: valgrind is not installed"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
count() {
  valgrind --tool=callgrind --callgrind-out-file="$folder/out" --collect-atstart=no "--toggle-collect=*measured_rounds*" \
    "$binary" "$provider" "$model" "$mode" > "$folder/log" 2>&1 || { cat "$folder/log" >&2; exit 1; }
  operations=$(sed -n 's/^\([0-9]*\) operations$/\1/p' "$folder/log")
  callgrind_annotate --threshold=100 --auto=no "$folder/out" |
    awk -v operations="$operations" -v limit="$limit" -v what="$provider, FI_THREAD_$model, $mode" '
      /\[.*libfabric\.so/ { gsub(",", "", $1); sum += $1 }
      END {
        printf "instructions, %s: %d a message, at most %s\n", what, sum / operations, limit
        exit sum == 0 || sum / operations > limit
      }'
}
count || count || count
