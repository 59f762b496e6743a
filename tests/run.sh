#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# sh tests/run.sh [STEP...]: installs what is missing, builds weft three times and runs every test. Steps (unless some are
# named, all but rxe-asan): rxe (g++, on Soft-RoCE), release interop bench tidy (g++), rxe-asan asan fuzz (clang, address
# and undefined behaviour), tsan (clang, threads). Builds and logs stay in build/tests/; see docs/testing.md for how to run
# a single test there.
#
# Tests with the label "nightly", IPv6 of many tests, and some topics of some builds take longer: tests/nightly.sh runs
# them.
# WHOLE=1 does not leave them out here either.
#
# Environment: JOBS (default: all processors), BUILD (the folder), REQUIRE (default: stock,rxe, see docs/testing.md),
# WHOLE.
set -eu
cd "$(dirname "$0")/.."
BUILD=${BUILD:-$PWD/build/tests}
JOBS=${JOBS:-$(nproc)}
tests_at_once=$((JOBS + 2))  # tests wait for deadlines, and for each other, half of their time
export REQUIRE="${REQUIRE-stock,rxe}"
# The sanitizer's own list of thread-local storage breaks its search for leaks once a library is loaded by dlopen.
options=strict_string_checks=1:detect_stack_use_after_return=1:intercept_tls_get_addr=0
# Memory that is kept apart after it was freed costs more than the checks where page faults are slow.
export ASAN_OPTIONS="${ASAN_OPTIONS-$options:quarantine_size_mb=16:malloc_context_size=16}"
# A machine that runs this again, in the same folder, compiles only what changed.
export CCACHE_BASEDIR="${CCACHE_BASEDIR-$PWD}" CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1 CCACHE_MAXSIZE="${CCACHE_MAXSIZE-2G}"
export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
export UBSAN_OPTIONS="${UBSAN_OPTIONS-print_stacktrace=1}"
steps=${*:-rxe release interop bench tidy asan fuzz tsan}
started=$(date +%s)
configured=" "
built=" "
background= behind=
mkdir -p "$BUILD"
summary=$BUILD/summary
skips=$BUILD/skips
: >"$summary"
: >"$skips"

heading() { printf '\n==== %s ====\n' "$1"; }

# logged LOG COMMAND...: prints and stores the output; the status is the command's.
logged() {
  log=$1
  shift
  { "$@" 2>&1 && echo 0 >"$log.status" || echo $? >"$log.status"; } | tee "$log"
  return "$(cat "$log.status")"
}

# record STEP PASSED FAILED SECONDS LOG
record() { printf '%s\t%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" "$5" >>"$summary"; }

# configured NAME FOLDERS CMAKE_ARGUMENT...: one configuration, once.
configured() {
  name=$1 folders=$2
  shift 2
  case $configured in *" $name "*) return ;; esac
  configured="$configured$name "
  launcher=
  if command -v ccache >/dev/null; then launcher=ccache; fi
  logged "$BUILD/$name.configure.log" cmake -S . -B "$BUILD/$name" -G Ninja -DWEFT_TEST_FOLDERS="$folders" \
    -DCMAKE_C_COMPILER_LAUNCHER=$launcher -DCMAKE_CXX_COMPILER_LAUNCHER=$launcher "$@"
}

# build NAME TARGET CONFIGURE: one target of one configuration, once. Its failure counts like that of one test.
build() {
  name=$1 target=$2 configure=$3
  file=$name.build.log title="build $name"
  case $target in all | */all) ;; *) file=$name.$target.log title="$title $target" ;; esac
  case $built in *" $file "*) [ ! -e "$BUILD/$file.broken" ]; return ;; esac
  built="$built$file "
  heading "$title"
  began=$(date +%s)
  if $configure && logged "$BUILD/$file" $behind cmake --build "$BUILD/$name" -j "$JOBS" --target "$target"; then
    rm -f "$BUILD/$file.broken"
    record "$title" 0 0 $(($(date +%s) - began)) "$file"
  else
    touch "$BUILD/$file.broken"
    record "$title" 0 1 $(($(date +%s) - began)) "$file"
    return 1
  fi
}

# Unit tests of the release build by day: those that count allocations or let them fail, of which sanitizers can do less.
unit_layers="-DWEFT_UNIT_LAYERS=core;objects;messages;memory"
[ -z "${WHOLE:-}" ] || unit_layers=-UWEFT_UNIT_LAYERS
configure_release() {
  configured release "unit;abi;conformance;fakes;sim;interop;package;kfi;bench;tidy;docs;site;rxe" \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER=gcc -DCMAKE_CXX_COMPILER=g++ \
    -DCMAKE_CXX_FLAGS_RELEASE="-O2 -DNDEBUG" -DWEFT_TEST_OPTIONS=-O0 "$unit_layers"
}

# sanitized NAME SANITIZERS FOLDERS: only the tests' needs, little optimised, with line numbers only, and several files
# compiled as one.
sanitized() {
  configured "$1" "$3" -DCMAKE_BUILD_TYPE=Debug -DWEFT_SANITIZE="$2" -DCMAKE_C_COMPILER=clang \
    -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_C_FLAGS_DEBUG="-O1 -g1" -DCMAKE_CXX_FLAGS_DEBUG="-O1 -g1" \
    -DWEFT_TEST_OPTIONS=-O0 -DWEFT_PRECOMPILE=ON \
    -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=8
}

# These two test weft's own code; the ABI and the installed files are tested in the release build. With fuzzer-no-link
# the fuzzers search (see tests/fuzz), and one build serves them and the tests.
# The programs of the manual pages are many: at night only.
configure_asan() {
  sanitized asan fuzzer-no-link,address,undefined "unit;conformance;fakes;sim;kfi;fuzz;rxe${WHOLE:+;docs}"
}
# The network in memory has one thread: its schedules run with the other sanitizers.
configure_tsan() { sanitized tsan thread "unit;conformance;fakes;kfi${WHOLE:+;sim}"; }

