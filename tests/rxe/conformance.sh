#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# conformance.sh PLUGIN_FOLDER PROGRAM: in the lab, the conformance suite on the verbs provider: all of it over IPv4, and
# connection management over IPv6. Left out is what needs 5 GiB, and storms of a thousand connections within a deadline,
# for which an emulated processor is too slow.
set -u
program=$2
export FI_PROVIDER_PATH="$1" WEFT_CONFORMANCE=verbs:msg
# suite IPV4 IPV6 FILTER
suite() { env WEFT_CONFORMANCE_IPV4="$1" WEFT_CONFORMANCE_IPV6="$2" "$program" --gtest_brief=1 --gtest_filter="$3"; }
status=0
slow=LargeMessage.*:CmStorm.CyclesLeave*:CmStorm.IdleConnections*
suite "$RXE_ADDRESS" none "-$slow" || status=1
if [ -n "${RXE_ADDRESS6:-}" ]; then
  suite none "$RXE_ADDRESS6" "Cm*:-CmStorm.*" || status=1
fi
exit $status
