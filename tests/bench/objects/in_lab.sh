#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# in_lab.sh PROGRAM WEFT PLUGINS: object_bench on the lab's device (docs/soft-roce.md), with the distribution's library
# and with weft: the program's path, the folders of libfabric.so.1 and libverbs-fi.so. More domains than epoll sets may
# watch one descriptor (500). Then both in turn: fi_getinfo of weft must not take longer, beyond the noise of a busy
# machine. RXE_MODE=count shows the ratio itself. COUNT of each kind are opened.
set -u
count=${COUNT:-5000}
ulimit -n 65536 2>/dev/null || :  # a verbs fabric has four descriptors
program=$1 library=$2 plugins=$3
stock() { env -u LD_LIBRARY_PATH -u FI_PROVIDER_PATH "$program" "$@" "$RXE_ADDRESS"; }
weft() { LD_LIBRARY_PATH="$library" FI_PROVIDER_PATH="$plugins" "$program" "$@" "$RXE_ADDRESS"; }
echo "the distribution's library:"
stock verbs msg $count
echo "weft:"
weft verbs msg $count || exit 1
weft verbs dgram $count
for round in 1 2 3; do
  stock verbs msg 0 | sed -n 's/^fi_getinfo/stock &/p'
  weft verbs msg 0 | sed -n 's/^fi_getinfo/weft &/p'
done | awk '
  { print; sub(/,$/, "", $6) }
  !($1 in least) || $6 + 0 < least[$1] { least[$1] = $6 + 0 }
  END {
    if (least["weft"] > 0 && least["weft"] <= 1.5 * least["stock"]) exit
    print "FAILED: fi_getinfo takes longer than with the other library"
    exit 1
  }'
