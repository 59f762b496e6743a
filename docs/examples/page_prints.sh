#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# page_prints.sh AWK_PROGRAM PAGE PROGRAM: the example of a manual page succeeds, and prints exactly the page's lines.
set -eu
wanted=$(awk -v output=1 -f "$1" "$2")
said=$("$3")
[ "$said" = "$wanted" ] || { printf 'the page says:\n%s\nthe example prints:\n%s\n' "$wanted" "$said"; exit 1; }