release_build() { build release "${1:-all}" configure_release; }
asan_build() { build asan "${1:-tests/all}" configure_asan; }
tsan_build() { build tsan tests/all configure_tsan; }

# run_tests STEP BUILD SELECTION...: one run of ctest.
run_tests() {
  title=$1 folder=$BUILD/$2
  shift 2
  heading "$title"
  began=$(date +%s)
  log=$BUILD/$(echo "$title" | tr ' ' '-').log
  logged "$log" ctest --test-dir "$folder" --output-on-failure --no-tests=error "$@" || :
  counts=$(sed -n 's/.*tests passed, \([0-9]*\) tests* failed out of \([0-9]*\)$/\1 \2/p' "$log")
  if [ -z "$counts" ]; then
    record "$title" 0 1 $(($(date +%s) - began)) "$(basename "$log")"
    return 0
  fi
  failed=${counts% *}
  skipped=$(grep -c '\*\*\*Skipped' "$log" || :)
  record "$title" $((${counts#* } - failed - skipped)) "$failed" $(($(date +%s) - began)) "$(basename "$log")"
  sed -n "s/^ *\(.*SKIP: .*\)/$title: \1/p" "$folder/Testing/Temporary/LastTest.log" >>"$skips"
}

# A label and names that are left out. The topics of ofi_rxm run once over tcp, with asan, and once over verbs on the
# fakes, with tsan if they start threads, else in the release build. There `costly` tests run over IPv4 only.
night=nightly rxm_over_tcp='^conformance\.rxm\.' rxm_over_verbs='^conformance\.fake_verbs\.rxm\.'
if [ -n "${WHOLE:-}" ]; then night='^$' rxm_over_tcp='^$' rxm_over_verbs='^$'; fi
costly='^conformance\.(rxm|fake_verbs)\.'
costly="$costly|(closed_regions|confined_peers|hostile_floods|hostile_memory|idle_connections|local_messages"
costly="$costly|random_schedules|reliable_deaths|reliable_peers|shared_memory|unexpected_floods)\$"
over_ipv4() (
  if [ -z "${WHOLE:-}" ]; then export WEFT_CONFORMANCE_IPV6=none; fi
  run_tests "$@" -j "$tests_at_once"
)

run_step() {
  case $1 in
    release)
      if release_build; then
        over_ipv4 "release costly" release -R "$costly" -E "$rxm_over_tcp" -LE "$night"
        run_tests release release -j "$tests_at_once" -E "$costly" -LE "interop|bench|tidy|rxe|browser|$night"
      fi
      ;;
    interop) if release_build; then run_tests interop release -j "$JOBS" -L interop -LE "$night"; fi ;;
    bench) if release_build; then run_tests "bench smoke" release -L bench; fi ;;
    tidy) if release_build; then run_tests tidy release -j "$JOBS" -L tidy; fi ;;
    asan) if asan_build; then over_ipv4 "asan ubsan" asan -LE "fuzz|rxe|$night" -E "$rxm_over_verbs"; fi ;;
    fuzz) if asan_build; then run_tests fuzz asan -j "$JOBS" -L fuzz; fi ;;
    tsan) if tsan_build; then over_ipv4 tsan tsan -LE "$night" -E "$rxm_over_tcp"; fi ;;
    # In a folder of its own: other runs proceed meanwhile. Late tests need more than the programs that are built first.
    rxe)
      run_tests rxe release/tests -j 2 -L rxe -LE "late|$night"
      while [ ! -e "$BUILD/release.ended" ] && kill -0 $$; do sleep 1; done
      if [ ! -e "$BUILD/release.build.log.broken" ]; then run_tests "rxe late" release/tests -j 2 -L rxe -L late -LE "$night"; fi
      ;;
    rxe-asan) run_tests rxe-asan asan/tests -L rxe ;;
    *) echo "unknown step: $1" >&2; exit 2 ;;
  esac
}

# in_background STEP: its output is printed at the end.
in_background() {
  run_step "$1" >"$BUILD/$1.output" 2>&1 &
  background="$background $1:$!" behind="nice -n 10"
}

heading "install what is missing"
logged "$BUILD/install.log" sh cmake/install-dependencies.sh build test
for step in $steps; do
  # Virtual machines spend much of their time waiting: they start as soon as their programs are built, share the
  # processors with later steps, and precede the compilation of the sanitizer builds.
  case $step in
    rxe)
      rm -f "$BUILD/release.ended"
      if release_build rxe_programs; then in_background rxe; fi
      release_build || :
      : >"$BUILD/release.ended"
      ;;
    rxe-asan) if asan_build rxe_programs; then in_background rxe-asan; fi ;;
    *) run_step "$step" ;;
  esac
done
for step in $background; do
  wait "${step#*:}" || :
  cat "$BUILD/${step%:*}.output"
done

heading "summary"
if [ -s "$skips" ]; then
  echo "skipped:"
  sort -u "$skips"
fi
seconds=$(($(date +%s) - started))
awk -F '\t' -v folder="$BUILD" -v seconds="$seconds" '
  BEGIN { printf "%-28s %8s %8s %8s  %s\n", "step", "passed", "failed", "seconds", "log in " folder }
  { printf "%-28s %8d %8d %8d  %s\n", $1, $2, $3, $4, $5; passed += $2; failed += $3 }
  END {
    printf "total time %d min %d s\n", seconds / 60, seconds % 60
    printf "%d passed, %d failed\n", passed, failed
    exit failed != 0 || passed == 0
  }' "$summary"
