#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# churn.sh PLUGIN_FOLDER CONFORMANCE: in the lab, connections are made and ended one after the other: CYCLES of them,
# 500 by default (10000 take minutes in an emulated machine). The test itself watches descriptors and memory; this
# script asks the kernel for the RDMA objects that the program still has.
set -u
export FI_PROVIDER_PATH=$1 WEFT_CONFORMANCE=verbs:msg WEFT_CONFORMANCE_IPV4=$RXE_ADDRESS WEFT_CONFORMANCE_IPV6=none WEFT_CONFORMANCE_CYCLES="${CYCLES:-500}"
shift

# held: queue pairs, completion queues, protection domains, memory regions and connections that are not the kernel's
# own.
held() { for kind in qp cq pd mr cm_id; do rdma res show $kind 2>/dev/null; done | grep -c ' pid ' || :; }

before=$(held)
"$@" --gtest_filter='CmStorm.CyclesLeaveNothingBehind*' &
program=$!
most=0
while kill -0 $program 2>/dev/null; do
  now=$(held)
  [ "$now" -le "$most" ] || most=$now
  sleep 1
done
wait $program || exit 1
after=$(held)
echo "RDMA objects: $before before, at most $most meanwhile, $after afterwards"
[ "$most" -gt "$before" ] || { echo "rdma saw no object of the program: this test shows nothing"; exit 1; }
[ "$most" -le $((before + 100)) ] || { echo "objects pile up while connections come and go"; exit 1; }
[ "$after" -le "$before" ] || { rdma res show; echo "objects are left behind"; exit 1; }
