#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# selftest.sh CASE: whether run.sh keeps its promises.
#   skips    without the emulator it skips and says why; REQUIRE=rxe makes that a failure
#   output   words, folder, environment, both streams, RXE_OUT and the status pass unchanged; the host's files stay;
#            the clock is right
#   ends     two runs at once; a signal's status; a hang ends at the limit with an explanation; SIGTERM leaves nothing
#   native   inside a guest, which has a device, commands run without a virtual machine; root makes a missing device
#   tools    rping, udaddy and mckey pass on one host
set -u
here=$(cd "$(dirname "$0")" && pwd)
run=$here/run.sh
. "$here/selftest_functions.sh"

# in_lab STATUS WORD...: run.sh with these words ends with that status.
in_lab() {
  expect_end run.sh "$@"
}

skips() {
  mkdir bin
  for program in sh sed dirname cat mktemp rm tr id grep mkdir; do ln -s "$(command -v $program)" bin/; done
  REQUIRE=stock PATH=$scratch/bin sh "$run" true >out 2>err
  [ $? -eq 77 ] || fail "no skip"
  grep -q '^SKIP: .*qemu' err || fail "no reason"
  for list in rxe stock,rxe "rxe stock"; do
    REQUIRE=$list PATH=$scratch/bin sh "$run" true >out 2>err
    [ $? -eq 1 ] || fail "REQUIRE=$list is no failure"
  done
}

output() {
  mkdir "a folder" results
  echo before >"a folder/file"
  seq 200000 >expected
  printf '<%s>' 'two words' "it's" '' '$HOME' 'line
' >>expected
  cat >program <<'END'
seq 200000
printf '<%s>' "$@"
{ pwd; echo "$TEXT"; ulimit -l; cat "a folder/file"; } >&2
echo after >"a folder/file"
echo "$RXE_LAB" >"$RXE_OUT/lab"
date +%s >"$RXE_OUT/clock"
(while :; do (sleep 1000; echo late) & sleep 0.01; done) &
exit 43
END
  TEXT="a 'b' \"c\" \\d" in_lab 43 -o results sh program 'two words' "it's" '' '$HOME' 'line
'
  cmp out expected || fail "the output differs from the words written"
  printf '%s\n' "$scratch" "a 'b' \"c\" \\d" unlimited before >lines
  cmp err lines || fail "folder, environment, memory limit or the host's files"
  [ "$(cat results/clock)" -le $(($(date +%s) + 1)) ] || fail "the guest's clock is too fast"
  case $(cat results/lab) in
    vm) [ "$(cat "a folder/file")" = before ] || fail "the host's files were changed" ;;
    native) ;;
    *) fail "no result" ;;
  esac
}

# A program that ignores SIGTERM runs beside one that is killed.
ends() {
  (
    mkdir other
    cd other
    in_lab 139 sh -c 'kill -SEGV $$'
    [ ! -s out ] || fail "an unexpected word"
  ) &
  other=$!
  in_lab 124 -t 3 sh -c 'trap "" TERM; echo begun; while :; do sleep 1; done'
  [ "$(cat out)" = begun ] || fail "the output before the limit"
  grep -q 'still running after 3 s' err || fail "no explanation"
  wait $other || exit 1
  TMPDIR=$scratch/temporary
  mkdir "$TMPDIR"
  export TMPDIR
  sh "$run" sh -c 'echo begun; sleep 100' >out 2>err &
  background=$!
  tries=0
  until grep -q begun out; do
    tries=$((tries + 1))
    [ $tries -lt 600 ] || fail "does not begin"
    sleep 0.1
  done
  kill $background
  wait $background
  [ $? -eq 143 ] || fail "SIGTERM"
  [ -z "$(ls "$TMPDIR")" ] || fail "a folder remains"
  sleep 1
  ! grep -lq "$TMPDIR/" /proc/[0-9]*/cmdline 2>/dev/null || fail "a process remains"
}

native() {
  cat >program <<'END'
run=$1
export RXE_MODE=native
report() { echo "$1: $2"; }
sh $run sh -c 'test $RXE_LAB = native && test $RXE_DEVICE = rxe0 && exit 7'
report status $?
sh $run sh -c 'kill -SEGV $$'
report signal $?
sh $run -t 1 sleep 100 2>/dev/null
report limit $?
rdma link delete rxe0
ip link del veth0
RXE_ADDRESS= sh $run sh -c 'rdma link show $RXE_DEVICE/1 | grep -q ACTIVE && sleep 2 && rdma link show rxelab/1 >/dev/null' &
sleep 0.5
sh $run sh -c 'test $RXE_DEVICE = rxelab && test -n "$RXE_PLAIN_ADDRESS"'
report made $?
wait $!
report shared $?
ip link show rxelab0 >/dev/null 2>&1
report gone $?
END
  RXE_MODE=vm in_lab 0 sh program "$run"
  printf '%s\n' 'status: 7' 'signal: 139' 'limit: 124' 'made: 0' 'shared: 0' 'gone: 1' >expected
  cmp out expected || fail "native runs"
}

tools() {
  cat >program <<'END'
# both SERVER CLIENT: starts the server, then the client until it finds the server. Both must succeed.
both() {
  sh -c "$1" >server 2>&1 &
  for try in 1 2 3 4 5 6 7 8 9 10; do
    sleep 0.5
    if sh -c "$2" >client 2>&1; then
      wait $! && echo "passed: $2" && return
      break
    fi
  done
  echo "failed: $2"
  cat server client
}
both "rping -s -a $RXE_ADDRESS -C 5 -V" "rping -c -a $RXE_ADDRESS -C 5 -V"
both "rping -s -a $RXE_ADDRESS6 -C 5 -V" "rping -c -a $RXE_ADDRESS6 -C 5 -V"
both "udaddy -b $RXE_ADDRESS" "udaddy -s $RXE_ADDRESS"
both "mckey -b $RXE_ADDRESS -m 239.1.2.3" "sleep 1; mckey -s -b $RXE_ADDRESS -m 239.1.2.3"
END
  in_lab 0 timeout 100 sh program
  cat out
  [ "$(grep -c ^passed out)" -eq 4 ] && [ "$(wc -l <out)" -eq 4 ] || fail "not all programs pass"
}

case ${1:-} in
  skips | output | ends | native | tools) $1 ;;
  *) sed -n '3,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
