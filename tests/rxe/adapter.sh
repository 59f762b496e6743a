#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# adapter.sh BUILD: in the lab, tests/adapter.sh on Soft-RoCE as on an owner's adapter: its report is whole, and a
# device that is not there is refused. STEPS in the environment chooses other steps than discovery.
set -u
build=$1 adapter=$(dirname "$0")/../adapter.sh
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
failures=0
wrong() { echo "FAILED: $*"; failures=1; }

sh "$adapter" -b "$build" -d nosuch discovery >"$scratch/refused" 2>&1
[ $? -eq 2 ] || wrong "a device that is not there"
grep -q "named nosuch" "$scratch/refused" && grep -q "$RXE_DEVICE" "$scratch/refused" || wrong "no reason"

sh "$adapter" -b "$build" -d "$RXE_DEVICE" -o "$scratch" ${STEPS:-discovery} >"$scratch/log" 2>&1 || wrong "the steps"
cat "$scratch/log"
tar -xzf "$scratch"/adapter-report-"$RXE_DEVICE"-*.tar.gz -C "$scratch" || wrong "no report"
cd "$scratch"/adapter-report-"$RXE_DEVICE"-*[0-9] || exit 1
for step in ${STEPS:-discovery}; do grep -q "^$step	passed" summary.tsv || wrong "$step in the summary"; done
grep -q "$RXE_DEVICE" machine.txt && grep -q 'node_guid' machine.txt || wrong "the device's description"
case " ${STEPS:-discovery} " in
  *" discovery "*) grep -q "fi_sockaddr_in://$RXE_ADDRESS" discovery.txt || wrong "the offers" ;;
esac
exit $failures
