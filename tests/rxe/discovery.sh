#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# discovery.sh FI_INFO WEFT PLUGINS: fi_getinfo's offers on Soft-RoCE, and its log without an offer.
# In the lab; the program's path and the folders of libfabric.so.1 and libverbs-fi.so.
set -u
fi_info=$1
export LD_LIBRARY_PATH="$2" FI_PROVIDER_PATH="$3"
failures=0

# ask [NAME=VALUE...] [OPTION...]: the output of `fi_info -p verbs -v`, on one line.
ask() {
  settings=
  while case ${1-} in FI_*=*) true ;; *) false ;; esac do
    settings="$settings $1"
    shift
  done
  env $settings "$fi_info" -p verbs -v "$@" 2>&1 | tr -s ' \n' ' '
}

# says TEXT / lacks TEXT: checks the output.
says() {
  case $answer in *"$1"*) return ;; esac
  echo "FAILED: $case: does not say \"$1\": $answer" | cut -c1-1000
  failures=$((failures + 1))
}
lacks() {
  case $answer in *"$1"*) ;; *) return ;; esac
  echo "FAILED: $case: printed \"$1\": $answer" | cut -c1-1000
  failures=$((failures + 1))
}

case="all addresses" answer=$(ask)
says "src_addr: fi_sockaddr_in://$RXE_ADDRESS:0"
says "src_addr: fi_sockaddr_in6://[$RXE_ADDRESS6]:0"
says "src_addr: fi_sockaddr_in6://[fe80:"
lacks "$RXE_PLAIN_ADDRESS"
says "name: $RXE_DEVICE"
says "protocol: FI_PROTO_RDMA_CM_IB_RC"
says "state: FI_LINK_UP"
says "network_type: Ethernet"
says "name: IB-0xfe80000000000000" # the subnet of the lab's port
case ${answer%%fe80:*} in *"$RXE_ADDRESS6"*) ;; *) case="link-local last" && lacks . ;; esac

case="one family" answer=$(ask -a FI_SOCKADDR_IN6)
says "[$RXE_ADDRESS6]"
lacks "fi_sockaddr_in://"

case="native addresses" answer=$(ask -a FI_SOCKADDR_IB)
says "FI_SOCKADDR_IB, which only InfiniBand has"

for variable in FI_VERBS_IFACE=nosuch FI_VERBS_DEVICE_NAME=nosuch FI_VERBS_GID_IDX=200; do
  case=$variable answer=$(ask $variable)
  says "No data available"
  says "widen FI_VERBS_IFACE"
done
case="a GID" answer=$(ask FI_VERBS_GID_IDX=1)
says "src_addr:"
lacks "[fe80:"

case="its own address" answer=$(ask -n "$RXE_ADDRESS")
says "dest_addr: fi_sockaddr_in://$RXE_ADDRESS"
lacks "fi_sockaddr_in6"

# No host has it, so resolving it would take seconds.
case="an absent neighbour" started=$(date +%s) answer=$(ask -n "${RXE_ADDRESS%.*}.250")
says "src_addr: fi_sockaddr_in://$RXE_ADDRESS:0"
[ $(($(date +%s) - started)) -lt 20 ] || { echo "FAILED: $case: took long" && failures=$((failures + 1)); }

case="a route without RDMA" answer=$(ask -n "$RXE_PLAIN_ADDRESS")
says "which is not an address of an active RDMA port"

if [ "$RXE_LAB" = vm ]; then
  # The user nobody cannot execute programs in a home folder.
  copies=$(mktemp -d)
  cp "$fi_info" "$2"/libfabric.so.1 "$3"/libverbs-fi.so "$copies" && chmod -R a+rX "$copies"
  # as_nobody COMMAND: the same on one line.
  as_nobody() { su -s /bin/sh nobody -c "export LD_LIBRARY_PATH=$copies FI_PROVIDER_PATH=$copies; $1" 2>&1 | tr -s ' \n' ' '; }
  case="little memory may be locked" answer=$(chmod 666 /dev/infiniband/* &&
    as_nobody "ulimit -l 64; FI_LOG_LEVEL=warn $copies/fi_info -p verbs -v")
  says "the memlock limit is only 64 KiB"
  says "raise it (ulimit -l unlimited"
  says "src_addr: fi_sockaddr_in://$RXE_ADDRESS:0"
  case="no permission" answer=$(chmod 600 /dev/infiniband/* && as_nobody "$copies/fi_info -p verbs")
  says "no permission for /dev/infiniband"
  case="a port that is down" answer=$(ip link set veth0 down && ask)
  says "none of this host's addresses belongs to an active port"
  case="no device" answer=$(rdma link del "$RXE_DEVICE" && ask)
  says "no RDMA device: see rdma link"
  case="no nodes" answer=$(mount --bind /mnt /dev/infiniband && ask)
  says "/dev/infiniband/rdma_cm is missing"
fi
[ $failures -eq 0 ] && echo "all found"
[ $failures -eq 0 ]
