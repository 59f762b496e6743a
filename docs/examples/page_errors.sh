#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# page_errors.sh TESTS PAGES LINKS: each error that a test of the folder TESTS expects from a call stands on the manual
# page of that call.
set -eu
tests=$1 pages=$2 links=$3
expected=$(mktemp)
trap 'rm -f "$expected"' EXIT
# A statement "EXPECT_EQ(fi_close(...), -FI_EBUSY)" gives "fi_close FI_EBUSY".
find "$tests" -name '*.cc' -exec cat {} + | awk '
  { sub(/\/\/.*/, ""); statement = statement " " $0 }
  /;/ {
    call = ""
    while (match(statement, /fi_[a-z0-9_]+[(]|-FI_E[A-Z0-9]+/)) {
      word = substr(statement, RSTART, RLENGTH)
      statement = substr(statement, RSTART + RLENGTH)
      if (word ~ /[(]$/) call = substr(word, 1, length(word) - 1)
      else if (call != "") print call, substr(word, 2)
    }
    statement = ""
  }' | LC_ALL=C sort -u >"$expected"
[ "$(wc -l <"$expected")" -ge 60 ] || { echo 'the expectations of the tests are not found'; exit 1; }
failed=0
while read -r call error; do
  page=$pages/$call.3
  [ -e "$page" ] || [ ! -e "$links/$call.3" ] || page=$pages/$(sed 's,^\.so man3/,,' "$links/$call.3")
  [ -e "$page" ] || continue  # a function of the tests
  grep -qw "$error" "$page" || { echo "$call may answer -$error, which $(basename "$page") does not say"; failed=1; }
done <"$expected"
[ $failed = 0 ] || exit 1
echo "$(wc -l <"$expected") errors stand on their pages"
