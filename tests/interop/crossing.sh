#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# crossing.sh PEER LIBRARY OTHER PROVIDER OTHER_PROVIDER: fifty fresh pairs of ends that send to each other at the same
# moment (crossing_peer.cc), one end on the library in the folder and one on OTHER ("stock" for the distribution's), each
# over its provider ("tcp+ofi_rxm" stands for "tcp;ofi_rxm", and "native" for the distribution's name of tcp's reliable
# datagrams). The end that polls first detects that requests crossed; weft logs it.
set -u
. "$(dirname "$0")/stock.sh"
peer=$1 library=$2 other=$3 provider=$(echo "$4" | tr + ";") other_provider=$(echo "$5" | tr + ";")
[ -x "$peer" ] || skip "crossing_peer was not built: the distribution's libfabric is not installed (package libfabric1)"
need_program /usr/bin/fi_info
[ "$other_provider" != native ] || other_provider=$(stock_native)
mkfifo "$scratch/there" "$scratch/back"

# roles OURS THEIRS: the leading end chooses the moment.
roles() {
  (
    if [ "$other" = stock ]; then unset LD_LIBRARY_PATH FI_LOG_LEVEL; else export LD_LIBRARY_PATH="$other"; fi
    export RELIABLE_PROVIDER="$other_provider"
    exec timeout 100 "$peer" "$2" 50 <"$scratch/there" >"$scratch/back" 2>"$scratch/theirs"
  ) &
  background=$!
  LD_LIBRARY_PATH=$library RELIABLE_PROVIDER=$provider timeout 100 "$peer" "$1" 50 \
    >"$scratch/there" <"$scratch/back" 2>"$scratch/ours"
  ours=$?
  wait $background
  theirs=$?
  background=
  crossed=$((crossed + $(cat "$scratch/ours" "$scratch/theirs" | grep -c "crossed ours")))
  [ $ours -eq 0 ] && [ $theirs -eq 0 ] && return
  tail -n 20 "$scratch/ours" "$scratch/theirs"
  fail "our end, which was to $1, ended with $ours, the other one with $theirs"
}

crossed=0
export FI_LOG_LEVEL=info FI_LOG_SUBSYS=ep_ctrl
tries=0
while [ $crossed -lt 10 ] && [ $tries -lt 5 ]; do  # when requests cross is up to the system's scheduler
  roles lead follow
  roles follow lead
  tries=$((tries + 1))
done
echo "our library saw $crossed requests cross"
[ $crossed -ge 10 ] || fail "requests hardly ever crossed"
