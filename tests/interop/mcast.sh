#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# mcast.sh TOOLS_FOLDER: two receivers and one sender of fi_mcast in a group on the loopback interface; every message
# reaches both, and the reports say so.
set -u
. "$(dirname "$0")/stock.sh"
fi_mcast=$1/fi_mcast
group=239.78.$(($$ / 256 % 256)).$(($$ % 256))
receive() { timeout 60 "$fi_mcast" --json --silence 10 --timeout 50 -a 127.0.0.1 "$group" >"$scratch/$1" 2>"$scratch/$1.log"; }
receive first & first=$!
receive second & second=$!
background="$first $second"
for log in first second; do
  tries=0
  until grep -q '^receiving' "$scratch/$log.log"; do
    tries=$((tries + 1))
    [ $tries -lt 200 ] || { cat "$scratch/$log.log"; fail "the $log receiver did not start"; }
    sleep 0.1
  done
done
timeout 60 "$fi_mcast" -s -a 127.0.0.1 -I 2000 -r 1000 "$group" >"$scratch/sender" 2>&1 || { cat "$scratch/sender"; fail "the sender"; }
grep -q '^sent 2000 messages of 64 bytes' "$scratch/sender" || { cat "$scratch/sender"; fail "the sender's report"; }
for receiver in first second; do
  eval "wait \$$receiver" || { cat "$scratch/$receiver" "$scratch/$receiver.log"; fail "the $receiver receiver"; }
  grep -q '"received": 2000, "lost": 0, "reordered": 0, "repeated": 0, "bytes": 128000' "$scratch/$receiver" ||
    { cat "$scratch/$receiver"; fail "the report of the $receiver receiver"; }
done
background=
timeout 10 "$fi_mcast" -s 127.0.0.1 >"$scratch/refused" 2>&1 && fail "an address that is no group was taken"
grep -q "'127.0.0.1' is not the numeric address of a multicast group" "$scratch/refused" || { cat "$scratch/refused"; fail "the reason is missing"; }
