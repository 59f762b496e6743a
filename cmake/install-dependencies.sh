#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# sh cmake/install-dependencies.sh [build] [test]: installs what Debian 12 lacks to build weft (default) and to test it.
# Says nothing and changes nothing when all is there. Elsewhere it only says what is needed.
set -eu

build="g++ cmake ninja-build libexpected-dev libfmt-dev pkg-config libibverbs-dev librdmacm-dev"
test="ccache clang clang-format clang-tidy libclang-rt-14-dev libgtest-dev libgmock-dev libbenchmark-dev libcli11-dev
  libfabric-dev libfabric-bin abigail-tools pkg-config openmpi-bin libopenmpi-dev netpipe-openmpi
  qemu-system-x86 busybox-static cpio kmod xz-utils iproute2 rdmacm-utils ibverbs-providers valgrind"  # tests/rxe

wanted=
for set in "${@:-build}"; do
  case $set in
    build) wanted="$wanted $build" ;;
    test) wanted="$wanted $test" ;;
    *) echo "usage: $0 [build] [test]" >&2; exit 2 ;;
  esac
done

if ! command -v apt-get >/dev/null; then
  echo "This is not Debian; the packages there are called:" $wanted "- install what corresponds to them."
  exit 0
fi

missing=
for package in $wanted; do
  state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) || state=
  [ "$state" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

as_root=
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "Missing packages. As root: apt-get install$missing" >&2; exit 1; }
  as_root=sudo
fi

install() { $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing; }

echo "Installing$missing"
# Package lists may be absent (a fresh container) or outdated; only then they are fetched.
if ! apt-cache show $missing >/dev/null 2>&1 || ! install; then
  $as_root apt-get update -q
  install
fi
