#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# siw_discovery.sh FI_INFO WEFT PLUGINS: in the lab with software iWARP (RXE_DRIVER=siw): the offers of fi_getinfo, also
# beside a Soft-RoCE device, and the reasons for what iWARP does not have.
set -u
fi_info=$1
export LD_LIBRARY_PATH="$2" FI_PROVIDER_PATH="$3"
failures=0
ask() { answer=$("$fi_info" "$@" 2>&1 | tr -s ' \n' ' '); }
says() {
  case $answer in *"$1"*) return ;; esac
  echo "FAILED: $case: does not say \"$1\": $answer" | cut -c1-1000
  failures=$((failures + 1))
}
lacks() {
  case $answer in *"$1"*) ;; *) return ;; esac
  echo "FAILED: $case: says \"$1\": $answer" | cut -c1-1000
  failures=$((failures + 1))
}

case="connections" && ask -p verbs -t FI_EP_MSG -v
says "src_addr: fi_sockaddr_in://$RXE_ADDRESS:0"
says "name: $RXE_DEVICE"
says "protocol: FI_PROTO_IWARP"
says "name: Ethernet-iWARP"
says "cq_data_size: 0"
lacks "FI_ATOMIC"

case="reliable datagrams" && ask -p 'verbs;ofi_rxm' -t FI_EP_RDM -v
says "type: FI_EP_RDM"
says "FI_ATOMIC"

case="datagrams" && ask -p verbs -t FI_EP_DGRAM
says "No data available"
says "is an iWARP device, which has connections and no datagrams"

case="atomics" && ask -p verbs -t FI_EP_MSG -c FI_ATOMIC
says "No data available"
says "FI_ATOMIC"

# A Soft-RoCE device of the same host has all of that; each is a domain of a fabric of its own.
rdma link add rxe0 type rxe netdev veth1 && for try in $(seq 100); do
  grep -q ':ffff:' /sys/class/infiniband/rxe0/ports/1/gids/* && break
  sleep 0.1
done
case="two devices" && ask -p verbs -t FI_EP_MSG -v
says "src_addr: fi_sockaddr_in://$RXE_ADDRESS:0"
says "src_addr: fi_sockaddr_in://$RXE_PLAIN_ADDRESS:0"
says "protocol: FI_PROTO_IWARP"
says "protocol: FI_PROTO_RDMA_CM_IB_RC"
case="datagrams of the other device" && ask -p verbs -t FI_EP_DGRAM
says "rxe0-dgram"
lacks "$RXE_DEVICE-dgram"
[ $failures -eq 0 ] && echo "all found"
[ $failures -eq 0 ]
