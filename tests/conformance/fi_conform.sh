#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# fi_conform.sh CASE PROGRAM BROKEN PAGE: fi_conform(1) itself. BROKEN is a library with faults (fixture/broken_fabric.c),
# PAGE the manual page.
set -eu
case=$1 program=$2 broken=$3 page=$4 docs=$(cd "$(dirname "$0")/../../docs" && pwd)
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
cd "$work"
fail() { echo "FAILED: $*"; [ ! -e out ] || cat out; exit 1; }
# expect PATTERN...: each is in the output.
expect() { for pattern; do grep -qe "$pattern" out || fail "'$pattern' is not in the output"; done; }
# ends STATUS COMMAND...: with that status; its output is in the file out.
ends() {
  wanted=$1 got=0
  shift
  "$@" >out 2>&1 || got=$?
  [ "$got" = "$wanted" ] || fail "status $got instead of $wanted: $*"
}
wait_for_server() {
  for _ in $(seq 100); do grep -q '^serving' served 2>/dev/null && return; sleep 0.1; done
  fail "the server does not start"
}

case $case in
  list)
    ends 0 "$program" --list
    [ "$(grep -c '^  [A-Z]' out)" -ge 700 ] || fail "too few sentences"
    expect '^fi_cm(3)$' 'CmConnect.ConnectEnablesTheEndpoint (manual)'
    ends 0 "$program" --list 'fi_rma(3)' --except 'Rma'
    expect RemoteMemoryIsReadAndWritten
    ! grep -q ' Rma\.' out || fail "--except leaves them in"
    ends 2 "$program" no.such.sentence
    ends 2 "$program" --no-such-option
    ends 2 "$program" -p no_such_provider Message.SendArrives*
    ;;
  reports)
    command -v python3 >/dev/null || { echo 'SKIP: no python3'; exit 77; }
    ends 0 "$program" -e msg -j 2 --json --junit junit.xml InfoText 'CmConnect.C*' Datagrams.NameIs* CmDeadline.ZeroMeans*
    python3 - <<'P' || fail "the reports are wrong"
import json, xml.etree.ElementTree as tree
report = json.load(open("out"))
verdicts = {r["id"]: r["verdict"] for r in report["results"]}
assert report["library"]["interface"] == "2.7", report["library"]
assert verdicts["CmConnect.ConnectEnablesTheEndpoint"] == "holds"
assert verdicts["Datagrams.NameIsTheInfosAddressWithAPort"] == "not offered"
assert verdicts["CmDeadline.ZeroMeansNoDeadline"] == "not offered"
assert sum(report["summary"].values()) == len(report["results"])
suite = tree.parse("junit.xml").getroot().find("testsuite")
assert int(suite.get("tests")) == len(suite.findall("testcase")) == len(verdicts)
assert int(suite.get("skipped")) == len(suite.findall(".//skipped")) == report["summary"]["not offered"]
P
    ;;
  broken)
    ends 1 "$program" --library "$broken" -e msg -t 3 InfoText
    expect '^does not hold .*InfoText.ErrorsOfBothRanges' '-> Expected: (fi_strerror(err)) != ("")' \
      'crashed: SIGSEGV in fi_tostr_r, info_text.cc:' 'no answer in 3 s in fi_getparams, info_text.cc:' \
      '^holds .*InfoText.AllocatedInfo' "broken_fabric.so, interface 2.7"
    ends 2 "$program" --library "$page" InfoText
    ;;
  one)
    ends 0 "$program" -e msg --trace Message.SendArrivesInThePostedBuffer
    expect 'fi_connect(ep=0x.*) = 0  \[' 'fi_send(ep=.*len=1000.*) = 0  \[' 'more times'
    ends 0 "$program" -e msg --weft CmDeadline.ZeroMeansNoDeadline
    expect '^holds'
    ;;
  two_hosts)
    "$program" --serve --port 17999 >served 2>&1 &
    server=$!
    wait_for_server
    for type in msg rdm; do
      ends 0 "$program" -e $type --peer 127.0.0.1 --port 17999
      ! grep -q '^all  *0 ' out || fail "nothing was checked"
    done
    ends 2 "$program" --peer 127.0.0.1 --port 1
    expect 'is fi_conform --serve running?'
    ;;
  namespaces)  # as between two hosts: the ends have no address in common
    a=conform_a_$$ b=conform_b_$$
    { ip netns add $a && ip netns add $b; } 2>/dev/null || { ip netns del $a 2>/dev/null || :; echo 'SKIP: no network namespaces'; exit 77; }
    trap '[ -z "$server" ] || kill "$server"; ip netns del '"$a; ip netns del $b"'; rm -rf "$work"' EXIT
    ip -n $a link add end type veth peer name end netns $b
    for end in "$a 1" "$b 2"; do
      set -- $end
      ip -n "$1" address add "10.77.0.$2/24" dev end
      ip -n "$1" link set end up
      ip -n "$1" link set lo up
    done
    ip netns exec $b "$program" --serve >served 2>&1 &
    server=$!
    wait_for_server
    ends 0 ip netns exec $a "$program" -e msg,rdm --peer 10.77.0.2
    expect '^holds .*TwoHosts.MessagesOfAllLengths' '^holds .*TwoHosts.RemoteMemory'
    ! grep -q '^does not' out || fail "something does not hold"
    ;;
  examples)  # the commands of the manual page and of docs/conformance.md that need no second host and no other library
    mkdir bin
    ln -s "$program" bin/fi_conform
    PATH=$PWD/bin:$PATH
    sed -n 's/^\$ \(fi_conform .*\)$/\1/p' "$page" | grep -ve HOST -e verbs -e --serve -e --library >commands
    awk '/^```sh$/ { inside = 1; next } /^```/ { inside = 0 } inside' "$docs/conformance.md" | grep '^fi_conform' >>commands
    [ "$(wc -l <commands)" -ge 8 ] || fail "no examples found"
    while read -r command; do ends 0 sh -c "$command"; done <commands
    ;;
esac
echo "fi_conform $case: ok"
