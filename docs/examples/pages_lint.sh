#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# pages_lint.sh PAGES: mandoc has no warning about a manual page. (Lines may be longer than its 80 columns.)
set -eu
command -v mandoc >/dev/null || { echo 'SKIP: mandoc is not installed'; exit 77; }
found=$(mandoc -Tlint -Wwarning "$1"/*.[137] 2>&1) || :
[ -z "$found" ] || { echo "$found"; exit 1; }
