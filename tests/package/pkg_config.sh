#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# pkg_config.sh BUILD WORK_FOLDER CC CXX: the installed files are complete, and programs find them with libfabric.pc.
set -eu
. "$(dirname "$0")/installed.sh"
for file in include/rdma/fabric.h include/rdma/providers/fi_prov.h bin/fi_info bin/fi_pingpong bin/fi_strerror \
  share/man/man1/fi_info.1 share/man/man1/fi_pingpong.1 share/man/man1/fi_strerror.1; do
  [ -e "$prefix/$file" ] || { echo "not installed: $file"; exit 1; }
done
(cd "$here/../../include" && find . -name '*.h' | LC_ALL=C sort) >wanted
(cd "$prefix/include" && find . -type f | LC_ALL=C sort) | diff wanted - || { echo 'other headers are installed'; exit 1; }
LD_LIBRARY_PATH=$(dirname "$library") "$prefix/bin/fi_info" --version

command -v pkg-config >/dev/null || skip 'pkg-config is not installed'
PKG_CONFIG_LIBDIR=$(dirname "$(find "$prefix" -name libfabric.pc)")
export PKG_CONFIG_LIBDIR
pkg-config --atleast-version=1.17 libfabric || { echo "libfabric.pc has version $(pkg-config --modversion libfabric)"; exit 1; }
# shellcheck disable=SC2046 # several words are meant
"$cc" -std=c11 -Wall -Wextra -Werror $(pkg-config --cflags libfabric) -o consumer_c "$here/consumer.c" $(pkg-config --libs libfabric)
# shellcheck disable=SC2046
"$cxx" -std=c++20 -Wall -Wextra -Werror $(pkg-config --cflags libfabric) -o consumer_cc -x c++ "$here/consumer.c" -x none $(pkg-config --libs libfabric)
run_consumer ./consumer_c
run_consumer ./consumer_cc
# shellcheck disable=SC2046
"$cc" -std=gnu11 -Wall -Wextra -Werror $(pkg-config --cflags libkfabric) -o kfabric "$here/../../docs/examples/kfabric.c" \
  $(pkg-config --libs libkfabric)
run_kfabric ./kfabric
