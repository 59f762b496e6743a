#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# commands.sh BUILD WORK_FOLDER CC CXX: each command of the guide and of the page on tools, line by line, with an
# installation of the build. The commands are the blocks that begin with ```sh; a page is one script. readme.sh runs those
# of README.md.
set -eu
. "$(dirname "$0")/installed.sh"
command -v pkg-config >/dev/null || skip 'pkg-config is not installed'
source=$(cd "$here/../.." && pwd)
export PATH="$prefix/bin:$PATH" LD_LIBRARY_PATH="$(dirname "$library")" PKG_CONFIG_PATH="$(dirname "$library")/pkgconfig"
ln -s "$source/docs" docs
# A network of its own: the commands use fixed ports and groups.
isolated=
if unshare -n ip link set lo up 2>/dev/null; then isolated="unshare -n"; fi
count=0
for page in "$source"/docs/guide/*.md "$source"/docs/tools.md; do
  name=$(basename "$page" .md)
  awk '/^```sh$/ { inside = 1; next } /^```/ { inside = 0 } inside' "$page" >"$name.sh"
  [ -s "$name.sh" ] || continue
  # shellcheck disable=SC2086 # nothing, or a command with an option
  if ! timeout 60 $isolated sh -c 'ip link set lo up 2>/dev/null; exec sh -e -v "$1"' sh "$name.sh" >"$name.log" 2>&1; then
    cat "$name.log"
    echo "FAIL: the last command of $page that is shown"
    exit 1
  fi
  count=$((count + $(grep -c . "$name.sh")))
done
grep -qx hello first-connection.log || { cat first-connection.log; echo "FAIL: the client prints no answer"; exit 1; }
grep -q '"p99"' tools.log || { cat tools.log; echo "FAIL: fi_pingpong prints no percentiles"; exit 1; }
grep -q 'Connection refused' errors.log || { cat errors.log; echo "FAIL: fi_strerror has no text"; exit 1; }
grep -q 'provider udp: ' errors.log || { cat errors.log; echo "FAIL: fi_info prints no reason"; exit 1; }
grep -q 'FI_TCP_STAGING_SBUF_SIZE' migrating.log || { cat migrating.log; echo "FAIL: no warning for the variable"; exit 1; }
[ "$count" -ge 20 ] || { echo "FAIL: only $count commands"; exit 1; }
echo "$count commands run"
