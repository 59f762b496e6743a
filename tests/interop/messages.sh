#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# messages.sh PEER LIBRARY [native|longest|verbs PLUGINS]: the messages of PEER (messages_peer, rma_peer), between two
# ends on the library in the folder and on the distribution's, each in both roles: over ofi_rxm with long messages read
# by their receiver and written by their sender; with "native" over tcp itself; with "verbs" over that, in the lab
# (RXE_ADDRESS), with PLUGINS the folder of ours. "longest": one of 256 MiB.
set -u
. "$(dirname "$0")/stock.sh"
peer=$1 library=$2 mode=${3:-} plugins=${4:-}
[ -x "$peer" ] || skip "$(basename "$peer") was not built: the distribution's libfabric is not installed (package libfabric1)"
if [ "$mode" = native ]; then
  need_program /usr/bin/fi_info
  native=$(stock_native)
fi

provider() {
  case $mode,$1 in
    verbs,*) echo "verbs;ofi_rxm" ;;
    native,) echo "$native" ;;
    native,*) echo tcp ;;
    *) echo "tcp;ofi_rxm" ;;
  esac
}

# on LIBRARY ROLE...: an empty library is the distribution's.
on() {
  selected=$1
  shift
  RELIABLE_PROVIDER=$(provider "$selected") LD_LIBRARY_PATH=$selected
  export RELIABLE_PROVIDER LD_LIBRARY_PATH
  if [ -n "$plugins" ] && [ -n "$selected" ]; then export FI_PROVIDER_PATH="$plugins"; else unset FI_PROVIDER_PATH; fi
  exec timeout "${MESSAGES_LIMIT:-50}" "$peer" "$@"
}

# run SERVER_LIBRARY CLIENT_LIBRARY
run() {
  : >"$scratch/name"
  (on "$1" server) >"$scratch/name" 2>"$scratch/server" &
  background=$!
  await_line "$scratch/name" "$scratch/server"
  (on "$2" client "$(cat "$scratch/name")") >"$scratch/client" 2>&1
  client=$?
  wait $background
  server=$?
  background=
  [ $client -eq 0 ] && [ $server -eq 0 ] && return
  cat "$scratch/client" "$scratch/server"
  fail "server on '$1' ended with $server, client on '$2' with $client"
}

case $mode in
  native)
    export TAKE_UNEXPECTED=server
    run "$library" ""
    TAKE_UNEXPECTED=client
    run "" "$library"
    unset TAKE_UNEXPECTED
    run "$library" "$library"
    exit 0
    ;;
  longest)
    export MESSAGE_SIZES=268435456 MESSAGES_AT_ONCE=1 MESSAGES_LIMIT=100
    for write in 0 1; do
      export FI_OFI_RXM_USE_RNDV_WRITE=$write
      for pair in "$library:" ":$library"; do run "${pair%:*}" "${pair#*:}"; done
    done
    exit 0
    ;;
  verbs)
    # With tcp: ends of weft on one host exchange messages through it, and their requests to libfabric offer that.
    export RELIABLE_ADDRESS="$RXE_ADDRESS" FI_PROVIDER=verbs,tcp,ofi_rxm MESSAGES_LIMIT=100
    export FI_UNIVERSE_SIZE=4  # libfabric's completion queues grow in proportion, beyond the length that Soft-RoCE has
    # The number of sends that the device has carried out.
    sends() { cat "/sys/class/infiniband/$RXE_DEVICE/ports/1/hw_counters/rdma_sends"; }
    # 20 messages of a direction, in 8 segments each; rendezvous would be 2 packets each.
    export MESSAGE_SIZES=131072 MESSAGES_AT_ONCE=10
    for pair in "$library:" ":$library"; do
      before=$(sends)
      run "${pair%:*}" "${pair#*:}"
      count=$(($(sends) - before))
      [ $count -ge 320 ] || fail "40 messages of 8 pieces went in $count packets"
      echo "40 messages of 8 pieces went in $count packets"
    done
    MESSAGE_SIZES=8388608 MESSAGES_AT_ONCE=1  # the longest that the device has
    run "$library" ""
    unset MESSAGE_SIZES
    MESSAGES_AT_ONCE=2
    for pair in "$library:" ":$library"; do run "${pair%:*}" "${pair#*:}"; done
    export FI_OFI_RXM_USE_RNDV_WRITE=1 MESSAGE_SIZES="131072 131073 1048577"
    for pair in "$library:" ":$library"; do run "${pair%:*}" "${pair#*:}"; done
    exit 0
    ;;
esac

# On libfabric both ends must have the same; a receiver on weft decides alone.
for write in 0 1; do
  export FI_OFI_RXM_USE_RNDV_WRITE=$write
  for pair in ":" "$library:" ":$library" "$library:$library"; do run "${pair%:*}" "${pair#*:}"; done
done
# Between two weft ends too, over the connection.
export FI_TCP_SHARED_MEMORY=0
run "$library" "$library"
