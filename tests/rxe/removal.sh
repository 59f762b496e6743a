#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# removal.sh LIBRARY_FOLDER PLUGIN_FOLDER PEER MCAST: in the lab, an RDMA device goes away beneath a connection that
# talks, one that is idle, a listener and a member of a group. Each is told, once and soon, and everything can be closed;
# with a new device everything works again. Natively the device is not ours to take.
set -u
[ "$RXE_LAB" = vm ] || { echo "SKIP: the device may be somebody else's"; exit 77; }
export LD_LIBRARY_PATH="$1" FI_PROVIDER_PATH="$2"
peer=$3 mcast=$4
cd "$(mktemp -d)" || exit 1
failures=0
wrong() { echo "FAILED: $*"; failures=$((failures + 1)); }

# until_log FILE PATTERN
until_log() {
  tries=0
  until grep -q "$2" "$1"; do
    tries=$((tries + 1))
    [ $tries -lt 300 ] || { wrong "$1 waits for \"$2\" in vain"; return; }
    sleep 0.1
  done
}

# until_end NAME PROCESS: within 20 seconds.
until_end() {
  tries=0
  while kill -0 "$2" 2>/dev/null && [ "$(cut -d ' ' -f 3 "/proc/$2/stat")" != Z ]; do
    tries=$((tries + 1))
    [ $tries -lt 200 ] || { wrong "$1 does not end"; kill -9 "$2"; break; }
    sleep 0.1
  done
}

# expect FILE PATTERN
expect() { grep -qE "$2" "$1" || wrong "$1 has no line \"$2\""; }

netdev=$(rdma link show "$RXE_DEVICE/1" | sed -n 's/.* netdev \([^ ]*\).*/\1/p')
"$peer" serve "$RXE_ADDRESS" 7201 >idle_server & idle_server=$!
"$peer" serve "$RXE_ADDRESS" 7202 >busy_server & busy_server=$!
"$peer" serve "$RXE_ADDRESS" 7203 >listener & listener=$!
"$mcast" -p verbs -a "$RXE_ADDRESS" --timeout=100 239.1.2.9 >member_out 2>member & member=$!
for name in idle_server busy_server listener; do until_log $name listening; done
"$peer" talk "$RXE_ADDRESS" 7201 10 100 >idle_client & idle_client=$!
"$peer" talk "$RXE_ADDRESS" 7202 1000000 >busy_client & busy_client=$!
until_log idle_client talked
until_log busy_client connected
until_log member 'receiving from'
rdma link del "$RXE_DEVICE" & removal=$!  # waits, with rxe, until no process has the device open
for name in idle_server busy_server idle_client busy_client; do
  eval "until_end $name \$$name"
  expect $name '^event (shutdown|error)'
  expect $name '^ends 1$'
  expect $name '^closed$'
  awk '$1 == "transfers" && $2 == $3 + $4 { found = 1 } END { exit !found }' $name || wrong "$name: transfers"
done
until_log listener 'listener error 19'
kill -9 $listener
until_end member $member
expect member 'went away'
until_end "the device" $removal
grep -H . idle_server busy_server idle_client busy_client listener member
rdma link add "$RXE_DEVICE" type rxe netdev "$netdev"
"$peer" serve "$RXE_ADDRESS" 7204 >new_server & new_server=$!
until_log new_server listening
timeout 60 "$peer" talk "$RXE_ADDRESS" 7204 10 >new_client || wrong "no connection over the new device"
expect new_client '^talked 10$'
until_end new_server $new_server
[ $failures -eq 0 ] && echo "all were told of the device's end"
exit $((failures > 0))
