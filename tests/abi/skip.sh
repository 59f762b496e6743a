# SPDX-License-Identifier: BSD-2-Clause
# skip REASON: ends the test with ctest's "skipped", or as a failure where REQUIRE promises Debian's libfabric ("stock").
skip() {
  echo "SKIP: $1"
  case " ${REQUIRE:-} " in *stock*) exit 1 ;; esac
  exit 77
}
