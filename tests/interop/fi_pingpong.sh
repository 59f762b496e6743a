#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# fi_pingpong.sh SERVER_LIBRARY CLIENT_LIBRARY OPTION...: the distribution's unmodified fi_pingpong, both ends with the
# same options, each on the library in the named folder ("stock" for its own). "tcp+ofi_rxm" stands for "tcp;ofi_rxm".
set -u
. "$(dirname "$0")/stock.sh"
need_program /usr/bin/fi_pingpong /usr/bin/fi_info
native=$(stock_native)
server_library=$1 client_library=$2
shift 2
for option in "$@"; do
  shift
  case $option in *+*) option=$(echo "$option" | tr + ";") ;; esac
  set -- "$@" "$option"
done
address=127.0.0.1
for option in "$@"; do [ "$option" = -6 ] && address=::1; done
control=$((20000 + $$ % 12000))  # below the ephemeral ports; the program requires a port number

on() {
  library=$1
  shift
  for word in "$@"; do
    shift
    case $word,$library in
      native,stock) word=$native ;;
      native,*) word=tcp ;;
    esac
    set -- "$@" "$word"
  done
  case $library in
    stock) exec env -u LD_LIBRARY_PATH "$@" ;;
    *) exec env LD_LIBRARY_PATH="$library" "$@" ;;
  esac
}

# listening PORT: a process of this machine listens there (both address families).
listening() { grep -qi ":$(printf %04x "$1") [0-9A-F]*:0000 0A" /proc/net/tcp /proc/net/tcp6 2>/dev/null; }

(on "$server_library" timeout 100 /usr/bin/fi_pingpong -B $control "$@" >"$scratch/server" 2>&1) &
background=$!
tries=0
until listening $control; do
  tries=$((tries + 1))
  [ $tries -lt 100 ] && kill -0 $background 2>/dev/null || { cat "$scratch/server"; fail "the server did not start"; }
  sleep 0.1
done
(on "$client_library" timeout 100 /usr/bin/fi_pingpong -P $control "$@" "$address" >"$scratch/client" 2>&1)
client=$?
wait $background
server=$?
background=
cat "$scratch/client"
[ $client -eq 0 ] && [ $server -eq 0 ] || { cat "$scratch/server"; fail "client ended with $client, server with $server"; }
grep -q '^bytes' "$scratch/client" || fail "no table"
