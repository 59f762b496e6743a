#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# pages.sh SOURCE WORK_FOLDER: the prototypes in the manual pages of kfabric are those of its headers, in API 1.7. The
# program that compares libfabric's reads them with its prefix.
set -eu
source=$1 work=$2
mkdir -p "$work"
cd "$work"
calls() { awk -v want=calls -f "$source/docs/examples/pages.awk" "$@" | LC_ALL=C sort -u; }
for file in "$source"/include/kfi/*.h "$source"/docs/man/kfi_*.3; do sed 's/\bkfi_/fi_/g' "$file" >"$(basename "$file")"; done
calls ./*.h >declared
calls ./*.3 >described
[ "$(wc -l <declared)" -ge 100 ] && [ "$(wc -l <described)" -ge 14 ] || { echo "FAIL: the declarations are not found"; exit 1; }
LC_ALL=C comm -13 declared described >wrong
[ ! -s wrong ] || { echo "FAIL: prototypes that no header has:"; cat wrong; exit 1; }
echo "$(wc -l <described) prototypes agree"
