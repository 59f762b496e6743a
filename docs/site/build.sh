#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# build.sh SOURCE WORK_FOLDER: writes the site to WORK_FOLDER/html. The pages are copied first, to WORK_FOLDER/source, where
# manual pages and examples get the suffixes that conf.py has. Warnings are errors, and the
# same pages give the same bytes.
set -eu
source=$(cd "$1" && pwd) work=$2
rm -rf "$work"
mkdir -p "$work/source"
work=$(cd "$work" && pwd)
cd "$source"
pages=$work/source/docs
find docs -name '*.md' -o -name '*.svg' -o -name '*.json' -o -path 'docs/examples/*.[ch]' -o -path 'docs/man/*.[137]' |
  while IFS= read -r file; do
    case $file in
      docs/examples/page*) continue ;;
      docs/man/*) copy=$file.mdoc ;;
      *.c | *.h) copy=$file.source ;;
      *) copy=$file ;;
    esac
    mkdir -p "$work/source/${copy%/*}"
    cp "$file" "$work/source/$copy"
  done
ln -s "$source/cmake" "$source/LICENSE" "$work/source/"
PYTHONHASHSEED=0 sphinx-build -q -W --keep-going -E -d "$work/doctrees" -c docs/site "$pages" "$work/html"
echo "$work/html/index.html"
