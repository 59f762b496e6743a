#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# removal.sh LIBRARY_FOLDER PLUGIN_FOLDER PEER MCAST: in the lab, an RDMA device goes away beneath a connection that
# talks, one that is idle, a listener and a member of a group. Each gets one event soon, and everything can be closed;
# with a new device everything works again. Natively the device must not be removed.
set -u
[ "$RXE_LAB" = vm ] || { echo "SKIP: the device may be somebody else's"; exit 77; }
export LD_LIBRARY_PATH="$1" FI_PROVIDER_PATH="$2"
peer=$3 mcast=$4
. "$(dirname "$0")/log_functions.sh"
cd "$(mktemp -d)" || exit 1
failures=0
wrong() { echo "FAILED: $*"; failures=$((failures + 1)); }

# expect FILE PATTERN
expect() { grep -qE "$2" "$1" || wrong "$1 has no line \"$2\""; }

netdev=$(rdma link show "$RXE_DEVICE/1" | sed -n 's/.* netdev \([^ ]*\).*/\1/p')
"$peer" serve "$RXE_ADDRESS" 7201 >idle_server & idle_server=$!
"$peer" serve "$RXE_ADDRESS" 7202 >busy_server & busy_server=$!
"$peer" serve "$RXE_ADDRESS" 7203 >listener & listener=$!
"$mcast" -p verbs -a "$RXE_ADDRESS" --timeout=100 239.1.2.9 >member_out 2>member & member=$!
for name in idle_server busy_server listener; do until_log_has $name listening; done
"$peer" talk "$RXE_ADDRESS" 7201 10 100 >idle_client & idle_client=$!
"$peer" talk "$RXE_ADDRESS" 7202 1000000 >busy_client & busy_client=$!
until_log_has idle_client talked
until_log_has busy_client connected
until_log_has member 'receiving from'
rdma link del "$RXE_DEVICE" & removal=$!  # waits, with rxe, until no process has the device open
for name in idle_server busy_server idle_client busy_client; do
  eval "until_end $name \$$name 20"
  expect $name '^event (shutdown|error)'
  expect $name '^ends 1$'
  expect $name '^closed$'
  awk '$1 == "transfers" && $2 == $3 + $4 { found = 1 } END { exit !found }' $name || wrong "$name: transfers"
done
until_log_has listener 'listener error 19'
kill -9 $listener
until_end member $member 20
expect member 'went away'
until_end "the device" $removal 20
grep -H . idle_server busy_server idle_client busy_client listener member
rdma link add "$RXE_DEVICE" type rxe netdev "$netdev"
"$peer" serve "$RXE_ADDRESS" 7204 >new_server & new_server=$!
until_log_has new_server listening
timeout 60 "$peer" talk "$RXE_ADDRESS" 7204 10 >new_client || wrong "no connection over the new device"
expect new_client '^talked 10$'
until_end new_server $new_server 20
[ $failures -eq 0 ] && echo "all got the event of the device's end"
exit $((failures > 0))
