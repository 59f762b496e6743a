#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# symbols.sh LIBRARY: libkfabric exports the calls without an object, those with structures also for API 1.1, and nothing
# else. It requires only symbols of libfabric's old version nodes, so that it runs over every release, and depends on libc,
# libstdc++ and libfabric.
set -eu
library=$1 status=0
exports=$(nm -D --defined-only "$library" | sed -n 's/.* T \([^@]*\).*/\1/p' | LC_ALL=C sort | tr '\n' ' ')
both="kfi_allocinfo kfi_dupinfo kfi_fabric kfi_freeinfo kfi_getinfo kfi_tostr"
wanted=$({ printf '%s\n' $both kfi_freeparams kfi_getparams kfi_strerror kfi_version && printf '%s_1_1\n' $both; } |
  LC_ALL=C sort | tr '\n' ' ')
[ "$exports" = "$wanted" ] || { echo "FAIL: exports $exports"; status=1; }
newest=$(objdump -T "$library" | sed -n 's/.*(\(FABRIC_1\.[0-9]*\)).*/\1/p' | sort -V | tail -n 1)
case $newest in FABRIC_1.[0-3]) ;; *) echo "FAIL: requires $newest of libfabric"; status=1 ;; esac
for needed in $(readelf -d "$library" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p'); do
  case $needed in
    libc.so.* | libstdc++.so.* | libgcc_s.so.* | libm.so.* | libfabric.so.1 | ld-linux*) ;;
    *) echo "FAIL: depends on $needed"; status=1 ;;
  esac
done
[ $status -ne 0 ] || echo "$(echo "$exports" | wc -w) symbols; of libfabric up to $newest"
exit $status
