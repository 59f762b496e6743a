#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# reliable.sh LIBRARY_FOLDER PLUGIN_FOLDER CONFORMANCE [MPI_PROGRAM]: in the lab, reliable datagrams over verbs: all that
# the conformance suite has for them, and the distribution's Open MPI with two ranks, whose absence is a failure where
# REQUIRE names stock. LONG in the environment: see long_topics.sh. FILTER in the environment chooses other tests, and
# nothing but them. Peers use the device, although they are on one host, unless FI_TCP_SHARED_MEMORY is 1 in the
# environment; a part of the suite is run that way, too.
set -u
library=$1 program=$3 mpi_program=${4:-}
. "$(dirname "$0")/long_topics.sh"
export FI_PROVIDER_PATH="$2" WEFT_CONFORMANCE="verbs;ofi_rxm:rdm"
export FI_TCP_SHARED_MEMORY="${FI_TCP_SHARED_MEMORY:-0}"
export WEFT_CONFORMANCE_IPV4="$RXE_ADDRESS" WEFT_CONFORMANCE_IPV6=none
status=0

# suite FILTER
suite() { sh "$(dirname "$0")/brief.sh" "$program" --gtest_filter="$1"; }

if [ -n "${FILTER:-}" ]; then
  suite "$FILTER"
  exit
fi
# Tests left out: those that are too slow on an emulated processor (hundreds of connections at once, more memory than
# the guest has, and peers that are cut off, which a broken queue pair takes seconds to detect; the test "deaths" has
# those), and those of the core rather than the provider.
slow="*Hundreds*:*SendersWaitForReceivers*:*Malformed*:*Deaths*:*OverTheConnection*:LargeMessage.*:Getinfo.ProviderFilter*"
slow="$slow:ClosedRegions.Read*"  # as in conformance.sh
export WEFT_CONFORMANCE_SEEDS=1 WEFT_CONFORMANCE_CYCLES=20 WEFT_INTEGRITY_MIB=8
long=UnexpectedFloods.*:ChangedMemory.*:TwoHosts.*:ReliablePeers.*:RandomSchedules.*:IdleConnections.*
long="$long:Threads.*:ThreadingModels.*:Triggers.*:SharedContexts.*:Getinfo.*"
# The core's own objects: they use the device as they use the fakes.
long="$long:Aliases.*:CompletionWaits.*:Counters.*:DeferredWork.*:EventQueues.*:IdleCpu.*:PollAndWaitSets.*"
long="$long:ScalableEndpoints.*:SharedBindings.*:Rma.ManyReads*"
suite "$(chosen_tests "$slow" "$long")" || status=1
(
  export FI_TCP_SHARED_MEMORY=1
  short=SharedMemory.*:TransferErrors.*IsKilled*
  long=DeliveredMessages.*:Rma.*:UnexpectedFloods.*TwoProcesses*:ReliablePeers.*:IdleConnections.*:UnreachablePeers.*
  case ${LONG:-} in
    no) suite "$short-*Hundreds*:SharedMemory.IsOff*" ;;
    only) suite "$long:SharedMemory.IsOff*-*Hundreds*" ;;
    *) suite "$short:$long-*Hundreds*" ;;
  esac
) || status=1
# At night Open MPI's ranks share memory.
if [ "${LONG:-}" = only ]; then FI_TCP_SHARED_MEMORY=1; fi

if [ -n "$mpi_program" ] && command -v mpirun >/dev/null; then
  timeout 200 mpirun --allow-run-as-root --oversubscribe -n 2 -x LD_LIBRARY_PATH="$library" -x FI_PROVIDER_PATH \
    --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include "verbs;ofi_rxm" --mca btl self --mca osc pt2pt \
    "$mpi_program" || status=1
else
  echo "Open MPI is left out: packages openmpi-bin, libopenmpi-dev"
  case ",$(echo "${REQUIRE:-}" | tr " " ,)," in
    *,stock,*) echo "but REQUIRE names stock"; status=1 ;;
  esac
fi
exit $status
