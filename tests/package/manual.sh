#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# manual.sh BUILD WORK_FOLDER: man(1) finds the installed pages, by the name of each page, function and structure.
set -eu
. "$(dirname "$0")/installed.sh"
command -v man >/dev/null || skip 'man is not installed'
pages=$here/../../docs/man
names=$(find "$pages" "$build/docs/man/man3" -name '*.3' -exec basename {} .3 \; | LC_ALL=C sort -u)
# shellcheck disable=SC2086 # several words are meant
found=$(man -M "$prefix/share/man" -w -s 3 $names | wc -l) || :
wanted=$(echo "$names" | wc -l)
[ "$found" = "$wanted" ] || { echo "man finds $found of $wanted names of section 3"; exit 1; }
for name in fi_connect fi_cq_read fi_getinfo fi_cq_err_entry; do
  man -M "$prefix/share/man" 3 $name | grep -q '^DESCRIPTION' || { echo "man cannot show $name"; exit 1; }
done
for section in 1 7; do
  for page in "$pages"/*.$section; do
    name=$(basename "$page" .$section)
    man -M "$prefix/share/man" -w -s $section "$name" >/dev/null || { echo "man does not find $name($section)"; exit 1; }
  done
done
echo "man finds $wanted names of section 3"
