#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# sh cmake/demo.sh: from a fresh checkout to connected endpoints. Installs missing packages, builds weft, starts a server
# and a client that connect over the best provider, and shows the latency and bandwidth between them.
#
# Environment: JOBS (default: all processors), BUILD (the folder, default build/demo), PROVIDER (default: the best one).
set -eu
cd "$(dirname "$0")/.."
BUILD=${BUILD:-$PWD/build/demo}
JOBS=${JOBS:-$(nproc)}
limit=120 # most seconds for the measurement
server=
mkdir -p "$BUILD"
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || :' EXIT
trap 'exit 130' INT TERM

heading() { printf '\n%s\n' "$1"; }

die() {
  printf '\nfailed: %s\n' "$1" >&2
  [ $# -lt 2 ] || { echo "The end of $2:" >&2; tail -n 15 "$2" | cut -c1-200 | sed 's/^/  /' >&2; }
  exit 1
}

# quietly LOG WHAT COMMAND...: the output goes to the log and is shown only when the command fails.
quietly() {
  log=$1 what=$2
  shift 2
  "$@" >"$log" 2>&1 </dev/null || die "$what" "$log"
}

build_weft() {
  heading "1. Build"
  sh cmake/install-dependencies.sh build >"$BUILD/install.log" 2>&1 || die "installing packages" "$BUILD/install.log"
  if [ -s "$BUILD/install.log" ]; then echo "   missing packages: installed"; else echo "   packages: complete"; fi
  began=$(date +%s)
  echo "   weft: building in $BUILD, some minutes on two processors"
  quietly "$BUILD/configure.log" "configuring" cmake -S . -B "$BUILD" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DWEFT_BUILD_TESTS=OFF
  quietly "$BUILD/build.log" "building" cmake --build "$BUILD" -j "$JOBS"
  echo "   weft: done in $(($(date +%s) - began)) s"
  tools=$(dirname "$(find "$BUILD" -name fi_pingpong -type f | head -n 1)")
  # An installed library finds its plug-ins beside it; in a build folder they are elsewhere.
  plugin=$(find "$BUILD" -name libverbs-fi.so | head -n 1)
  [ -z "$plugin" ] || export FI_PROVIDER_PATH="${FI_PROVIDER_PATH:-$(dirname "$plugin")}"
}

# usable PROVIDER: true if it offers connected endpoints; prints the reason if not.
usable() {
  if "$tools/fi_info" -p "$1" -t FI_EP_MSG >"$BUILD/$1.info" 2>"$BUILD/$1.reason"; then
    printf '   %-7s yes: %s\n' "$1" "$(awk '/domain:/ && !seen[$2]++ { list = list sep $2; sep = ", " }
      END { print "connected endpoints (FI_EP_MSG) on " list }' "$BUILD/$1.info")"
  else
    reason=$(sed -n "s/^ *provider $1: //p" "$BUILD/$1.reason" | head -n 1)
    printf '   %-7s no: %s\n' "$1" "${reason:-$(head -n 1 "$BUILD/$1.reason")}" | fold -s -w 76 | sed '2,$s/^/           /'
    return 1
  fi
}

choose_provider() {
  heading "2. Choose a provider"
  provider=${PROVIDER:-}
  if [ -n "$provider" ]; then
    usable "$provider" || die "provider $provider, set by PROVIDER, cannot be used"
    why="set by PROVIDER"
  elif usable verbs; then
    provider=verbs why="this host has an RDMA device"
  elif usable tcp; then
    provider=tcp why="no RDMA device, and TCP works everywhere"
  else
    die "no provider offers connected endpoints" "$BUILD/tcp.reason"
  fi
  echo "   chosen: $provider ($why)"
}

# Prints the table from fi_pingpong's JSON text, in which each value follows its quoted name.
show_table() {
  awk '
    function value(name) {
      if (!match(text, "\"" name "\": [0-9.]+")) return 0
      return substr(text, RSTART + length(name) + 4, RLENGTH - length(name) - 4) + 0
    }
    function size(bytes) {
      return bytes >= 1048576 ? bytes / 1048576 " MiB" : bytes >= 1024 ? bytes / 1024 " KiB" : bytes " B"
    }
    BEGIN { printf "   %10s  %12s  %12s  %12s  %14s\n", "message", "median", "90 % below", "99 % below", "bandwidth" }
    /\{"bytes"/ { text = "" }
    { text = text $0 }
    /"max"/ {
      printf "   %10s  %9.1f us  %9.1f us  %9.1f us  %9.1f MB/s\n", size(value("bytes")), value("p50"), value("p90"),
        value("p99"), value("mb_per_sec")
    }' "$1"
}

measure() {
  heading "3. Measure"
  set -- -e msg -p "$provider" -I 500 --warmup 50 -S 8,64,1k,8k,64k,1m --timeout "$limit"
  : >"$BUILD/server.log" # a log of an earlier run names an old port
  "$tools/fi_pingpong" "$@" -B 0 >"$BUILD/server.txt" 2>"$BUILD/server.log" &
  server=$!
  port= tries=0
  while [ -z "$port" ]; do
    port=$(sed -n 's/.*control port \([0-9][0-9]*\)$/\1/p' "$BUILD/server.log")
    tries=$((tries + 1))
    if ! kill -0 "$server" 2>/dev/null || [ "$tries" -gt 100 ]; then die "the server did not start" "$BUILD/server.log"; fi
    [ -n "$port" ] || sleep 0.1
  done
  echo "   server: process $server, waiting on port $port"
  echo "   client: connects, then 500 round trips of each size"
  "$tools/fi_pingpong" "$@" --json -P "$port" 127.0.0.1 >"$BUILD/client.json" 2>"$BUILD/client.log" || {
    sleep 1 # the server may need time to detect it
    cat "$BUILD/server.log" >>"$BUILD/client.log"
    die "the measurement" "$BUILD/client.log"
  }
  wait "$server" || die "the server" "$BUILD/server.log"
  server=
  echo
  show_table "$BUILD/client.json"
  echo
  echo "   Latency is one way (half a round trip) between two processes on this machine;"
  echo "   the first 50 round trips of each size are not counted."
  echo "   All results: $BUILD/client.json"
}

echo "weft: two processes, one connection"
build_weft
choose_provider
measure
