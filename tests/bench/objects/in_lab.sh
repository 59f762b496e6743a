#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# in_lab.sh PROGRAM WEFT PLUGINS: object_bench on the lab's device (docs/soft-roce.md), with the distribution's library
# and with weft: the program's path, the folders of libfabric.so.1 and libverbs-fi.so. More domains than epoll sets may
# watch one descriptor (500).
set -u
count=600
echo "the distribution's library:"
env -u LD_LIBRARY_PATH -u FI_PROVIDER_PATH "$1" verbs msg $count "$RXE_ADDRESS"
echo "weft:"
LD_LIBRARY_PATH="$2" FI_PROVIDER_PATH="$3" "$1" verbs msg $count "$RXE_ADDRESS" || exit 1
LD_LIBRARY_PATH="$2" FI_PROVIDER_PATH="$3" "$1" verbs dgram $count "$RXE_ADDRESS"
