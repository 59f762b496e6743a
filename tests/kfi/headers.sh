#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# headers.sh CC CXX INCLUDE_DIR WORK_DIR: each header of kfabric compiles alone, by both of its names, as C99, C11 and C++17,
# in both generations, without and with the stand-ins for the kernel, without a warning; so do numbers.c and layout.c,
# which assert their values and layouts.
set -eu
cc=$1 cxx=$2 include=$3 work=$4
here=$(cd "$(dirname "$0")" && pwd)
warnings="-Wall -Wextra -Wpedantic -Werror -Wno-unused-function -fsyntax-only -I$include -I$include/kfi"
mkdir -p "$work"
cd "$include/kfi"
status=0 count=0
# compiles LANGUAGE FILE OPTION...: C++ in the language of its compiler.
compiles() {
  language=$1 file=$2
  shift 2
  case $language in *++*) compiler="$cxx -x c++" ;; *) compiler=$cc ;; esac
  $compiler -std="$language" $warnings "$@" "$file" || { echo "FAIL: $(basename "$file") in $language $*"; status=1; }
}
for header in *.h; do
  count=$((count + 1))
  printf '#include <%s>\n' "$header" "kfi/$header" "$header" >"$work/$header.c"
  echo 'int kfi_header(void);' >>"$work/$header.c"
done
cat "$work"/kf*.h.c >"$work/all.c"
# The system's <errno.h> and <sys/socket.h> have their contents beside the stand-ins.
for header in kernel/linux/*.h; do
  printf '#include <%s>\n#include <errno.h>\n#include <sys/socket.h>\nint kfi_number = ENOENT + AF_INET;\n' \
    "${header#kernel/}" >"$work/stand_in_$(basename "$header").c"
done
# Code of a kernel is in GNU's C.
for language in gnu99 gnu11 gnu++17; do
  for header in kernel/linux/*.h; do
    compiles $language "$work/stand_in_$(basename "$header").c" -I"$include/kfi/kernel"
  done
done
for language in c99 c11 c++17; do
  for header in kernel/linux/*.h; do
    compiles $language "$work/stand_in_$(basename "$header").c" -D_GNU_SOURCE -I"$include/kfi/kernel"
  done
  for api in 0x10001 0x10007; do
    for header in *.h; do compiles $language "$work/$header.c" -DKFI_API=$api; done
    for file in numbers layout; do compiles $language "$here/$file.c" -DKFI_API=$api; done
    compiles $language "$work/all.c" -DKFI_API=$api -D_GNU_SOURCE -I"$include/kfi/kernel"
  done
done
[ $count -ge 12 ] || { echo "FAIL: found only $count headers in $include/kfi"; status=1; }
[ $status -ne 0 ] || echo "$count headers stand alone in C99, C11 and C++17, as API 1.1 and 1.7"
exit $status
