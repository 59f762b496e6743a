#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# cost.sh PROGRAM LIMIT [PLUGINS]: the instructions in libkfabric of a message: a posted receive, a send, and the reads of
# both completions, which are four calls. Fails above LIMIT. With PLUGINS, the folder of verbs on fakes in memory, also the
# time that kfabric adds to a send and the read of its completion, where no system call hides it: at most 10 ns, and that
# of a list through a buffer: at most 1000 ns, which a registration for each would exceed. The bandwidth of 1 MiB over tcp
# is 97 % of libfabric's at least. Each in one of five attempts, because another program may have the processor in the
# others.
set -eu
program=$1 limit=$2 plugins=${3:-}
# within WHAT ROUNDS PROVIDER OPERATOR BOUND: the last number that the program prints, in one of five attempts.
within() {
  for attempt in 1 2 3 4 5; do
    line=$(FI_PROVIDER_PATH=$plugins "$program" "$1" "$2" "$3")
    echo "$line"
    if echo "$line" | awk "{ exit !(\$(NF - 1) $4 $5) }"; then return; fi
  done
  echo "FAIL: not $4 $5" >&2
  exit 1
}
if [ -n "$plugins" ]; then
  within both 3000 verbs '<=' 10
  within lists 3000 verbs '<=' 1000
fi
within large 200 tcp '>=' 97
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
