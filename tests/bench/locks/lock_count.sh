#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# lock_count.sh BINARY LIBRARY LIMIT PROVIDER MODEL MODE: atomic read-modify-write instructions (taking a lock is one,
# releasing it another) that the library executes for a message of BINARY, lock_count.cc. Those of a lower provider (tcp
# below ofi_rxm) are not counted. Fails if there are more than LIMIT, or, for FI_THREAD_SAFE, none: then the count would
# prove nothing.
set -eu
binary=$1 library=$2 limit=$3 provider=$4 model=$5 mode=$6
case $provider in *\;*) lower=weft::${provider%%;*}:: ;; *) lower=none ;; esac
[ "$(uname -m)" = x86_64 ] || { echo "skipped: knows the instructions of x86_64 only"; exit 77; }
for tool in valgrind objdump; do
  command -v "$tool" > /dev/null || { echo "skipped: $tool is not installed"; exit 77; }
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
valgrind --tool=callgrind --callgrind-out-file="$folder/out" --dump-instr=yes --dump-line=no --compress-strings=no \
  --compress-pos=no --collect-atstart=no "--toggle-collect=*measured_rounds*" \
  "$binary" "$provider" "$model" "$mode" > "$folder/log" 2>&1 || { cat "$folder/log" >&2; exit 1; }
operations=$(sed -n 's/^\([0-9]*\) operations$/\1/p' "$folder/log")
objdump -d --no-show-raw-insn "$library" |
  awk '$1 ~ /^[0-9a-f]+:$/ && (/\tlock / || (/\txchg / && /\(/)) { sub(":", "", $1); print $1 }' > "$folder/atomics"
awk -v operations="$operations" -v limit="$limit" -v model="$model" -v lower="$lower" \
  -v what="$provider, FI_THREAD_$model, $mode" '
  FNR == NR { atomic["0x" $1] = 1; next }
  /^ob=/ { ours = /libfabric\.so/; next }
  /^fn=/ { name = substr($0, 4); next }
  /^calls=/ { getline; next }  # the cost of the callee
  ours && !index(name, lower) && /^0x/ && ($1 in atomic) { sum += $2; of[name] += $2 }
  END {
    printf "atomic instructions, %s: %.2f a message, at most %s\n", what, sum / operations, limit
    for (name in of) printf "  %.2f %s\n", of[name] / operations, name
    exit sum / operations > limit || (model == "SAFE" && sum == 0)
  }' "$folder/atomics" "$folder/out"
