#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# sh cmake/package.sh [CMAKE_ARGUMENT...]: builds weft for the prefix /usr and makes its Debian packages, in
# build/packages. The same commit gives the same bytes in every folder. docs/packages.md describes the packages.
#
# Environment: JOBS (default: all processors), BUILD (the folder), SOURCE_DATE_EPOCH (default: the last commit's time).
# With -DWEFT_BUILD_TESTS=OFF there is no package of the conformance tests, and no need for GoogleTest.
set -eu
cd "$(dirname "$0")/.."
BUILD=${BUILD:-$PWD/build/packages}
JOBS=${JOBS:-$(nproc)}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y LICENSE)}
export SOURCE_DATE_EPOCH
umask 022

flags="-ffile-prefix-map=$PWD=. -ffile-prefix-map=$BUILD=build"  # the last one that matches counts
cmake -S . -B "$BUILD" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_SKIP_INSTALL_RPATH=ON \
  -DCMAKE_C_FLAGS="$flags" -DCMAKE_CXX_FLAGS="$flags" -DCMAKE_CXX_FLAGS_RELEASE="-O2 -DNDEBUG -D_FORTIFY_SOURCE=2" \
  -DWEFT_TEST_FOLDERS=conformance "$@"
cmake --build "$BUILD" -j "$JOBS"
if cmake --build "$BUILD" --target help | grep -q '^site'; then cmake --build "$BUILD" --target site; fi
rm -f "$BUILD"/*.deb
(cd "$BUILD" && cpack)
