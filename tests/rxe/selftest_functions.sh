# SPDX-License-Identifier: BSD-2-Clause
# Shared by the self-tests of the lab, which source it; it changes to a folder of their own.
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
export RXE_LIMIT="${RXE_LIMIT:-100}"  # below ctest's, so that a hang is explained

fail() {
  echo "FAILED: $*"
  cat out err 2>/dev/null
  exit 1
}

# expect_end SCRIPT STATUS WORD...: the script of the lab with these words ends with that status. A skip also ends this
# script.
expect_end() {
  script=$1
  wanted=$2
  shift 2
  sh "$here/$script" "$@" >out 2>err
  got=$?
  if [ $got -eq 77 ] || grep -q 'but REQUIRE names rxe' err; then
    cat err
    exit $got
  fi
  [ $got -eq "$wanted" ] || fail "$script $* ended with $got instead of $wanted"
}
