#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# sentences.sh PROGRAM TABLE PAGES: each test has one row in the table of sentences, each row has a test, a page of the
# folder PAGES, a kind that exists, and a sentence.
set -eu
program=$1 table=$2 pages=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$program" --gtest_list_tests | awk '/^[^ ]/ { suite = $1 } /^ / { sub(/\/.*/, "", $1); print suite $1 }' |
  LC_ALL=C sort -u >"$work/tests"
grep -v '^#' "$table" >"$work/rows"
cut -f 1 "$work/rows" | LC_ALL=C sort >"$work/named"
[ "$(wc -l <"$work/tests")" -ge 700 ] || { echo 'the program lists too few tests'; exit 1; }
diff "$work/tests" "$work/named" || { echo 'tests (<) and rows of sentences.tsv (>) differ'; exit 1; }
awk -F '\t' -v pages="$pages" '
  function wrong(what) { print FILENAME ":" FNR ": " what ": " $0; failed = 1 }
  NF != 5 { wrong("not five columns"); next }
  $3 !~ /^(manual|beyond|weft)$/ { wrong("no such kind") }
  $4 !~ /^(-|[0-9]+\.[0-9]+)$/ { wrong("not an interface") }
  $5 !~ /^[A-Za-z0-9].*\.$/ { wrong("not a sentence") }
  {
    page = $2
    sub(/\(/, ".", page)
    sub(/\)/, "", page)
    if (!(page in known)) known[page] = (getline line < (pages "/" page)) > 0
    if (!known[page]) wrong("no such page")
  }
  END { exit failed }' "$work/rows"
echo "$(wc -l <"$work/rows") sentences, $(cut -f 3 "$work/rows" | LC_ALL=C sort | uniq -c | tr -s ' \n' ' ')"
