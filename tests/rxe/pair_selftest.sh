#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# pair_selftest.sh CASE: whether pair.sh keeps its promises.
#   commands   both commands get their words and addresses and share RXE_OUT; rping, mckey and the statuses pass
#   wire       delay, loss, a silent cut and a pulled cable are there while they should be, at both ends
#   kill       a host is killed; the other one sees no answer and is told that nobody will meet it
set -u
here=$(cd "$(dirname "$0")" && pwd)
. "$here/selftest_functions.sh"

# in_pair STATUS WORD...: pair.sh with these words ends with that status.
in_pair() {
  expect_end pair.sh "$@"
}

# answers: whether the peer answers three times within ten seconds. The lab's own busybox has a ping.
cat >functions <<'END'
answers() { /run/busybox ping -q -c 3 -i 0.2 -w 10 $RXE_PEER_ADDRESS >/dev/null; }
silent() { ! /run/busybox ping -q -c 1 -w 2 $RXE_PEER_ADDRESS >/dev/null; }
state() { rdma link show rxe0/1 | sed -n 's/.* state \([A-Z]*\) .*/\1/p'; }
until_state() {
  for try in 1 2 3 4 5 6 7 8 9 10; do
    [ "$(state)" != "$1" ] || return 0
    sleep 0.5
  done
  return 1
}
check() { if "$@"; then echo "right: $*"; else echo "wrong: $*"; fi; }
END

commands() {
  cat >a.sh <<'END'
echo "words of $RXE_HOST: $1"
lab meet
[ "$(cat "$RXE_OUT/word")" = "from b" ] && echo "shared"
rping -s -a $RXE_ADDRESS -C 3 2>/dev/null
echo "rping $?"
mckey -b $RXE_ADDRESS -m 239.1.2.3 >/dev/null
echo "mckey $?"
END
  cat >b.sh <<'END'
echo "words of $(hostname): $1"
echo "from b" >"$RXE_OUT/word"
lab meet
for try in 1 2 3 4 5 6 7 8 9 10; do
  sleep 0.5
  rping -c -a $RXE_PEER_ADDRESS -C 3 2>/dev/null && break
done
sleep 2  # the group's other member joins
mckey -s -b $RXE_ADDRESS -m 239.1.2.3 >/dev/null || echo "mckey fails"
exit 5
END
  in_pair 5 sh a.sh "one  1" :: sh b.sh "two '2'"
  cat >expected <<'END'
a: mckey 0
a: rping 0
a: shared
a: words of a: one  1
b: words of b: two '2'
END
  LC_ALL=C sort out | cmp - expected || fail "the output"
}

wire() {
  cat >a.sh <<'END'
. ./functions
lab meet down && check until_state DOWN
lab meet up && check until_state ACTIVE
END
  cat >b.sh <<'END'
. ./functions
check answers
lab wire delay 300ms  # in each direction
/run/busybox ping -q -c 5 -w 20 $RXE_PEER_ADDRESS | grep min/ | sed 's|.*= \([0-9]*\).*|least \1|' >rtt
check test "$(sed -n 's/least //p' rtt)" -ge 600
lab wire loss 50%
/run/busybox ping -q -c 60 -i 0.05 -w 30 $RXE_PEER_ADDRESS | sed -n 's/.* \([0-9]*\)% packet loss.*/\1/p' >lost
check test "$(cat lost)" -gt 20
check test "$(cat lost)" -lt 100
lab wire cut
check silent
check test "$(state)" = ACTIVE
lab wire clean
check answers
lab wire down
lab meet down
check until_state DOWN
lab wire up
lab meet up
check until_state ACTIVE
check answers
lab wire nonsense 2>/dev/null || echo "right: nonsense is refused"
END
  in_pair 0 sh a.sh :: sh b.sh
  [ "$(grep -c '^[ab]: right' out)" -eq 13 ] && [ "$(wc -l <out)" -eq 13 ] || fail "the wire"
}

kill_host() {
  cat >a.sh <<'END'
lab meet ready
echo alive
sleep 1000
END
  cat >b.sh <<'END'
. ./functions
lab meet ready
check answers
lab kill a
check silent
lab meet never 2>/dev/null || echo "right: nobody to meet"
END
  in_pair 0 sh a.sh :: sh b.sh
  [ "$(grep -c '^b: right' out)" -eq 3 ] && [ "$(wc -l <out)" -eq 4 ] || fail "the output of b"
  grep -q '^rxe: host a was killed' err || fail "not said"
}

case ${1:-} in
  commands | wire) $1 ;;
  kill) kill_host ;;
  *) sed -n '3,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
