#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# run.sh PROGRAM LIBRARY_FOLDER [ROUNDS [OUTPUT]]: what reliable datagrams over tcp cost on weft and on the distribution's
# libfabric, in turns (reliable_bench.cc); medians as tables in Markdown, docs/performance/reliable.md by default.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
program=$1 library=$2 rounds=${3:-5} output=${4:-$here/../../../docs/performance/reliable.md}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

native=
# measure LIBRARY MODE COUNT: one value, or n/a when the library cannot do that; with $native over tcp itself, which
# libfabric 1.17 calls net.
measure() {
  if [ -z "$native" ]; then
    RELIABLE_PROVIDER="tcp;ofi_rxm"
  elif [ -n "$1" ]; then
    RELIABLE_PROVIDER=tcp
  else
    RELIABLE_PROVIDER=net
  fi
  export RELIABLE_PROVIDER
  LD_LIBRARY_PATH=$1 timeout 30 "$program" "$2" "$3" 2>/dev/null || echo n/a
}
median() {
  sort -n "$1" | awk '{ value[NR] = $0 } END { print value[int((NR + 1) / 2)] }'
}
# row MODE COUNT TITLE
row() {
  : >"$scratch/weft"
  : >"$scratch/stock"
  i=0
  while [ $i -lt "$rounds" ]; do
    measure "$library" "$1" "$2" >>"$scratch/weft"
    measure "" "$1" "$2" >>"$scratch/stock"
    i=$((i + 1))
  done
  echo "| $3 | $(median "$scratch/weft") | $(median "$scratch/stock") |"
}
processor=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)
{
  cat <<END
# Reliable datagrams: peers, matching, remote memory

\`tcp;ofi_rxm\` on weft and on Debian's libfabric, in turns; n/a: the library refused, or took longer than 30 s.
\`tests/bench/reliable/run.sh\` writes this page.

$(date -u +%Y-%m-%d), $processor, $(nproc) processors; medians of $rounds rounds.

Memory (bytes of the resident set) and descriptors of an endpoint for each peer, after one message to each:

| peers | weft | libfabric |
|---|---|---|
END
  for count in 10 100 1000; do row peers $count $count; done
  cat <<END

The same over tcp itself, without ofi_rxm (libfabric 1.17 calls it \`net\`):

| peers | weft | libfabric |
|---|---|---|
END
  native=1
  for count in 10 100 1000; do row peers $count $count; done
  native=
  cat <<END

Microseconds for a message of 8 bytes from one endpoint to another of the same process, with a number of other posted
receives or unexpected messages at the receiver, each with a tag of its own:

| | weft | libfabric |
|---|---|---|
END
  for mode in posted unexpected; do
    for count in 1 100 10000 100000; do row $mode $count "$count $mode"; done
  done
  cat <<END

Microseconds for one RMA operation with another process, each waited for before the next one:

| | weft | libfabric |
|---|---|---|
END
  for bytes in 8 4096; do
    row put $bytes "write of $bytes bytes"
    row put_delivered $bytes "write of $bytes bytes, FI_DELIVERY_COMPLETE"
    row get $bytes "read of $bytes bytes"
  done
} >"$scratch/page"
cp "$scratch/page" "$output"
cat "$output"
