#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# server_and_client.sh SERVER CLIENT: runs both, as the README shows; both succeed and the client prints its answer.
set -eu
port=$(mktemp)
trap 'rm -f "$port"' EXIT
"$1" >"$port" &
server=$!
while [ ! -s "$port" ] && kill -0 $server; do sleep 0.05; done
answer=$("$2" 127.0.0.1 "$(cat "$port")")
wait $server
echo "$answer"
[ "$answer" = hello ]
