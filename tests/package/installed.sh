# SPDX-License-Identifier: BSD-2-Clause
# Sourced: installs the build in folder $1 below $2, moves it, and sets `prefix`. Then run_consumer judges programs.
# shellcheck disable=SC2034 # used by the sourcing script
build=$1 work=$2 cc=$3 cxx=$4
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"
cd "$work" || exit 1
cmake --install "$build" --prefix "$work/first" >install.log || { cat install.log; exit 1; }
mv first moved
prefix=$work/moved
library=$(find "$prefix" -name libfabric.so.1)

skip() {
  echo "SKIP: $1"
  exit 77
}

# run_kfabric PROGRAM: the example of kfabric runs with the installed libraries.
run_kfabric() {
  "$1" | grep -q 'hello, kernel' || { echo "$1 does not receive its message"; exit 1; }
  ldd "$1" | grep -qF "$(dirname "$library")/libkfabric.so.1" || { ldd "$1"; exit 1; }
}

# run_consumer PROGRAM: it runs with the installed library.
run_consumer() {
  LD_LIBRARY_PATH=$(dirname "$library")
  export LD_LIBRARY_PATH
  ldd "$1" | grep -qF "$library" || { echo "$1 does not load $library:"; ldd "$1"; exit 1; }
  said=$("$1")
  [ "$said" = 'tcp FI_EP_MSG' ] || { echo "$1 says \"$said\""; exit 1; }
}
