#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# groups.sh LIBRARY_FOLDER PLUGIN_FOLDER MCAST [CASE...]: multicast on verbs between two hosts. Host a listens with
# fi_mcast, host b sends 400 messages at a time:
#   plain    all arrive
#   loss     1200 messages with 1 % of the frames lost: what is missing is counted, nothing is repeated or foreign
#   killed   one of two listeners is killed: the other one receives everything
#   cut      the wire loses everything for a while: what is sent afterwards arrives
#   port     the cable is pulled and plugged in again: the members are told, and members again
#   groups   one endpoint receives what another one sends to 64 groups
# and, only when asked for, because so many programs take minutes in emulated machines:
#   members  each of 32 listeners receives 100 messages
set -u
here=$(cd "$(dirname "$0")" && pwd)
if [ "$1" != in_guest ]; then
  exec sh "$here/pair.sh" -t "${RXE_LIMIT:-200}" sh "$here/groups.sh" in_guest "$@" :: sh "$here/groups.sh" in_guest "$@"
fi
export LD_LIBRARY_PATH="$2" FI_PROVIDER_PATH="$3"
mcast=$4
shift 4
[ $# -gt 0 ] || set -- plain loss killed cut port groups
. "$here/log_functions.sh"
cd "$(mktemp -d)" || exit 1
failures=0
wrong() { echo "FAILED $case: $*"; cat log* heard* 2>/dev/null | sed 's/^/  /'; failures=$((failures + 1)); }

listen() {
  "$mcast" -p verbs -a "$RXE_ADDRESS" --json --silence=$silence --timeout=$patience $groups >"heard$1" 2>"log$1" &
  eval "listener$1=\$!"
  until_log_has "log$1" 'receiving from'
}
speak() { "$mcast" -s -p verbs -a "$RXE_ADDRESS" -I $count -r "$rate" --timeout=$patience $groups; }
said() { sed -n "s/.*\"$2\": \([0-9]*\).*/\1/p" "heard$1" | head -n 1; }
# heard N LEAST MOST: that listener received so many messages, and none twice or wrong.
heard() {
  got=$(said "$1" received)
  [ "${got:-0}" -ge "$2" ] && [ "${got:-0}" -le "$3" ] || wrong "listener $1 received ${got:-nothing}, not $2 to $3"
  [ "$(said "$1" repeated)" = 0 ] && [ "$(said "$1" foreign)" = 0 ] || wrong "listener $1 received foreign or repeated messages"
  [ $((got + $(said "$1" lost))) = $count ] || wrong "$got received and $(said "$1" lost) lost are not $count"
}

server() {
  case $case in
    killed) listeners=2 ;;
    members) listeners=32 ;;
    *) listeners=1 ;;
  esac
  for n in $(seq $listeners); do listen "$n"; done
  lab meet ready
  [ "$case" != killed ] || { sleep 1; kill -9 "$listener2"; }
  wait "$listener1" || wrong "fi_mcast ended with $?"
  case $case in
    plain | killed | groups) heard 1 $count $count ;;
    members)
      heard 1 $count $count
      for n in $(seq 2 32); do
        eval "wait \$listener$n" || wrong "fi_mcast $n ended with $?"
        heard "$n" $count $count
      done
      ;;
    loss) heard 1 1100 1199 ;;
    cut) heard 1 50 390 ;;
    port)
      heard 1 50 399
      grep -q 'is interrupted: the port went down' log1 || wrong "the listener got no event of its port"
      grep -q 'membership of .* restored' log1 || wrong "the listener got no event of its restored membership"
      ;;
  esac
  lab meet over
}

client() {
  lab meet ready
  [ "$case" != loss ] || lab wire loss 1%
  speak >log 2>&1 &
  sender=$!
  if [ "$case" = port ]; then
    sleep 1
    lab wire down
    sleep 1
    lab wire up
  fi
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

for case in "$@"; do
  rm -f log* heard*
  before=$failures
  count=400
  rate=400 silence=2 patience=100 groups=239.77.1.1
  case $case in
    loss) count=1200 ;;
    cut) rate=100 ;;
    port) rate=100 silence=5 ;;
    members) count=100 rate=20 patience=300 ;;
    groups) count=640 rate=200 groups=$(seq -s ' ' -f '239.77.2.%g' 64) ;;
  esac
  if [ "$RXE_HOST" = a ]; then server; else client; fi
  [ $failures -ne $before ] || echo "passed $case"
done
exit $((failures > 0))
