#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# reliable_hosts.sh MESSAGES PEER WEFT PLUGINS [CASE...]: reliable datagrams over verbs between two hosts, with the programs
# interop/messages_peer.cc and reliable_peer.cc; WEFT and PLUGINS are the folders of libfabric.so.1 and libverbs-fi.so.
# One boot for all cases:
#   loss       messages of all protocols arrive, expected or not, though 1 % of the frames is lost
#   process    the server's process is killed: what is on its way fails, each operation once; the next one is reached
#   cut        the wire silently loses everything for a while: likewise, and the same server is reached then
#   dead       the server's host dies: what is on its way fails
# and if they are asked for: as loss with no frame lost, weft and with libfabric serves_stock and stock_serves, which
# exchange.sh has on one host; as cut while nothing is on its way, quiet_cut.
set -u
here=$(cd "$(dirname "$0")" && pwd)
if [ "$1" != in_guest ]; then
  exec sh "$here/pair.sh" -t 500 sh "$here/reliable_hosts.sh" in_guest "$@" :: sh "$here/reliable_hosts.sh" in_guest "$@"
fi
messages=$2 peer=$3 weft=$4 plugins=$5
shift 5
[ $# -gt 0 ] || set -- loss process cut dead
. "$here/log_functions.sh"
cd "$(mktemp -d)" || exit 1
failures=0 port=8000
export RELIABLE_PROVIDER="verbs;ofi_rxm" RELIABLE_ADDRESS="$RXE_ADDRESS" FI_PROVIDER=verbs,ofi_rxm
export FI_UNIVERSE_SIZE=4  # libfabric's completion queues grow in proportion, beyond the length that Soft-RoCE has
export MESSAGE_SIZES="0 65 16384 16385 131072 131073 1048577" MESSAGES_AT_ONCE=2

wrong() {
  echo "FAILED $case: $*"
  sed 's/^/  /' log
  failures=$((failures + 1))
}

# on LIBRARY COMMAND...
on() {
  case $1 in
    weft) export LD_LIBRARY_PATH="$weft" FI_PROVIDER_PATH="$plugins" ;;
    stock) unset LD_LIBRARY_PATH FI_PROVIDER_PATH FI_VERBS_ACK_TIMEOUT FI_VERBS_RETRY_COUNT ;;
  esac
  shift
  exec "$@"
}

# exchange SERVER_LIBRARY CLIENT_LIBRARY
exchange() {
  name=$RXE_OUT/name.$case
  if [ "$RXE_HOST" = a ]; then
    (on "$1" env "$patient" timeout 150 "$messages" server) >"$name" 2>log &
    tries=0
    until [ -s "$name" ] || [ $tries -ge 300 ]; do
      tries=$((tries + 1))
      sleep 0.1
    done
    lab meet named
    wait $! || wrong "the server ended with $?"
  else
    lab meet named
    (on "$2" env "$patient" timeout 150 "$messages" client "$(cat "$name")") >log 2>&1 || wrong "the client ended with $?"
  fi
  lab meet over
}

serve() {
  (RELIABLE_PORT=$port on weft "$peer" serve) >log 2>&1 &
  process=$!
  until_log_has log "^listening"
}
# talk [PAUSE]: returns a moment after its beginning, so that messages are in flight; or in the pause.
talk() {
  (on weft "$peer" talk "$RXE_PEER_ADDRESS" $port "$@") >log 2>&1 &
  process=$!
  until_log_has log "^talking"
}
# ended_within MS: all sends have completed or failed, so long after the last sign of life.
ended_within() {
  wait $process || wrong "the client ended with $?"
  took=$(sed -n 's/^sends .* within \([0-9]*\) ms/\1/p' log)
  [ "${took:-999999}" -le "$1" ] || wrong "sends ended after ${took:-an eternity}, not $1 ms"
  grep -q '^failed [0-9]*: .' log || wrong "nothing failed"
  [ -n "${RELIABLE_LAST:-}" ] || grep -q '^back after' log || wrong "no peer was reached again"
}

# Retries come soon. They end soon where a peer dies; where frames are only lost, a slow host must not use them up.
export FI_VERBS_ACK_TIMEOUT=14 FI_VERBS_RETRY_COUNT=6  # 67 ms
patient=FI_VERBS_RETRY_COUNT=7                         # to rxe, for ever

for case in "$@"; do
  port=$((port + 1)) before=$failures
  : >log
  case $case in
    weft) exchange weft weft ;;
    serves_stock) exchange weft stock ;;
    stock_serves) exchange stock weft ;;
    loss)
      [ "$RXE_HOST" = a ] || lab wire loss 1%
      lab meet lossy
      exchange weft weft
      [ "$RXE_HOST" = a ] || lab wire clean
      lab meet clean
      ;;
    process)
      if [ "$RXE_HOST" = a ]; then
        serve
        lab meet serving
        lab meet talking
        kill -9 $process
        wait $process 2>/dev/null
        serve
        lab meet over
        kill -9 $process
      else
        lab meet serving
        talk
        lab meet talking
        ended_within 10000
        lab meet over
      fi
      ;;
    cut | quiet_cut)
      if [ "$RXE_HOST" = a ]; then
        serve
        lab meet serving
        lab meet over
        kill -9 $process
      else
        lab meet serving
        if [ $case = cut ]; then talk; else talk 5; fi
        lab wire cut
        until_log_has log "^sends"
        lab wire clean
        ended_within 10000
        lab meet over
      fi
      ;;
    dead)
      if [ "$RXE_HOST" = a ]; then
        serve
        lab meet serving
        sleep 300  # its process ends before that
      else
        lab meet serving
        export RELIABLE_LAST=1
        talk
        lab kill a
        ended_within 10000
      fi
      ;;
  esac
  [ $failures -ne $before ] || echo "passed $case $(grep -E '^(sends|back)' log | tr '\n' ' ')"
done
exit $((failures > 0))
