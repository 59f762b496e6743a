#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# sh tests/adapter.sh [OPTION...] [STEP...]: tests weft on an RDMA device of this machine, without a virtual machine,
# and packs a report. docs/adapters.md explains steps and report. Steps (all of them unless some are named):
#
#   discovery    the offers of weft and of the installed libfabric for this device
#   conformance  connections, datagrams, multicast and reliable datagrams, on weft's core and on the installed one
#   interop      the installed libfabric, fi_pingpong and Open MPI as peers of weft
#   bench        weft, the installed libfabric and raw verbs in turns
#
#   -d DEVICE  the device (default: the first active one whose network interface has an IPv4 address)
#   -o FOLDER  where the report goes (default: .)
#   -b BUILD   a build folder of weft with its tests (default: build/adapter, which is built first)
# Nothing of the machine is changed: no device, address or limit. Status: 0 if every step passed, 1 if one did not,
# 2 if there is no such device, or this user may not use it.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
PATH=$PATH:/usr/sbin:/sbin

usage() { sed -n '3,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
build= folder=. wanted=
while getopts d:o:b: option; do
  case $option in
    d) wanted=$OPTARG ;;
    o) folder=$OPTARG ;;
    b) build=$OPTARG ;;
    *) usage ;;
  esac
done
shift $((OPTIND - 1))

scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
. "$root/tests/rxe/native.sh"
export RXE_ONLY="$wanted"
if ! use_device; then
  {
    echo "No active RDMA device${wanted:+ named $wanted} has a network interface with an IPv4 address, or this user may"
    echo "not use it: /dev/infiniband/rdma_cm must be writable, and \`ulimit -l\` unlimited unless it is root. Devices:"
    rdma link 2>&1
  } >&2
  exit 2
fi

if [ -z "$build" ]; then
  build=$root/build/adapter
  cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DWEFT_TEST_FOLDERS="conformance;interop;bench;rxe" &&
    cmake --build "$build" -j "$(nproc)" || exit 1
fi
build=$(cd "$build" && pwd) || exit 2
weft=$build/src/core/libfabric.so.1 plugin=$build/src/prov/verbs/libverbs-fi.so fi_info=$build/src/tools/fi_info
if [ ! -e "$weft" ] || [ ! -e "$plugin" ]; then
  echo "$build has no verbs provider: install the headers of rdma-core (sh cmake/install-dependencies.sh build)" >&2
  exit 2
fi

name=adapter-report-$RXE_DEVICE-$(date +%Y%m%d-%H%M%S)
report=$scratch/$name
mkdir "$report"

# shown FILE COMMAND...: the command and its output, in the report.
shown() {
  file=$report/$1
  shift
  { echo "\$ $*"; "$@" 2>&1; echo; } >>"$file"
}
on_weft() { env LD_LIBRARY_PATH="${weft%/*}" FI_PROVIDER_PATH="${plugin%/*}" "$@"; }

describe() {
  shown machine.txt uname -srmv
  shown machine.txt sh -c 'grep -h PRETTY_NAME /etc/os-release; nproc; ulimit -l'
  shown machine.txt rdma link
  shown machine.txt rdma -d dev show "$RXE_DEVICE"
  if command -v ibv_devinfo >/dev/null; then shown machine.txt ibv_devinfo -v -d "$RXE_DEVICE"; fi
  shown machine.txt sh -c "grep . /sys/class/infiniband/$RXE_DEVICE/fw_ver /sys/class/infiniband/$RXE_DEVICE/hca_type"
  shown machine.txt git -C "$root" log -1 --format=%H
}

discovery() {
  shown discovery.txt on_weft "$fi_info" --version
  shown discovery.txt on_weft "$fi_info" -p verbs -v
  if [ -x /usr/bin/fi_info ]; then shown discovery.txt /usr/bin/fi_info -p verbs -v; fi
  grep "prov_name: verbs" "$report/discovery.txt" | sort | uniq -c
  grep -q "prov_name: verbs" "$report/discovery.txt"
}

# tests PATTERN: those tests of the lab that concern any device, on this one.
tests() {
  RXE_MODE=native ctest --test-dir "$build/tests" --output-on-failure --no-tests=error -R "^rxe\.($1)\$"
}
conformance() { tests 'conformance|churn|datagrams|stock_core|reliable'; }
interop() { tests 'exchange|pingpong|kfi'; }

# Few peers, as in tests/bench/run.sh: otherwise libfabric requires completion queues longer than some devices have.
bench() {
  export FI_UNIVERSE_SIZE=16
  for plan in verbs ud rdm; do
    "$build/tests/bench/bench_runner" --plan $plan --address "$RXE_ADDRESS" --weft "$weft" --plugins "${plugin%/*}" \
      --output "$report/bench-$plan" ${ADAPTER_BENCH_OPTIONS:-} || return 1
  done
}

describe
failed=0
for step in ${*:-discovery conformance interop bench}; do
  case $step in discovery | conformance | interop | bench) ;; *) usage ;; esac
  echo "==== $step on $RXE_DEVICE ($RXE_ADDRESS) ===="
  began=$(date +%s)
  { $step 2>&1; echo $? >"$scratch/status"; } | tee "$report/$step.log"
  result=passed
  [ "$(cat "$scratch/status")" -eq 0 ] || { result=FAILED; failed=1; }
  printf '%s\t%s\t%s s\n' "$step" $result $(($(date +%s) - began)) >>"$report/summary.tsv"
done
mkdir -p "$folder" && tar -czf "$folder/$name.tar.gz" -C "$scratch" "$name" || exit 1
cat "$report/summary.tsv"
echo "report: $folder/$name.tar.gz"
exit $failed
