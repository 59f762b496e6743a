#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# sh tests/nightly.sh [STEP...]: what takes too long for tests/run.sh, on Debian 12 as root. Steps (all of them unless some
# are named): packages (cmake/package.sh), reproducible (the same bytes from another folder), debian (in a fresh Debian),
# readme (the commands of README.md, in a fresh Debian), newer (interop tests in a fresh Debian 13, with libfabric 2.1),
# site (its pages in Chromium), container (the Dockerfile), rpm, spack, compilers (each gcc and clang of Debian 12),
# arm64, long (the ctest label nightly: virtual machines, software iWARP, messages of gibibytes), whole (what run.sh leaves
# out of its builds: IPv6, topics of some builds). The steps reproducible and debian need the packages of the first step. Logs and
# builds stay in build/nightly. The last line counts the steps.
#
# Environment: JOBS (default: all processors), BUILD (the folder), PACKAGE_OPTIONS (for cmake/package.sh).
set -u
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-$PWD/build/nightly}
JOBS=${JOBS:-$(nproc)}
export JOBS
mkdir -p "$BUILD"
tests=$PWD/tests/package
sh cmake/install-dependencies.sh build site nightly >"$BUILD/install.log" 2>&1 || { cat "$BUILD/install.log"; exit 1; }

# The only part from the npm registry: the rules of axe-core, one file. Without it the other checks run.
site_in_browser() {
  axe=$BUILD/npm/node_modules/axe-core/axe.min.js
  [ -e "$axe" ] || npm install --no-save --no-package-lock --prefix "$BUILD/npm" axe-core@4.10.3 || return 1
  sh tests/site/browser.sh . "$BUILD/site" "$axe"
}

# The tests that are too long for tests/run.sh.
long() {
  sh cmake/install-dependencies.sh build test || return 1
  cmake -S . -B "$BUILD/long" -G Ninja -DCMAKE_BUILD_TYPE=Release -DWEFT_TEST_FOLDERS="conformance;interop;bench;docs;rxe" &&
    cmake --build "$BUILD/long" -j "$JOBS" &&
    REQUIRE=stock,rxe ctest --test-dir "$BUILD/long" -L nightly --output-on-failure
}

# Debian 13's libfabric at the other end. Programs that were built on Debian 12 run there.
newer() {
  sh cmake/install-dependencies.sh build test || return 1
  cmake -S . -B "$BUILD/newer" -G Ninja -DCMAKE_BUILD_TYPE=Release -DWEFT_TEST_FOLDERS=interop &&
    cmake --build "$BUILD/newer" -j "$JOBS" && sh tests/interop/newer.sh . "$BUILD/newer" "$BUILD/roots-newer"
}

run_step() {
  case $1 in
    packages)
      BUILD="$BUILD/packages" sh cmake/package.sh ${PACKAGE_OPTIONS:-} && ls -l "$BUILD/packages"/*.deb &&
        sh "$tests/debian.sh" "$BUILD/packages" "$BUILD/packages/tested"
      ;;
    reproducible) sh "$tests/reproducible.sh" . "$BUILD/packages" "$BUILD/reproducible" ${PACKAGE_OPTIONS:-} ;;
    debian) sh "$tests/chroot.sh" "$BUILD/packages" "$BUILD/roots" ;;
    readme) sh "$tests/readme.sh" . "$BUILD/roots" ;;
    newer) newer ;;
    site) site_in_browser ;;
    container) sh "$tests/container.sh" . "$BUILD/roots" ;;
    rpm) sh "$tests/rpm.sh" . "$BUILD/rpm" ;;
    spack) python3 -c "import ast; ast.parse(open('cmake/packaging/spack/package.py').read())" ;;
    compilers) sh "$tests/compilers.sh" . "$BUILD/compilers" ;;
    long) long ;;
    whole) WHOLE=1 BUILD="$BUILD/whole" sh tests/run.sh release rxe-asan asan tsan ;;
    arm64) sh "$tests/arm64.sh" . "$BUILD/arm64" ;;
    *) echo "unknown step"; false ;;
  esac
}

passed=0 failed=0 skipped=0
for step in ${*:-packages reproducible debian readme newer site container rpm spack compilers arm64 long whole}; do
  printf '\n==== %s ====\n' "$step"
  began=$(date +%s)
  { run_step "$step" 2>&1; echo $? >"$BUILD/$step.status"; } | tee "$BUILD/$step.log" | tail -n 40
  case $(cat "$BUILD/$step.status") in
    0) passed=$((passed + 1)) result=passed ;;
    77) skipped=$((skipped + 1)) result=skipped ;;
    *) failed=$((failed + 1)) result=FAILED ;;
  esac
  echo "$step: $result after $(($(date +%s) - began)) s, log in $BUILD/$step.log"
done
printf '\n%d passed, %d failed, %d skipped\n' $passed $failed $skipped
[ $failed -eq 0 ]
