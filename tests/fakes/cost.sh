#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# cost.sh BINARY LIMIT DATAGRAM_LIMIT: instructions of a message of 8 bytes with its completion, and of a datagram from post
# to post, through verbs and through libfabric, both on the fakes. Fails when a difference exceeds its limit, or when
# anything is allocated.
set -eu
binary=$1
limit=$2
datagram_limit=$3
command -v valgrind > /dev/null || { echo "skipped: valgrind is not installed"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# count PART: instructions of the measured function for each of its messages.
count() {
  valgrind --tool=callgrind --callgrind-out-file="$folder/out" --collect-atstart=no --toggle-collect="measured_$1" \
    "$binary" "$1" > "$folder/log" 2>&1 || { cat "$folder/log" >&2; exit 1; }
  messages=$(sed -n 's/.*: \([0-9]*\) messages.*/\1/p' "$folder/log")
  collected=$(sed -n 's/.*Collected *: *\([0-9]*\).*/\1/p' "$folder/log")
  echo $((collected / messages))
}
"$binary"
# compare WHAT SUFFIX LIMIT
compare() {
  verbs=$(count "raw$2")
  fabric=$(count "fabric$2")
  echo "instructions $1: verbs $verbs, libfabric $fabric, above verbs $((fabric - verbs))"
  test $((fabric - verbs)) -le "$3"
}
compare "a message" "" "$limit"
compare "a datagram" _datagrams "$datagram_limit"
