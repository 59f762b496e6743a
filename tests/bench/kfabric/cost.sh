#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# cost.sh PROGRAM LIMIT: the instructions in libkfabric of a message: a posted receive, a send, and the reads of both
# completions, which are four calls. Fails above LIMIT. A send and the read of its completion are half of it, and 50
# instructions take less than 10 ns.
set -eu
program=$1 limit=$2
command -v callgrind_annotate >/dev/null || { echo "SKIP: valgrind is not installed"; exit 77; }
profile=$(mktemp)
trap 'rm -f "$profile"' EXIT

# instructions ROUNDS
instructions() {
  valgrind --tool=callgrind --callgrind-out-file="$profile" "$program" kfi "$1" >/dev/null 2>&1
  callgrind_annotate --threshold=100 "$profile" | awk '/libkfabric/ { gsub(",", "", $1); sum += $1 } END { print sum }'
}
# The difference of two runs leaves the set-up out.
short=$(instructions 20) long=$(instructions 120)
cost=$(((long - short) / 6400))
echo "kfabric adds $cost instructions to a message, at most $limit are allowed"
[ "$cost" -gt 0 ] && [ "$cost" -le "$limit" ]
