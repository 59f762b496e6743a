#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# atomics.sh PEER LIBRARY: every atomic operation on every type between atomics_peer on the library in the folder and on
# the distribution's, each in both roles. All must print what the distribution's prints against itself.
set -u
. "$(dirname "$0")/stock.sh"
peer=$1 library=$2
[ -x "$peer" ] || skip "atomics_peer was not built: the distribution's libfabric is not installed (package libfabric1)"

# run SERVER_LIBRARY CLIENT_LIBRARY OUTPUT; an empty library is the distribution's.
run() {
  : >"$scratch/where"
  LD_LIBRARY_PATH=$1 timeout 50 "$peer" server >"$scratch/where" 2>"$scratch/server" &
  background=$!
  await_line "$scratch/where" "$scratch/server"
  # shellcheck disable=SC2046  # three words
  LD_LIBRARY_PATH=$2 timeout 50 "$peer" client $(cat "$scratch/where") >"$3" 2>&1 || { tail "$3"; fail "the client: $?"; }
  wait $background || { cat "$scratch/server"; fail "the server: $?"; }
  background=
}

run "" "" "$scratch/expected"
[ "$(grep -c now "$scratch/expected")" -gt 200 ] || fail "the distribution's library offers next to nothing"
for pair in "$library:" ":$library" "$library:$library"; do
  run "${pair%:*}" "${pair#*:}" "$scratch/found"
  diff "$scratch/expected" "$scratch/found" >"$scratch/difference" || { head "$scratch/difference"; fail "$pair differs"; }
done
