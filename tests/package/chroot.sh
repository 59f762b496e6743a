#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# chroot.sh PACKAGES WORK_FOLDER: in a fresh Debian 12 that was made with debootstrap, the packages in the folder take
# libfabric1's place, Debian's Open MPI runs on them, and Debian's libfabric1 takes its place back. Needs root and the
# network.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
packages=$(cd "$1" && pwd) work=$2
. "$here/root_folder.sh"
command -v mpicc >/dev/null || skip "mpicc is not installed (package libopenmpi-dev)"
fresh_root "$work" root
cp "$packages"/*.deb "$root/tmp"
mpicc -w -o "$root/tmp/program" "$here/../interop/mpi_program.c"
fail() { echo "FAIL: $1"; exit 1; }

# owner PACKAGE: it owns the file that programs load as libfabric.so.1.
owner() {
  found=$(inside 'dpkg -S "$(readlink -f "$(ldconfig -p | sed -n "s/.*libfabric.so.1 .*=> //p" | head -n 1)")"')
  echo "$found"
  case $found in "$1":*) ;; *) fail "$1 does not own libfabric.so.1" ;; esac
}
# ranks: two ranks run on libfabric.so.1, and load it from the folder of the packages.
ranks() {
  inside 'timeout 300 mpirun --allow-run-as-root --oversubscribe -n 2 -x LD_DEBUG=files --mca pml cm --mca mtl ofi \
    --mca mtl_ofi_provider_include "tcp;ofi_rxm" --mca btl self --mca osc pt2pt --mca mtl_base_verbose 10 /tmp/program' >"$work/mpirun.log" 2>&1 || {
    grep -v "^ *[0-9]*:" "$work/mpirun.log" | tail -n 30
    fail "mpirun"
  }
  grep -q 'all right' "$work/mpirun.log" || fail "the MPI program did not end well"
  sed -n 's/.*\(calling init: .*libfabric\.so\.1\)$/\1/p' "$work/mpirun.log" | sort | uniq -c | sed 's/^ *//'
  grep -o 'mtl:ofi:prov: .*' "$work/mpirun.log" | sort -u
}

echo "--- install weft-libfabric1 and Open MPI"
install ./tmp/weft-libfabric1_*.deb openmpi-bin
owner weft-libfabric1
inside 'dpkg -s libfabric1' >/dev/null 2>&1 && fail "libfabric1 is installed as well"
ranks

echo "--- tools, plug-in, development files"
install ./tmp/weft-libfabric-bin_*.deb ./tmp/weft-verbs_*.deb ./tmp/weft-libkfabric1_*.deb ./tmp/weft-libfabric-dev_*.deb ./tmp/weft-doc_*.deb
inside 'fi_info --version'
inside 'fi_info -p tcp -t FI_EP_MSG' | grep -m 1 'provider: tcp' || fail "fi_info shows no tcp"
inside 'FI_LOG_LEVEL=info fi_info -l' 2>&1 | grep -m 1 'libverbs-fi\.so' || fail "the plug-in is not loaded"
if [ -e "$(echo "$packages"/weft-conformance_*.deb)" ]; then
  install ./tmp/weft-conformance_*.deb
  inside 'fi_conform --gtest_brief=1 --gtest_filter="Message.*:Getinfo.*"' >"$work/conformance.log" ||
    { cat "$work/conformance.log"; fail "fi_conform"; }
  tail -n 2 "$work/conformance.log"
fi

echo "--- Debian's development files and tools accept weft-libfabric1"
install libfabric-dev libfabric-bin
owner weft-libfabric1

echo "--- Debian's libfabric1 back, with weft's plug-in"
install libfabric1
owner libfabric1
inside 'dpkg -s weft-libfabric1' 2>/dev/null | grep -q 'Status:.* installed' && fail "weft-libfabric1 is still installed"
inside 'dpkg -s weft-verbs' | grep 'Status:' || fail "weft-verbs is gone"
inside 'fi_info --version'
inside 'FI_LOG_LEVEL=info fi_info -l' 2>&1 | grep -m 2 -i 'libverbs-fi\.so\|registering provider: verbs' ||
  fail "Debian's libfabric does not load the plug-in"
ranks
inside 'apt-get check -qq' || fail "dependencies are broken"
echo "the packages took libfabric1's place and gave it back"
