#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# tools.sh TOOLS_FOLDER LIBRARY_FOLDER CASE: our fi_info and fi_pingpong against the distribution's.
#   summary           both fi_info, on our library, print the same
#   serve, join       our fi_pingpong with the distribution's program and library at the other end, contents checked
#   peer_killed       the client ends by itself, with what it measured, when the server is killed
#   interrupted       SIGINT ends the client with what it measured
#   calls             fi_getinfo of tcp reads no file of sysfs; needs strace
#   output            output that cannot be written is an error; both programs run with closed standard descriptors
#   options           fi_pingpong without -e takes a type that the provider has; -f and -s select fabric and address; -h
#                     and wrong options end with the status of the distribution's programs
set -u
. "$(dirname "$0")/stock.sh"
tools=$1 library=$2 case=$3
stock_ping=/usr/bin/fi_pingpong
need_program $stock_ping /usr/bin/fi_info
control=$((20000 + $$ % 12000))  # below the ports that connections take

# start COMMAND...: a server, until it listens.
start() {
  "$@" -B $control >"$scratch/server" 2>&1 &
  background=$!
  tries=0
  until grep -qi ":$(printf %04x $control) [0-9A-F]*:0000 0A" /proc/net/tcp /proc/net/tcp6 2>/dev/null; do
    tries=$((tries + 1))
    [ $tries -lt 200 ] && kill -0 $background 2>/dev/null || { cat "$scratch/server"; fail "the server did not start"; }
    sleep 0.1
  done
}

# both SERVER CLIENT OPTION...: a whole run, at the end of which both sides have succeeded and printed all sizes.
both() {
  server=$1 client=$2
  shift 2
  start timeout 100 "$server" "$@"
  timeout 100 "$client" "$@" -P $control 127.0.0.1 >"$scratch/client" 2>&1 || {
    cat "$scratch/client" "$scratch/server"
    fail "the client ended with an error"
  }
  wait $background || { cat "$scratch/server"; fail "the server ended with an error"; }
  background=
  for side in server client; do
    rows=$(grep -c '^[0-9].* =20 ' "$scratch/$side")
    [ "$rows" -eq 6 ] || { cat "$scratch/$side"; fail "the $side has $rows rows of 6"; }
  done
}

msg="-e msg -p tcp -I 20 -c"
case $case in
  summary)
    for options in "" "-l" "-p tcp -n 127.0.0.1" "-s ::1 -t FI_EP_MSG" "-c FI_MSG|FI_RMA" "-g FI_TCP" "-g iface" \
      "-i Fi_Ep_Msg"; do
      "$tools/fi_info" $options >"$scratch/ours" || fail "fi_info $options"
      LD_LIBRARY_PATH=$library /usr/bin/fi_info $options >"$scratch/theirs" || fail "the distribution's fi_info $options"
      [ -s "$scratch/ours" ] || fail "fi_info $options prints nothing"
      # The version of the interface that the caller requests is printed.
      sed -i "/api_version:/d" "$scratch/ours" "$scratch/theirs"
      diff "$scratch/theirs" "$scratch/ours" || fail "fi_info $options prints something else"
    done
    "$tools/fi_info" -p nosuch 2>"$scratch/reasons" && fail "fi_info finds a provider that is not there"
    grep -q 'provider nosuch: no provider has this name' "$scratch/reasons" || { cat "$scratch/reasons"; fail "no reason"; }
    ;;
  calls)
    command -v strace >/dev/null || skip "strace is not installed"
    strace -f -e trace=open,openat -o "$scratch/calls" "$tools/fi_info" -p tcp -t msg >/dev/null || fail "fi_info -p tcp"
    if grep /sys/ "$scratch/calls"; then fail "fi_getinfo reads sysfs"; fi
    ;;
  options)
    both "$tools/fi_pingpong" "$tools/fi_pingpong" -p tcp -I 20 -c
    both "$tools/fi_pingpong" "$tools/fi_pingpong" -s 127.0.0.1 -p tcp -e rdm -I 20 -c
    fabric=$("$tools/fi_info" -p tcp -t msg -s 127.0.0.1 | sed -n 's/ *fabric: //p' | head -n 1)
    both "$tools/fi_pingpong" "$tools/fi_pingpong" -f "$fabric" -p tcp -e msg -I 20 -c
    start timeout 100 "$tools/fi_pingpong" -p tcp -v -s 127.0.0.1
    timeout 100 "$tools/fi_pingpong" -p tcp -f nosuch -P $control 127.0.0.1 >"$scratch/client" 2>&1
    status=$?
    kill $background 2>/dev/null
    background=
    [ $status -eq 61 ] || { cat "$scratch/client"; fail "a client on an unknown fabric ended with $status, not 61"; }
    for command in "fi_info -h" "fi_pingpong -h" "fi_info -Z" "fi_pingpong -Z" "fi_info --nosuch" "fi_info -p" \
      "fi_info -c FI_NOSUCH" "fi_info -t nosuch" "fi_info -m nosuch" "fi_info -a nosuch" "fi_info -p nosuch" \
      "fi_info -n nosuch.invalid" "fi_info --version" "fi_info extra"; do
      "$tools/"$command >/dev/null 2>&1
      ours=$?
      LD_LIBRARY_PATH=$library /usr/bin/$command >/dev/null 2>&1
      theirs=$?
      [ $ours -eq $theirs ] || fail "$command ends with $ours, the distribution's with $theirs"
    done
    ;;
  output)
    for command in fi_info "fi_info -e" "fi_info -h" "fi_pingpong -h" "fi_mcast -h" "fi_strerror -l" "fi_strerror 1"; do
      "$tools/"$command >/dev/full 2>"$scratch/reasons" && fail "$command succeeds on a full device"
      grep -q 'cannot write the output: No space left' "$scratch/reasons" || fail "$command does not say why it fails"
      "$tools/"$command >/dev/full 2>&1
      status=$?
      [ $status -eq 1 ] || fail "$command ends with $status if it cannot say why, not 1"
    done
    # Connections have none of the three numbers: the log would be sent to the peer.
    export FI_LOG_LEVEL=debug
    for closed in "<&-" ">&-" "2>&-" "<&- >&- 2>&-"; do
      for type in msg rdm; do
        ends="$tools/fi_pingpong -p tcp -e $type -I 20 -c"
        eval "timeout 100 $ends -B $control $closed" >"$scratch/server" 2>&1 &
        background=$!
        tries=0
        until eval "timeout 100 $ends -P $control 127.0.0.1 $closed" >"$scratch/client" 2>&1; do
          tries=$((tries + 1))
          [ $tries -lt 20 ] || fail "the client with $closed ended with an error"
          sleep 0.2
        done
        wait $background || fail "the server with $closed ended with an error"
        background=
      done
    done
    ;;
  serve) both "$tools/fi_pingpong" $stock_ping $msg ;;
  join) both $stock_ping "$tools/fi_pingpong" $msg ;;
  peer_killed | interrupted)
    endless="$tools/fi_pingpong -e msg -p tcp -I 100000000 -S 64 --timeout 100"
    start $endless
    $endless -P $control 127.0.0.1 >"$scratch/client" 2>&1 &
    client=$!
    sleep 3
    if [ "$case" = interrupted ]; then expected=130; kill -INT $client; else expected=104; kill -KILL $background; fi
    wait $client
    status=$?
    cat "$scratch/client"
    [ $status -eq $expected ] || fail "the client ended with $status, not $expected"
    grep -q '^64 ' "$scratch/client" || fail "the measurements are not printed"
    ;;
  *) fail "unknown case $case" ;;
esac
