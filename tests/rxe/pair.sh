#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# pair.sh [OPTION...] COMMAND_A... :: COMMAND_B...: two virtual machines on one virtual wire, each with Soft-RoCE and a
# command. Both start when both hosts are up, and both hosts live until both commands have ended. The commands change the
# wire, kill a host and wait for each other with `lab` (see there). docs/soft-roce.md says more.
#
# Options, environment and statuses are those of run.sh; the status is that of A, or of B if A is content. A host that
# was killed is content. Lines of output begin with "a: " and "b: ". RXE_OUT is always there, and both hosts share it.
# The commands get RXE_HOST (a, b), RXE_DEVICE, RXE_ADDRESS, RXE_ADDRESS6, RXE_PEER_ADDRESS, RXE_PEER_ADDRESS6.
set -u
here=$(cd "$(dirname "$0")" && pwd)
PATH=$PATH:/usr/sbin:/sbin
. "$here/vm.sh"

usage() { sed -n '3,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
read_options "$@"
shift "$parsed"
words=
while [ $# -gt 0 ] && [ "$1" != :: ]; do
  words="$words$(quoted "$1")"
  shift
done
[ $# -gt 1 ] && [ -n "$words" ] || usage
shift
[ "$mode" != native ] || skip "two hosts are two virtual machines"

carry() {
  sed -u "s/^/$name: /" <"$1/out" &
  carriers=$!
  sed -u "s/^/$name: /" <"$1/err" >&2 &
  carriers="$carriers $!"
}

other() { if [ "$1" = a ]; then echo b; else echo a; fi; }
gone() { [ -e "$scratch/gone.$1" ]; }

# visits LABEL HOST: how often that host has reached that point.
visits() { if [ -e "$scratch/meet.$1.$2" ]; then wc -c <"$scratch/meet.$1.$2"; else echo 0; fi; }

# meet HOST LABEL: waits for the other host's visit to the same point, the same number of times.
meet() {
  peer=$(other "$1")
  printf . >>"$scratch/meet.$2.$1"
  mine=$(visits "$2" "$1")
  until [ "$(visits "$2" "$peer")" -ge "$mine" ]; do
    if gone "$peer" || [ -e "$scratch/meet.session.ends.$peer" ]; then
      echo "host $peer is gone"
      return
    fi
    sleep 0.05
  done
}

# order HOST WORD...: has the session of that host change its end of the wire; a host that has ended needs no change.
order() {
  host=$1
  shift
  if gone "$host"; then return; fi
  echo "$*" >"$scratch/$host.ports/order.in"
  answer=$(timeout 20 head -n 1 "$scratch/$host.ports/order.out") || answer="host $host does not answer"
  [ "$answer" = ok ] || gone "$host" || echo "$answer"
}

plug() { gone "$1" || echo "set_link wire $2" >"$scratch/$1.ports/monitor.in"; }

wire() {
  case "$*" in
    down) plug a off; plug b off ;;
    up) plug a on; plug b on ;;
    cut) order a netem loss 100%; order b netem loss 100% ;;
    clean) plug a on; plug b on; order a clean; order b clean ;;
    loss* | delay* | duplicate* | corrupt* | reorder* | rate*) order a netem "$@"; order b netem "$@" ;;
    *) echo "unknown: wire $*" ;;
  esac
}

end_host() {
  case $1 in a | b) ;; *) echo "unknown host $1"; return ;; esac
  : >"$scratch/killed.$1"
  : >"$scratch/gone.$1"
  kill "$(cat "$scratch/$1.pid")" 2>/dev/null
}

# serve HOST: answers the requests of its commands, one at a time.
serve() {
  while read -r verb argument; do
    case $verb in
      meet) answer=$(meet "$1" "${argument:-point}") ;;
      wire) answer=$(wire $argument) ;;
      kill) answer=$(end_host "$argument") ;;
      *) answer="unknown: $verb" ;;
    esac
    echo "${answer:-ok}" | head -n 1
  done <"$scratch/$1.ports/request.out" >"$scratch/$1.ports/request.in"
}

# host NAME NUMBER PEER_NUMBER WORD...: boots that host.
host() {
  name=$1 number=$2 peer=$3
  shift 3
  mkdir -p "$scratch/$name/bin"
  cp "$here/lab" "$scratch/$name/bin/lab"
  chmod 755 "$scratch/$name/bin/lab"
  cat >"$scratch/environment" <<END
export RXE_LAB=pair RXE_HOST=$name RXE_DEVICE=${driver}0 RXE_ADDRESS=192.168.77.$number RXE_ADDRESS6=fd77::$number
export RXE_PEER_ADDRESS=192.168.77.$peer RXE_PEER_ADDRESS6=fd77::$peer PATH="/run/lab/bin:\$PATH"
END
  cat >"$scratch/$name/settings" <<END
name=$name driver=$driver wire=02:00:00:00:77:0$number address=192.168.77.$number address6=fd77::$number
limit=$limit out=$(quoted "$out")
hosts='192.168.77.1 a
fd77::1 a
192.168.77.2 b
fd77::2 b'
END
  write_command "$scratch/$name/command" "$@"
  start_vm "$name" -device "virtio-net-pci,netdev=net,id=wire,mac=02:00:00:00:77:0$number" \
    -netdev "dgram,id=net,local.type=unix,local.path=$scratch/wire.$number,remote.type=unix,remote.path=$scratch/wire.$peer"
  echo "$vm" >"$scratch/$name.pid"
  serve "$name" &
  processes="$processes $!"
}

running() { read -r _ _ state _ 2>/dev/null <"/proc/$1/stat" && [ "$state" != Z ]; }

open_scratch
need_vm
if [ -z "$out" ]; then
  out=$scratch/out
  mkdir "$out"
  export RXE_OUT="$out"
fi
eval "host a 1 2 $words"
vm_a=$vm carriers_a=$carriers
host b 2 1 "$@"
vm_b=$vm carriers_b=$carriers
until gone a && gone b; do
  running "$vm_a" || : >"$scratch/gone.a"
  running "$vm_b" || : >"$scratch/gone.b"
  sleep 0.1
done
final=0
for name in a b; do
  eval "vm=\$vm_$name carriers=\$carriers_$name"
  wait "$vm"
  if [ -e "$scratch/killed.$name" ]; then
    wait $carriers
    echo "rxe: host $name was killed" >&2
  else
    if [ -e "$scratch/$name/status" ]; then wait $carriers; fi
    result "$name"
    note "host $name: status $status"
    [ "$final" -ne 0 ] || final=$status
  fi
done
exit "$final"
