#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# each_call.sh SOURCE: each call that the headers of kfabric declare, in either generation, is made by a test of this
# folder.
set -eu
source=$1
cd "$source/tests/kfi"
code() { sed 's|//.*||' "$@"; }
declared=$(code "$source"/include/kfi/*.h | grep -oE '^[a-z][a-z0-9_ ]*[ *]+kfi_[a-z0-9_]+\(' | grep -oE 'kfi_[a-z0-9_]+' | LC_ALL=C sort -u)
count=$(echo "$declared" | wc -l)
[ "$count" -ge 150 ] || { echo "FAIL: only $count declarations are found"; exit 1; }
status=0
for call in $declared; do
  code ./*.c ./*.cc ./*.h | grep -qw "$call" || { echo "FAIL: no test calls $call"; status=1; }
done
[ $status -ne 0 ] || echo "$count calls"
exit $status
