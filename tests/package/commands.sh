#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# commands.sh BUILD WORK_FOLDER CC CXX: each command of the guide, MPI included, and of the page on tools, line by line, with an
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
# The page on runtimes presumes programs, and as many processors as ranks.
runtimes=
if command -v mpicc >/dev/null && command -v mpirun >/dev/null; then
  runtimes=$source/docs/runtimes.md
  mpicc -w -o program "$source/tests/interop/mpi_program.c"
  mpicc -w -o one_sided_program "$source/tests/interop/one_sided_program.c"
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
fi
count=0
for page in "$source"/docs/guide/*.md "$source"/docs/tools.md $runtimes; do
  name=$(basename "$page" .md)
  awk '/^```sh$/ { inside = 1; next } /^```/ { inside = 0 } inside' "$page" |
    sed "s,/path/to/weft/lib,$LD_LIBRARY_PATH,; s,osc_rdma_btls ofi ./,&one_sided_," >"$name.sh"
  [ -s "$name.sh" ] || continue
  # shellcheck disable=SC2086 # nothing, or a command with an option
  if ! timeout 100 $isolated sh -c 'ip link set lo up 2>/dev/null; exec sh -e -v "$1"' sh "$name.sh" >"$name.log" 2>&1; then
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
if [ -n "$runtimes" ] && [ "$(grep -c 'all right' runtimes.log)" -ne 2 ]; then
  cat runtimes.log
  echo "FAIL: the MPI program did not end well"
  exit 1
fi
[ "$count" -ge 20 ] || { echo "FAIL: only $count commands"; exit 1; }
echo "$count commands run"
