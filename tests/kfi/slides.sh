#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# slides.sh SERVER SERVER_LIBRARY CLIENT CLIENT_LIBRARY [PROVIDER [ADDRESS]]: the server of the slides with one client, each
# over the libfabric.so.1 in the named folder ("stock": the distribution's).
set -u
. "$(dirname "$0")/stock.sh"
server=$1 server_library=$2 client=$3 client_library=$4 provider=${5:-tcp} address=${6:-127.0.0.1}
for program in "$server" "$client"; do
  [ -x "$program" ] || { echo "SKIP: $(basename "$program") was not built: the distribution's libfabric is not installed"; exit 77; }
done
case " $server_library $client_library " in *" stock "*) stock_library=$(stock_folder) || exit $? ;; esac
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# on LIBRARY PROGRAM ARGUMENT...
on() {
  library=$1
  shift
  if [ "$library" = stock ]; then library=$stock_library; fi
  LD_LIBRARY_PATH="$library" timeout 60 "$@"
}
on "$server_library" "$server" "$provider" "$address" >"$scratch/port" &
background=$!
tries=0
until [ -s "$scratch/port" ] || [ $tries -gt 300 ]; do
  tries=$((tries + 1))
  kill -0 $background 2>/dev/null || break
  sleep 0.05
done
on "$client_library" "$client" "$(cat "$scratch/port")" "$provider" "$address"
client_status=$?
wait $background
server_status=$?
echo "server ended with $server_status, client with $client_status"
[ $server_status -eq 0 ] && [ $client_status -eq 0 ]
