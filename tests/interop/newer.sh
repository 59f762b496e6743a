#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# newer.sh SOURCE BUILD_FOLDER WORK_FOLDER: the interop tests of a finished build in a fresh Debian 13 that was made with
# debootstrap, with its libfabric 2.1 and Open MPI 5 at the other end. Needs root and the network.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$1" && pwd) build=$(cd "$2" && pwd) work=$3
SUITE=trixie
. "$here/../package/root_folder.sh"
fresh_root "$work" newer
install cmake gcc libc6-dev libfabric-bin libfabric1 openmpi-bin libopenmpi-dev netpipe-openmpi iproute2 strace
inside 'fi_info --version; mpirun --version'

# The tests have the paths of the source and of the build.
mkdir -p "$root$source" "$root$build"
unshare --mount sh -ec '
  root=$1 source=$2 build=$3
  mount --make-rprivate /
  mount --bind "$source" "$root$source"
  mount --bind "$build" "$root$build"
  mount -t proc proc "$root/proc"
  mount -t sysfs -o ro sysfs "$root/sys"
  mount --rbind /dev "$root/dev"
  mount -t tmpfs tmpfs "$root/dev/shm"
  exec chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/ REQUIRE=stock \
    ctest --test-dir "$build" -L interop --output-on-failure' sh "$root" "$source" "$build"
