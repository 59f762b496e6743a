#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# run.sh [OPTION...] COMMAND...: runs the command on Soft-RoCE and ends with its status. Natively where this machine has
# an RDMA device, or rdma_rxe and the rights; else in a small virtual machine that sees this machine's files (changes to
# them stay in the guest). docs/soft-roce.md says more.
#
#   -t SECONDS  time limit (600): then the guest's dmesg is shown and the status is 124
#   -o FOLDER   a folder whose files survive the guest; the command finds it in RXE_OUT
#   -m MB -c N  memory (2048) and processors (2) of the guest
#   -v          say what happens, show the guest's dmesg
# Environment: RXE_LIMIT RXE_OUT RXE_MEMORY RXE_CPUS for the above; RXE_MODE=auto|native|vm|kvm|tcg|count; RXE_DRIVER=siw:
# software iWARP, in a virtual machine; RXE_CACHE (image.sh).
# The command gets our folder, environment and arguments, and RXE_DEVICE, RXE_ADDRESS, RXE_ADDRESS6, RXE_PLAIN_ADDRESS.
# Status: the command's; 77 the lab cannot run here (1 if REQUIRE names rxe); 124 out of time; 125 the lab failed.
set -u
here=$(cd "$(dirname "$0")" && pwd)
PATH=$PATH:/usr/sbin:/sbin
. "$here/vm.sh"
. "$here/native.sh"

usage() { sed -n '3,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
read_options "$@"
shift "$parsed"
[ $# -gt 0 ] || usage

# carry PORTS: prints the guest's output as it arrives.
carry() {
  cat <"$1/out" &
  carriers=$!
  cat <"$1/err" >&2 &
  carriers="$carriers $!"
}

address=192.168.77.1 address6=fd77::1 plain_address=192.168.78.1
open_scratch
[ "$driver" = rxe ] || [ "$mode" != auto ] || mode=vm
case $mode in
  auto) if run_native "$@"; then exit "$status"; fi ;;
  native) run_native "$@" || skip "no RDMA device, and none could be made"; exit "$status" ;;
  vm | kvm | tcg | count) ;;
  *) usage ;;
esac
need_vm
mkdir "$scratch/rxe"
cat >"$scratch/environment" <<END
export RXE_LAB=vm RXE_DEVICE=${driver}0 RXE_ADDRESS=$address RXE_ADDRESS6=$address6 RXE_PLAIN_ADDRESS=$plain_address
END
cat >"$scratch/rxe/settings" <<END
name=rxe driver=$driver wire=none address=$address address6=$address6 plain_address=$plain_address limit=$limit out=$(quoted "$out")
hosts='$address rxe
$address6 rxe'
END
write_command "$scratch/rxe/command" "$@"
start_vm rxe
wait "$vm"
if [ -e "$scratch/rxe/status" ]; then wait $carriers; fi
result rxe
exit "$status"
