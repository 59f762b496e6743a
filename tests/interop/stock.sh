# SPDX-License-Identifier: BSD-2-Clause
# Sourced by the interop drivers: the place of the distribution's library and programs, and the skipping of tests. A
# skip prints its reason and ends with 77; "stock" in REQUIRE (a list such as stock,rxe) turns it into a failure.

skip() {
  echo "skipped: $*"
  case ",$(echo "${REQUIRE:-}" | tr " " ,)," in
    *,stock,*) echo "but REQUIRE names stock"; exit 1 ;;
  esac
  exit 77
}

fail() {
  echo "FAILED: $*"
  exit 1
}

# need_program PATH...: all of them must be installed.
need_program() {
  for program in "$@"; do
    [ -x "$program" ] || skip "$program is not installed (package libfabric-bin)"
  done
}

# stock_native: the name of the distribution's provider of reliable datagrams over tcp without ofi_rxm. libfabric 1.17
# calls it net; release 2 has them in tcp, as weft has. Needs /usr/bin/fi_info.
stock_native() {
  if env -u LD_LIBRARY_PATH -u FI_PROVIDER /usr/bin/fi_info -p net >/dev/null 2>&1; then echo net; else echo tcp; fi
}

# open_mpi: the major version of the distribution's.
open_mpi() {
  mpirun --version | sed -n 's/^mpirun (Open MPI) \([0-9]*\)\..*/\1/p'
}

# await_line FILE ERRORS: the program in the background has printed a line; ERRORS is its output if it ends instead.
await_line() {
  tries=0
  until [ -s "$1" ]; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] && kill -0 $background 2>/dev/null || { cat "$2"; fail "the server did not start"; }
    sleep 0.1
  done
}

scratch=$(mktemp -d) || exit 1
trap 'kill $background 2>/dev/null; rm -rf "$scratch"' EXIT
background=
