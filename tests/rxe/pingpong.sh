#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# pingpong.sh LIBRARY_FOLDER PLUGIN_FOLDER [TYPE...]: in the lab, the distribution's unmodified fi_pingpong on verbs. Server and client
# run on our library with our plug-in (weft), on the distribution's library with its own provider (stock), or on the
# distribution's library with our plug-in (crossed), contents checked. Debian's rdma-core 44 and rxe are fussy about messages
# of length zero; the program sends none. LONG in the environment: "no" leaves all sizes, the crossed kind and IPv6 out,
# "only" runs nothing else.
set -u
library=$1 plugins=$2
shift 2
types=${*:-msg dgram}
[ -x /usr/bin/fi_pingpong ] || { echo "SKIP: fi_pingpong is not installed (package libfabric-bin)"; exit 77; }
cd "$(mktemp -d)" || exit 1
control=20000
failures=0

# on KIND WORD...: fi_pingpong. The log of the crossed kind shows which provider it used.
on() {
  case $1 in
    weft) export LD_LIBRARY_PATH="$library" FI_PROVIDER_PATH="$plugins" ;;
    crossed) unset LD_LIBRARY_PATH; export FI_PROVIDER_PATH="$plugins" FI_LOG_LEVEL=info FI_LOG_PROV=verbs ;;
    stock) unset LD_LIBRARY_PATH FI_PROVIDER_PATH ;;
  esac
  shift
  exec timeout 100 /usr/bin/fi_pingpong -p verbs -e $type "$@"
}

# ours KIND LOG: the kinds on weft's plug-in use it.
ours() { [ "$1" != crossed ] || grep -q log_connection "$2"; }

# listening PORT: a process of this host listens there.
listening() { grep -qi ":$(printf %04x "$1") [0-9A-F]*:0000 0A" /proc/net/tcp /proc/net/tcp6; }

pair() {
  server=$1 client=$2 address=$3
  shift 3
  control=$((control + 1))
  (on "$server" -B $control "$@") >server.log 2>&1 &
  process=$!
  tries=0
  until listening $control; do
    tries=$((tries + 1))
    [ $tries -lt 200 ] && kill -0 $process 2>/dev/null || break
    sleep 0.1
  done
  (on "$client" -P $control "$@" "$address") >client.log 2>&1
  ended=$?
  wait $process
  served=$?
  rows=$(grep -c '^[0-9]' client.log)
  if [ $ended -eq 0 ] && [ $served -eq 0 ] && [ "$rows" -gt 0 ] && ours "$server" server.log && ours "$client" client.log; then
    echo "passed: $type, $server serves $client, $address: $rows sizes"
  else
    echo "FAILED: $type, $server serves $client, $address: $served and $ended, $rows sizes"
    sed 's/^/  server: /' server.log
    sed 's/^/  client: /' client.log
    failures=$((failures + 1))
  fi
}

for type in $types; do
  if [ "${LONG:-}" != only ]; then
    pair weft weft "$RXE_ADDRESS" -c -I 5
    pair weft stock "$RXE_ADDRESS" -c -I 5
    pair stock weft "$RXE_ADDRESS" -c -I 5
  fi
  if [ "${LONG:-}" != no ] && [ $type = msg ]; then
    pair weft weft "$RXE_ADDRESS" -c -I 2 -S all
    pair crossed crossed "$RXE_ADDRESS" -c -I 5
    pair crossed stock "$RXE_ADDRESS" -c -I 5
    pair weft crossed "$RXE_ADDRESS" -c -I 5
    if [ -n "${RXE_ADDRESS6:-}" ]; then pair weft weft "$RXE_ADDRESS6" -6 -c -I 5; fi
  fi
done
echo "failures: $failures"
exit $((failures > 0))
