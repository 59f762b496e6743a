#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# over_stock.sh PROGRAM ARGUMENT...: runs the program over the distribution's libfabric.
set -eu
. "$(dirname "$0")/stock.sh"
folder=$(stock_folder)
LD_LIBRARY_PATH=$folder exec "$@"
