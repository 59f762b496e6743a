#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# two_hosts.sh PEER SERVER_LIBRARY CLIENT_LIBRARY CASE...: the life of a connection between two hosts. The program
# peer serves on host a and talks on host b, each on the library FOLDER[:PLUGINS] ("stock" for the distribution's folder).
# One boot for all cases, in this order at most:
#   orderly    all messages arrive, the client ends it, the server sees one FI_SHUTDOWN
#   loss       the same with 1 % of the frames lost
#   delay      the same with 50 ms more in each direction
#   flap       the same while the cable is pulled for a moment
#   process    the client's process is killed: the server sees one FI_SHUTDOWN
#   refused    no listener: FI_ECONNREFUSED at once
#   idle       the same, asking an idle peer whether it is there (FI_VERBS_KEEPALIVE)
#   idle_cut   the wire silently loses everything while the connection is idle: both ends see one end
#   cut        the wire silently loses everything: the client's transfers fail, one end, in the time that retries take
#   port_down  the cable is pulled from an idle connection: both ends see one end, after the grace period
#   dead       the server's host dies: as cut
#   absent     connecting to the dead host: FI_ETIMEDOUT when the deadline says so
set -u
here=$(cd "$(dirname "$0")" && pwd)
if [ "$1" != in_guest ]; then
  peer=$1 server=$2 client=$3
  shift 3
  exec sh "$here/pair.sh" -t 500 sh "$here/two_hosts.sh" in_guest "$peer" "$server" "$@" :: \
    sh "$here/two_hosts.sh" in_guest "$peer" "$client" "$@"
fi
shift
peer=$1 library=${2%%:*} plugins=
case $2 in *:*) plugins=${2#*:} ;; esac
shift 2
. "$here/log_functions.sh"
cd "$(mktemp -d)" || exit 1
failures=0
wrong() {
  echo "FAILED $case: $*"
  [ $failures -gt $before ] || { cat log; grep . /sys/class/infiniband/$RXE_DEVICE/ports/1/hw_counters/*; rdma resource show qp; } | sed 's/^/  /'
  failures=$((failures + 1))
}

# on_library WORD...: runs the peer with these words.
on_library() {
  case $library in
    stock) unset LD_LIBRARY_PATH ;;
    *) export LD_LIBRARY_PATH="$library" ;;
  esac
  case $plugins in
    '') unset FI_PROVIDER_PATH ;;
    *) export FI_PROVIDER_PATH="$plugins" ;;
  esac
  exec "$peer" "$@"
}

# says PATTERN, never PATTERN: the log has such a line, or none.
says() { grep -qE "^$1" log || wrong "no line \"$1\""; }
never() { ! grep -qE "^$1" log || wrong "a line \"$1\""; }

# balanced: every posted transfer ended once, and all objects could be closed.
balanced() {
  says closed
  [ -z "$plugins" ] || awk '$1 == "transfers" && $2 == $3 + $4 { found = 1 } END { exit !found }' log || wrong "transfers"
}

# ended_within MS: one end, so long after the last sign of life.
ended_within() {
  [ -z "$plugins" ] || says 'ends 1$'
  took=$(sed -n 's/^ended //p' log)
  [ "${took:-999999}" -le "$1" ] || wrong "ended after ${took:-an eternity}, not $1 ms"
}

until_peer_ends() { until_end peer "$process" "$1"; wait "$process" 2>/dev/null; }  # SECONDS

server() {
  [ "$case" != absent ] || return 0
  if [ "$case" = refused ]; then
    lab meet ready; lab meet over
    return
  fi
  (on_library serve "$RXE_ADDRESS" $port) >log 2>&1 &
  process=$!
  until_log_has log "^listening"
  lab meet ready
  lab meet over
  case $case in
    dead) ;;
    cut) kill -9 $process 2>/dev/null ;;  # no message could announce the end
    *)
      until_peer_ends 60
      says connected
      ended_within 60000
      says 'event shutdown'
      balanced
      ;;
  esac
}

start() { (on_library talk "$RXE_PEER_ADDRESS" $port "$@") >log 2>&1 & process=$!; }

client() {
  [ "$case" = absent ] || lab meet ready
  retries=60000  # a library with its defaults
  case $case in
    cut | idle_cut | dead)
      if [ -n "$plugins" ]; then
        export FI_VERBS_ACK_TIMEOUT=14 FI_VERBS_RETRY_COUNT=6  # 67 ms; to rxe, 7 retries mean for ever
        retries=10000
      fi
      ;;
    absent) export FI_VERBS_ANSWER_TIMEOUT=5000 ;;  # the dead host's address still resolves
  esac
  case $case in
    orderly) start 60 ;;
    loss) lab wire loss 1%; start 100 ;;
    delay) lab wire delay 50ms; start 10 ;;
    flap) start 200; until_log_has log "^connected"; lab wire down; lab wire up ;;
    process | cut | dead) start 1000000; until_log_has log "^connected"; sleep 1 ;;
    idle) start 10 4 ;;
    idle_cut) start 10 100; until_log_has log "^talked"; lab wire cut ;;
    port_down) start 10 100; until_log_has log "^talked"; lab wire down ;;
    refused | absent) start 1 ;;
  esac
  case $case in
    process) kill -9 $process ;;
    cut) lab wire cut ;;
    dead) lab kill a ;;
  esac
  until_peer_ends 100
  case $case in
    orderly | loss | delay | flap | idle) never 'event error'; says 'talked [1-9]'; says 'shut down'; balanced ;;
    process) ;;
    cut | dead) ended_within $retries; says 'completion error'; balanced ;;
    idle_cut | port_down) ended_within 20000; balanced ;;
    refused) ended_within 5000; says 'event error 111'; balanced ;;
    absent) ended_within 10000; says 'event error 110'; balanced ;;
  esac
  lab wire clean
  case $case in dead | absent) ;; *) lab meet over ;; esac
}

port=7000
for case in "$@"; do
  port=$((port + 1))
  : >log
  before=$failures
  unset FI_VERBS_ACK_TIMEOUT FI_VERBS_RETRY_COUNT FI_VERBS_ANSWER_TIMEOUT FI_VERBS_KEEPALIVE
  case $case in idle*) export FI_VERBS_KEEPALIVE=1 ;; esac
  if [ "$RXE_HOST" = a ]; then server; else client; fi
  [ $failures -ne $before ] || echo "passed $case $(sed -n 's/^ended \(.*\)/(ended \1 ms after the last transfer)/p' log)"
done
exit $((failures > 0))
