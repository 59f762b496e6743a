#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# hints.sh PROGRAM LIBRARY TABLE: the answers to many sets of hints (hints_table.cc) are those of the table, which
# libfabric 2.1 gave. Ranks of one job on both find the same provider and protocol first, then the others in the same
# order. The library in the folder may have more answers, behind the first one. Where the distribution's libfabric is
# of release 2, the table must be what that one answers.
#
# To record the table again: FI_PROVIDER=tcp,udp,ofi_rxm hints_table libfabric.so.1 <hints.tsv
set -u
. "$(dirname "$0")/stock.sh"
answers=$1 library=$2 table=$3
need_program /usr/bin/fi_info
export FI_PROVIDER=tcp,udp,ofi_rxm

LD_LIBRARY_PATH=$library "$answers" libfabric.so.1 <"$table" >"$scratch/found" || fail "hints_table"
cat >"$scratch/compare" <<'AWK'
NR == FNR { recorded[FNR] = $2; next }
recorded[FNR] ~ /^error/ { more += $2 !~ /^error/; next }  # weft may serve more sets
{
  wanted = split(recorded[FNR], theirs, " ")
  found = split($2, ours, " ")
  next_one = 1
  for (i = 1; i <= found; ++i) if (ours[i] == theirs[next_one]) ++next_one
  same += next_one > wanted && ours[1] == theirs[1]
  if (next_one > wanted && ours[1] == theirs[1]) next
  print "hints:     " $1 "\n  recorded: " recorded[FNR] "\n  found:    " $2
  ++different
}
END {
  print same + 0 " sets have the same answers, " more + 0 " only weft serves, " different + 0 " differ"
  exit different > 0 || same < 400
}
AWK
awk -F "\t" -f "$scratch/compare" "$table" "$scratch/found" || fail "not the answers of the table"

case $(env -u LD_LIBRARY_PATH /usr/bin/fi_info --version | sed -n 's/^libfabric: //p') in
  2.*)
    env -u LD_LIBRARY_PATH "$answers" libfabric.so.1 <"$table" >"$scratch/stock" || fail "hints_table"
    diff "$table" "$scratch/stock" || fail "the distribution's libfabric does not answer as in the table"
    ;;
esac
