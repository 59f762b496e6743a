# SPDX-License-Identifier: BSD-2-Clause
# Sourced by run.sh: the lab without a virtual machine, on an RDMA device of this machine, or on an rxe device made for
# the time of the run where the module and the rights are there.

# use_device: takes the first active device that has a network interface with an IPv4 address, if this user may use it;
# RXE_ONLY in the environment names one.
use_device() {
  [ -w /dev/infiniband/rdma_cm ] || return 1
  [ "$(id -u)" -eq 0 ] || [ "$(sh -c 'ulimit -l')" = unlimited ] || return 1
  rdma link 2>/dev/null | sed -n 's|^link \([^/]*\)/.* state ACTIVE .*netdev \([^ ]*\).*|\1 \2|p' >"$scratch/devices"
  while read -r device netdev; do
    [ "${RXE_ONLY:-$device}" = "$device" ] || continue
    address=$(first_address -4)
    [ -n "$address" ] || continue
    export RXE_LAB=native RXE_DEVICE="$device" RXE_ADDRESS="$address"
    address6=$(first_address -6)
    if [ -n "$address6" ]; then export RXE_ADDRESS6="$address6"; fi
    return 0
  done <"$scratch/devices"
  return 1
}

first_address() {
  ip $1 -o address show dev "$netdev" scope global | sed -n 's/.*inet6\{0,1\} \([^/]*\).*/\1/p' | head -n 1
}

# make_device: as in the guest, on a veth pair. Runs at the same time share it: each holds a shared lock, and the last
# one, which alone can have the lock exclusively, removes it.
make_device() {
  [ "$(id -u)" -eq 0 ] || return 1
  [ -d /sys/module/rdma_rxe ] || modprobe rdma_rxe 2>/dev/null || return 1
  for module in rdma_ucm ib_uverbs; do modprobe $module 2>/dev/null; done
  exec 9>"/run/lock/rxe-lab" || return 1
  flock 9
  if ! rdma link show rxelab/1 >/dev/null 2>&1; then
    remove_device
    ip link add rxelab0 type veth peer name rxelab1 &&
      ip address add "$address/24" dev rxelab0 && ip -6 address add "$address6/64" dev rxelab0 nodad &&
      ip address add "$plain_address/24" dev rxelab1 && ip link set rxelab0 up && ip link set rxelab1 up &&
      rdma link add rxelab type rxe netdev rxelab0 || { remove_device; return 1; }
    sleep 1  # the addresses enter the device's table of GIDs
  fi
  flock -s 9
  made=yes
  export RXE_PLAIN_ADDRESS="$plain_address"
}

remove_device() { ip link del rxelab0 2>/dev/null; }

leave_device() {
  if flock -n -x 9; then remove_device; fi
}

# run_native COMMAND...: sets status. Returns 1 when this machine has no device.
made=
run_native() {
  use_device || { make_device && use_device; } || return 1
  note "natively on $RXE_DEVICE ($RXE_ADDRESS)"
  ulimit -l unlimited 2>/dev/null
  timeout -k 10 "$limit" "$@" </dev/null 9>&- &
  processes=$!
  wait "$processes" 2>/dev/null  # a shell would say "Segmentation fault" here
  status=$?
  processes=
  if [ $status -eq 124 ]; then
    echo "rxe: still running after $limit s. The kernel's messages:" >&2
    dmesg 2>/dev/null | tail -n 60 >&2
  fi
  return 0
}
