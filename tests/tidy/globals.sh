#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# globals.sh ROOT ARCHIVE: the archive that library and plug-ins share holds no mutable globals, otherwise each of them
# would have its own copy. Tables that only the loader writes to (.data.rel.ro) are constant.
set -eu
. "$(dirname "$0")/sources.sh"
archive=$2
case ${WEFT_SANITIZE:-} in ?*) skip "sanitizers add globals of their own" ;; esac
objdump -tC "$archive" | awk -v path="$(basename "$archive")" '
  /file format/ { member = $1; sub(/:$/, "", member) }
  # "0000000000000000 l     O .bss   0000000000000008 name"; sections themselves are not variables. (DW.ref. are
  # constant pointers that exception handling uses.)
  /DW\.ref\./ { next }
  match($0, / \.(bss|data|tbss|tdata)(\.[^ \t]*)?\t/) && !/ \.data\.rel\.ro/ && substr($0, 17, 8) ~ /O/ {
    name = $0
    sub(/^.*\t[0-9a-f]+ /, "", name)
    printf "%s\t0\t%s has the mutable global %s\n", path, member, name
  }' | judge globals
