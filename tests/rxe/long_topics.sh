# SPDX-License-Identifier: BSD-2-Clause
# Sourced by tests that tests/run.sh and tests/nightly.sh share (weft_rxe_parts in CMakeLists.txt). LONG in the environment:
# "no" leaves out the topics that take longest in an emulated machine, "only" runs nothing else, and unset runs both.

# chosen_tests LEFT_OUT LONG_TOPICS: the GoogleTest filter; both are lists of patterns.
chosen_tests() {
  case ${LONG:-} in
    no) echo "-$1:$2" ;;
    only) echo "$2:-$1" ;;
    *) echo "-$1" ;;
  esac
}
