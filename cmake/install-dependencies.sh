#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# sh cmake/install-dependencies.sh [build] [packages] [site] [test] [nightly]: installs the packages of Debian 12 that are
# missing to build weft (default), to make its packages, to make its site, to test it, and for tests/nightly.sh. Prints and
# changes nothing when none is missing. On other systems it only lists them.
set -eu

build="g++ cmake make ninja-build libexpected-dev libfmt-dev pkg-config libibverbs-dev librdmacm-dev"
packages="dpkg-dev file"
site="python3-sphinx python3-myst-parser furo mandoc"
test="$packages $site lintian ccache clang clang-format clang-tidy libclang-rt-14-dev libgtest-dev libgmock-dev
  libbenchmark-dev libcli11-dev libfabric-dev libfabric-bin abigail-tools man-db pkg-config openmpi-bin libopenmpi-dev netpipe-openmpi
  qemu-system-x86 busybox-static cpio kmod xz-utils iproute2 rdmacm-utils ibverbs-providers valgrind"  # tests/rxe
nightly="$packages debootstrap libgtest-dev googletest libopenmpi-dev g++-11 clang-13 clang-14 clang-15 clang-16 clang-19
  g++-aarch64-linux-gnu qemu-user rpm rpmlint chromium"
# Node.js from elsewhere brings its npm, and excludes Debian's.
command -v npm >/dev/null || nightly="$nightly npm"

wanted=
for set in "${@:-build}"; do
  case $set in
    build) wanted="$wanted $build" ;;
    packages) wanted="$wanted $packages" ;;
    site) wanted="$wanted $site" ;;
    test) wanted="$wanted $test" ;;
    nightly) wanted="$wanted $nightly" ;;
    *) echo "usage: $0 [build] [packages] [site] [test] [nightly]" >&2; exit 2 ;;
  esac
done

if ! command -v apt-get >/dev/null; then
  echo "This is not Debian. Install the packages that correspond to these of Debian:" $wanted
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
# Package lists are fetched only if they are absent (a fresh container) or outdated.
if ! apt-cache show $missing >/dev/null 2>&1 || ! install; then
  $as_root apt-get update -q
  install
fi
