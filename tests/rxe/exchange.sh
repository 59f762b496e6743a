#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# exchange.sh PROGRAM WEFT PLUGINS [MESSAGES]: weft, the distribution's library, and the distribution's with weft's
# plug-in exchange private data with each other (cm_exchange.cc), and messages of reliable datagrams with the program
# MESSAGES (interop/messages_peer.cc). The programs are linked with the distribution's library; WEFT and PLUGINS are the
# folders of libfabric.so.1 and libverbs-fi.so. LONG in the environment: "no" leaves the plug-in in the distribution's
# library out, "only" runs nothing else.
set -u
here=$(cd "$(dirname "$0")" && pwd)
program=$1 weft=$2 plugins=$3 messages=${4:-}
case ${LONG:-} in
  no) pairs="weft:weft weft:stock stock:weft" ;;
  only) pairs="plugin:stock stock:plugin plugin:weft" messages= ;;
  *) pairs="weft:weft weft:stock stock:weft plugin:stock stock:plugin plugin:weft" ;;
esac
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0 port=4700

# on LIBRARY WORD...
on() {
  library=$1
  shift
  case $library in
    weft) env LD_LIBRARY_PATH="$weft" FI_PROVIDER_PATH="$plugins" timeout 150 "$program" "$@" ;;
    stock) env -u LD_LIBRARY_PATH timeout 150 "$program" "$@" ;;
    plugin) env -u LD_LIBRARY_PATH FI_PROVIDER_PATH="$plugins" timeout 150 "$program" "$@" ;;
  esac
}

for pair in $pairs; do
  port=$((port + 1))
  on "${pair%:*}" serve "$RXE_ADDRESS" $port >"$scratch/started" 2>"$scratch/server" &
  server=$!
  for try in $(seq 100); do
    [ -s "$scratch/started" ] && break
    kill -0 $server 2>/dev/null || break
    sleep 0.1
  done
  on "${pair#*:}" ask "$RXE_ADDRESS" $port >"$scratch/client" 2>&1
  asked=$?
  [ $asked -eq 0 ] || kill $server 2>/dev/null
  wait $server
  served=$?
  if [ $asked -eq 0 ] && [ $served -eq 0 ]; then
    echo "ok: ${pair%:*} serves ${pair#*:}"
  else
    echo "FAILED: ${pair%:*} serves ${pair#*:}: server $served, client $asked"
    cat "$scratch/server" "$scratch/client"
    failures=$((failures + 1))
  fi
done
if [ -n "$messages" ]; then
  sh "$here/../interop/messages.sh" "$messages" "$weft" verbs "$plugins" || failures=$((failures + 1))
fi
[ $failures -eq 0 ]
