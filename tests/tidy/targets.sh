#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# targets.sh ROOT EDGES: the library targets link nothing outside their layer's list. EDGES is CMake's own list: lines
# "target dependency".
set -eu
. "$(dirname "$0")/sources.sh"
# System libraries, and the settings every target shares.
awk '
  BEGIN {
    anybody = " weft_headers weft_settings Threads::Threads tl::expected weft_fmt dl "
    may["weft_objects"] = " "
    may["weft_core"] = " weft_objects "
    may["weft_prov_tcp"] = " weft_objects "
    may["weft_prov_udp"] = " weft_objects "
    may["weft_prov_rxm"] = " weft_objects "
    may["weft_prov_verbs"] = " weft_objects PkgConfig::ibverbs PkgConfig::rdmacm "
    may["verbs-fi"] = " weft_prov_verbs fabric "
    may["fabric"] = " weft_core weft_prov_tcp weft_prov_udp weft_prov_rxm weft_objects "
    may["kfabric"] = " fabric "
    may["weft_tools"] = " fabric CLI11::CLI11 "
    may["fi_conform"] = " CLI11::CLI11 GTest::gtest "
    may["fabric_bench"] = " bench_process CLI11::CLI11 "
  }
  !($1 in may) { next }
  { checked++ }
  !index(anybody may[$1], " " $2 " ") { printf "%s\t0\tmay not depend on %s\n", $1, $2 }
  END { if (checked < 10) printf "targets\t0\tonly %d dependencies found: the list from CMake is broken\n", checked }
' "$2" | judge targets
