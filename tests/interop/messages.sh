#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# messages.sh PEER LIBRARY [native]: what PEER (messages_peer, rma_peer) exchanges, between two ends on the library in
# the folder and on the distribution's, each in both roles: over ofi_rxm with long messages read by their receiver and
# written by their sender; with "native" over tcp itself, which the distribution's release 1.17 calls net.
set -u
. "$(dirname "$0")/stock.sh"
peer=$1 library=$2 native=${3:-}
[ -x "$peer" ] || skip "$(basename "$peer") was not built: the distribution's libfabric is not installed (package libfabric1)"

provider() {
  case $native,$1 in
    ,*) echo "tcp;ofi_rxm" ;;
    *,) echo net ;;
    *) echo tcp ;;
  esac
}

# run SERVER_LIBRARY CLIENT_LIBRARY; an empty library is the distribution's.
run() {
  : >"$scratch/name"
  RELIABLE_PROVIDER=$(provider "$1") LD_LIBRARY_PATH=$1 timeout 50 "$peer" server >"$scratch/name" 2>"$scratch/server" &
  background=$!
  await_line "$scratch/name" "$scratch/server"
  RELIABLE_PROVIDER=$(provider "$2") LD_LIBRARY_PATH=$2 timeout 50 "$peer" client "$(cat "$scratch/name")" >"$scratch/client" 2>&1
  client=$?
  wait $background
  server=$?
  background=
  [ $client -eq 0 ] && [ $server -eq 0 ] && return
  cat "$scratch/client" "$scratch/server"
  fail "server on '$1' ended with $server, client on '$2' with $client"
}

if [ -n "$native" ]; then
  export TAKE_UNEXPECTED=server
  run "$library" ""
  TAKE_UNEXPECTED=client
  run "" "$library"
  unset TAKE_UNEXPECTED
  run "$library" "$library"
  exit 0
fi

# On libfabric both ends must have the same; a receiver of ours decides alone.
for write in 0 1; do
  export FI_OFI_RXM_USE_RNDV_WRITE=$write
  for pair in ":" "$library:" ":$library" "$library:$library"; do run "${pair%:*}" "${pair#*:}"; done
done
# Between two of ours too, without the shorter way that there is within a host.
export FI_OFI_RXM_DIRECT_READ=0
run "$library" "$library"
