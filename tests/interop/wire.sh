#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# wire.sh PEER SERVER_LIBRARY CLIENT_LIBRARY ADDRESS: runs wire_peer as server and as client, each end on the library in
# the named folder ("stock" stands for the one the program was linked with).
set -u
. "$(dirname "$0")/stock.sh"
peer=$1 server_library=$2 client_library=$3 address=$4
[ -x "$peer" ] || skip "wire_peer was not built: the distribution's libfabric is not installed (package libfabric1)"
case $address in
  *:*) [ -e /proc/net/if_inet6 ] || { echo "skipped: no IPv6"; exit 77; } ;;
esac

# on LIBRARY COMMAND...: runs the command with that library.
on() {
  library=$1
  shift
  case $library in
    stock) exec env -u LD_LIBRARY_PATH "$@" ;;
    *) exec env LD_LIBRARY_PATH="$library" "$@" ;;
  esac
}

(on "$server_library" timeout 100 "$peer" server "$address" >"$scratch/port" 2>"$scratch/server") &
background=$!
await_line "$scratch/port" "$scratch/server"
(on "$client_library" timeout 100 "$peer" client "$address" "$(cat "$scratch/port")") >"$scratch/client" 2>&1
client=$?
wait $background
server=$?
background=
cat "$scratch/client" "$scratch/server"
[ $client -eq 0 ] && [ $server -eq 0 ] || fail "client ended with $client, server with $server"
