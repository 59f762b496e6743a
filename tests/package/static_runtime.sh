#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# static_runtime.sh SYMBOLS_SCRIPT LIBRARY PROGRAM [PLUGIN]: with WEFT_STATIC_RUNTIME library and plug-in need libc, not
# libstdc++ and libgcc_s, and show no symbols of them; exceptions of their own copies end inside.
set -eu
symbols=$1 library=$2 program=$3 plugin=${4:-}
fail() { echo "FAIL: $1"; exit 1; }
# needs FILE: the libraries it needs beside libc, the dynamic linker and those of RDMA.
needs() {
  readelf -dW "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
    grep -Ev '^(libc|ld-linux.*|libfabric|libibverbs|librdmacm)\.so\.[0-9]+$' || :
}
[ -z "$(needs "$library")" ] || fail "$library needs" "$(needs "$library")"
readelf -dW "$library" | grep -Eq 'NEEDED.*(ibverbs|rdmacm|libfabric)' && fail "$library needs RDMA"
sh "$symbols" "$(dirname "$symbols")" "$library"
if [ -n "$plugin" ]; then
  [ -z "$(needs "$plugin")" ] || fail "$plugin needs $(needs "$plugin")"
  sh "$(dirname "$symbols")/plugin.sh" "$plugin"
fi
LD_LIBRARY_PATH=$(dirname "$library")
export LD_LIBRARY_PATH
ldd "$program" | grep -qF "$library" || fail "$program loads another library"
ldd "$program" | grep -q 'libstdc++\|libgcc_s' && fail "$program needs the C++ runtime"
# Without plug-ins: glibc ends the process if it has no memory for the thread-local data of a library that was loaded late.
FI_PROVIDER_PATH=/nonexistent "$program" failing
[ -z "$plugin" ] || FI_LOG_LEVEL=info FI_PROVIDER_PATH=$(dirname "$plugin") "$program" 2>&1 |
  grep -m 1 'registering provider verbs.*libverbs-fi\.so'
