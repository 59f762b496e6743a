#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# datagrams.sh LIBRARY_FOLDER PLUGIN_FOLDER CONFORMANCE EXAMPLE MCAST: in the lab, datagrams and multicast on verbs: the
# conformance suite's topics over IPv4 and IPv6 with CYCLES joins and leaves (50 by default, 300 in the long part), the
# example of the documents, and fi_mcast, which sends to itself. Before that, the port of the listener goes down and
# comes back. LONG=no leaves out what takes longest, LONG=only runs nothing else.
set -u
export LD_LIBRARY_PATH="$1" FI_PROVIDER_PATH="$2" WEFT_CONFORMANCE=verbs:dgram
conformance=$3 example=$4 mcast=$5
here=$(cd "$(dirname "$0")" && pwd)
. "$here/log_functions.sh"
cd "$(mktemp -d)" || exit 1
status=0
wrong() { echo "FAILED: $*"; status=1; }

# suite IPV4 IPV6 CYCLES FILTER
suite() {
  env WEFT_CONFORMANCE_IPV4="$1" WEFT_CONFORMANCE_IPV6="$2" WEFT_CONFORMANCE_CYCLES="$3" \
    sh "$here/brief.sh" "$conformance" --gtest_filter="$4"
}
if [ "${LONG:-}" != only ]; then
  suite "$RXE_ADDRESS" none "${CYCLES:-50}" 'Datagrams.*:Multicast.*:Message.*' || status=1
fi
if [ "${LONG:-}" != no ]; then
  suite "$RXE_ADDRESS" none "${CYCLES:-300}" 'Multicast.*:AddressVector.*:Counters.*:WaitObjects.*' || status=1
  if [ -n "${RXE_ADDRESS6:-}" ]; then suite none "$RXE_ADDRESS6" 100 'Datagrams.*:Multicast.*' || status=1; fi
fi
[ "${LONG:-}" != only ] || exit $status

said=$("$example" verbs "$RXE_ADDRESS" 239.1.2.3) && [ "$said" = 'received "hello, group"' ] ||
  wrong "the example printed: $said"

"$mcast" -p verbs -a "$RXE_ADDRESS" --timeout=60 239.1.2.4 >heard 2>log &
receiver=$!
until_log_has log 'receiving from'
interface=$(rdma link show "$RXE_DEVICE/1" | sed -n 's/.* netdev \([^ ]*\).*/\1/p')
case $interface in veth*) ip link set "$interface" down; sleep 1; ip link set "$interface" up; sleep 3 ;; esac  # the lab's own
"$mcast" -s -p verbs -a "$RXE_ADDRESS" -I 300 -r 200 --timeout=60 239.1.2.4 || wrong "fi_mcast -s"
wait $receiver || wrong "fi_mcast"
cat log heard
grep -q 'received 300 messages' heard || wrong "fi_mcast lost some"
exit $status
