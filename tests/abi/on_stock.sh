#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# on_stock.sh SOURCE_DIR STOCK_LIBRARY PROGRAM: a test program of ours, unchanged, on Debian's library.
set -eu
. "$1/skip.sh"
[ -e "$2" ] || skip "Debian's libfabric1 is not installed ($2)"
LD_LIBRARY_PATH=$(dirname "$2") exec "$3"
