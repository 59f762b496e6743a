#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# groups.sh LIBRARY_FOLDER PLUGIN_FOLDER MCAST: multicast on verbs between two hosts. Host a listens with fi_mcast, host b
# sends 400 messages at a time:
#   plain    all arrive
#   loss     1200 messages with 1 % of the frames lost: what is missing is counted, nothing is repeated or foreign
#   killed   one of two listeners is killed: the other one hears everything
#   cut      the wire loses everything for a while: what is sent afterwards arrives
set -u
here=$(cd "$(dirname "$0")" && pwd)
if [ "$1" != in_guest ]; then
  exec sh "$here/pair.sh" -t 200 sh "$here/groups.sh" in_guest "$@" :: sh "$here/groups.sh" in_guest "$@"
fi
export LD_LIBRARY_PATH="$2" FI_PROVIDER_PATH="$3"
mcast=$4
cd "$(mktemp -d)" || exit 1
failures=0
wrong() { echo "FAILED $case: $*"; cat log* heard* 2>/dev/null | sed 's/^/  /'; failures=$((failures + 1)); }

listen() {
  "$mcast" -p verbs -a "$RXE_ADDRESS" --json --silence=2 --timeout=100 239.77.1.1 >"heard$1" 2>"log$1" &
  eval "listener$1=\$!"
  tries=0
  until grep -q 'receiving from' "log$1" || [ $tries -gt 300 ]; do tries=$((tries + 1)); sleep 0.1; done
}
said() { sed -n "s/.*\"$2\": \([0-9]*\).*/\1/p" "heard$1" | head -n 1; }
# heard N LEAST MOST: that listener got so many messages, and nothing twice or wrong.
heard() {
  got=$(said "$1" received)
  [ "${got:-0}" -ge "$2" ] && [ "${got:-0}" -le "$3" ] || wrong "listener $1 received ${got:-nothing}, not $2 to $3"
  [ "$(said "$1" repeated)" = 0 ] && [ "$(said "$1" foreign)" = 0 ] || wrong "listener $1 received what was not sent"
  [ $((got + $(said "$1" lost))) = $count ] || wrong "$got received and $(said "$1" lost) lost are not $count"
}

server() {
  listen 1
  [ "$case" != killed ] || listen 2
  lab meet ready
  [ "$case" != killed ] || { sleep 1; kill -9 "$listener2"; }
  wait "$listener1" || wrong "fi_mcast ended with $?"
  case $case in
    plain | killed) heard 1 400 400 ;;
    loss) heard 1 1100 1199 ;;
    cut) heard 1 50 390 ;;
  esac
  lab meet over
}

client() {
  rate=400
  [ "$case" != cut ] || rate=100
  lab meet ready
  [ "$case" != loss ] || lab wire loss 1%
  "$mcast" -s -p verbs -a "$RXE_ADDRESS" -I $count -r "$rate" --timeout=100 239.77.1.1 >log 2>&1 &
  sender=$!
  if [ "$case" = cut ]; then
    sleep 1
    lab wire cut
    sleep 1
    lab wire clean
  fi
  wait $sender || wrong "fi_mcast -s ended with $?"
  lab wire clean
  lab meet over
}

for case in plain loss killed cut; do
  rm -f log* heard*
  before=$failures
  count=400
  [ "$case" != loss ] || count=1200
  if [ "$RXE_HOST" = a ]; then server; else client; fi
  [ $failures -ne $before ] || echo "passed $case"
done
exit $((failures > 0))
