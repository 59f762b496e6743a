#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# conformance.sh PLUGIN_FOLDER PROGRAM: in the lab, the conformance suite on the verbs provider: all of it over IPv4, and
# connection management over IPv6. Tests that need 6 GiB and those of churn.sh are left out. LONG in the environment: see
# long_topics.sh. FILTER in the environment chooses other tests. On its own, a gibibyte, byte by byte, in messages;
# Soft-RoCE has none longer than 8 MiB (minutes in an emulated machine):
#   FILTER='Integrity.Stream*' WEFT_INTEGRITY_MIB=1024 sh tests/rxe/run.sh sh tests/rxe/conformance.sh FOLDER PROGRAM
set -u
program=$2 here=$(dirname "$0")
. "$here/long_topics.sh"
export FI_PROVIDER_PATH="$1" WEFT_CONFORMANCE=verbs:msg
# The amount that an emulated processor completes in a reasonable time.
export WEFT_LARGEST_MIB="${WEFT_LARGEST_MIB:-64}" WEFT_INTEGRITY_MIB="${WEFT_INTEGRITY_MIB:-8}"
export WEFT_CONFORMANCE_CYCLES="${WEFT_CONFORMANCE_CYCLES:-100}"
# A thousand connections on emulated processors, with a compiler beside them, may take longer than the default.
export FI_VERBS_CONNECT_TIMEOUT=100000
# suite IPV4 IPV6 FILTER
suite() { env WEFT_CONFORMANCE_IPV4="$1" WEFT_CONFORMANCE_IPV6="$2" sh "$here/brief.sh" "$program" --gtest_filter="$3"; }
status=0
if [ -n "${FILTER:-}" ]; then
  suite "$RXE_ADDRESS" none "$FILTER"
  exit
fi
slow=LargeMessage.*:CmStorm.CyclesLeave*:CmStorm.IdleConnections*
# Soft-RoCE sends no answer to a read whose region is deregistered meanwhile, and the reader repeats it for ever.
silent=ClosedRegions.Read*
long=TwoHosts.*:CmStorm.*:CmDeadline.*:Threads.*:ThreadingModels.*:Getinfo.*:Accounting.*
suite "$RXE_ADDRESS" none "$(chosen_tests "$slow:$silent" "$long")" || status=1
if [ -n "${RXE_ADDRESS6:-}" ]; then
  case ${LONG:-} in
    no) management="Cm*:-CmStorm.*:CmDeadline.*" ;;
    only) management="CmDeadline.*" ;;
    *) management="Cm*:-CmStorm.*" ;;
  esac
  suite none "$RXE_ADDRESS6" "$management" || status=1
fi
exit $status
