#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# cost.sh BINARY PART=LIMIT...: counts the instructions that this library spends on an operation, on the fakes:
#   message   8 bytes sent with a completion
#   datagram  a datagram, from its post to the next post of its receive
#   ping      an injection, a read that finds nothing, the read that finds the message, the next post of its receive
#   access    a remote write or read with its completion
#   reliable  the same as ping over ofi_rxm
#   rendezvous  a message of 1 MiB over ofi_rxm to both of its completions
# Fails where a count exceeds its limit, or when anything is allocated (rendezvous: registered). Instructions of the
# fakes and of the callers are not counted.
set -eu
binary=$1
shift
command -v valgrind > /dev/null || { echo "skipped: valgrind is not installed"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# count PART: instructions in the functions of our namespace, per operation of the measured function.
count() {
  valgrind --tool=callgrind --callgrind-out-file="$folder/out" --collect-atstart=no --toggle-collect="measured_$1" \
    "$binary" "$1" > "$folder/log" 2>&1 || { cat "$folder/log" >&2; exit 1; }
  operations=$(sed -n 's/.*: \([0-9]*\) operations.*/\1/p' "$folder/log")
  callgrind_annotate --threshold=100 --auto=no "$folder/out" > "$folder/functions"
  awk -v operations="$operations" '/:weft::| weft::/ { gsub(",", "", $1); sum += $1 }
    END { if (sum == 0) exit 1; printf "%d\n", sum / operations }' "$folder/functions"
}
"$binary"
result=0
for part in "$@"; do
  ours=$(count "${part%=*}")
  echo "instructions of ours, ${part%=*}: $ours, at most ${part#*=}"
  [ "$ours" -le "${part#*=}" ] || result=1
done
exit $result
