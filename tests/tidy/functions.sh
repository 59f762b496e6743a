#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# functions.sh ROOT: no function, from its first line to its closing brace, above 70 lines.
set -eu
. "$(dirname "$0")/sources.sh"
scan "$cpp" -f "$here/code.awk" -f "$here/functions.awk" | judge functions
