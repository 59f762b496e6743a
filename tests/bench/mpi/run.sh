#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# run.sh LIBRARY_FOLDER [ROUNDS [OUTPUT]]: Open MPI between ranks of this machine, in turns; medians as tables in
# Markdown, docs/performance/mpi.md by default. Through shared memory: weft's tcp and tcp;ofi_rxm, the distribution's
# libfabric, and Open MPI's own btl/vader. Through sockets, as between machines: the same with FI_TCP_SHARED_MEMORY=0,
# and btl/tcp.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
library=$1 rounds=${2:-5} output=${3:-$here/../../../docs/performance/mpi.md}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mpicc -O2 -o "$scratch/pingpong" "$here/mpi_pingpong.c"

# run NAME RANKS OPTION...: adds the results of one run to those of NAME.
run() {
  name=$1 ranks=$2
  shift 2
  timeout 120 mpirun --allow-run-as-root --oversubscribe --bind-to none -n "$ranks" "$@" "$scratch/pingpong" \
    >>"$scratch/$name" 2>"$scratch/errors" || { cat "$scratch/errors" >&2; exit 1; }
}
# on_weft NAME PROVIDER OPTION...: two ranks, then a ring of four.
on_weft() {
  name=$1 provider=$2
  shift 2
  for ranks in 2 4; do
    run "$name" $ranks -x LD_LIBRARY_PATH="$library" "$@" --mca pml cm --mca mtl ofi --mca btl self \
      --mca mtl_ofi_provider_include "$provider"
  done
}
i=0
while [ $i -lt "$rounds" ]; do
  on_weft tcp tcp -x FI_PROVIDER=^ofi_rxm
  on_weft rxm "tcp;ofi_rxm"
  on_weft tcp_sockets tcp -x FI_PROVIDER=^ofi_rxm -x FI_TCP_SHARED_MEMORY=0
  on_weft rxm_sockets "tcp;ofi_rxm" -x FI_TCP_SHARED_MEMORY=0
  for ranks in 2 4; do
    run stock $ranks --mca pml cm --mca mtl ofi --mca btl self --mca mtl_ofi_provider_include "tcp;ofi_rxm"
    run vader $ranks --mca pml ob1 --mca btl vader,self
    run btl_tcp $ranks --mca pml ob1 --mca btl tcp,self
  done
  i=$((i + 1))
done

values() { sed -n "s/^$2 //p" "$scratch/$1"; }  # NAME MEASURE
middle() { sort -n | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'; }
median() { values "$@" | middle; }

# ratio OURS NAME MEASURE: the median of the ratios within each round: the machine's speed drifts from round to round.
ratio() {
  values "$1" "$3" >"$scratch/ours"
  values "$2" "$3" | paste "$scratch/ours" - | awk '{ print $1 / $2 }' | middle
}
# row MEASURE TITLE OTHER SUFFIX TARGET FACTOR: weft's tcp may need at most FACTOR of OTHER's time, or must reach FACTOR
# of libfabric's rate; no verdict without a FACTOR.
row() {
  echo "$(median "tcp$4" "$1") $(median "rxm$4" "$1") $(median stock "$1") $(median "$3" "$1")" \
    "$(ratio "tcp$4" "$3" "$1") $(ratio "rxm$4" "$3" "$1") $(ratio "rxm$4" stock "$1")" |
    awk -v name="$2" -v target="$5" -v factor="$6" -v rate="$1" '{
      verdict = factor == "" ? "" : (rate == "rate" ? $7 >= factor : $5 <= factor) ? "PASS" : "**MISS**"
      printf "| %s | %s | %s | %s | %s | %.2f | %.2f | %.2f | %s | %s |\n", name, $1, $2, $3, $4, $5, $6, $7, target,
             verdict
    }'
}
head_of() {  # OTHER
  printf '| | tcp | tcp;ofi_rxm | libfabric | %s | tcp / %s | tcp;ofi_rxm / %s | tcp;ofi_rxm / libfabric | target | |\n' \
    "$1" "$1" "$1"
  echo "|---|---|---|---|---|---|---|---|---|---|"
}
processor=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)
{
  cat <<END
# Open MPI on weft

Ranks of Debian's Open MPI on one machine: \`mtl/ofi\` on weft's \`tcp\` and \`tcp;ofi_rxm\` and on the \`tcp;ofi_rxm\` of
Debian's libfabric, and Open MPI's own transports, in turns within one run. Targets apply to \`tcp\`.
\`tests/bench/mpi/run.sh\` writes this page.

$(date -u +%Y-%m-%d), $processor, $(nproc) processors, load average $(cut -d ' ' -f 1 /proc/loadavg) at the end;
medians of $rounds rounds; a ratio is the median of the ratios within each round.

## Through shared memory

Open MPI's own shared memory is \`btl/vader\`.

END
  head_of vader
  row 8_B "8 B, half round trip, us" vader "" "&le; 3 x vader" 3
  row 4_KiB "4 KiB, half round trip, us" vader "" "" ""
  row 64_KiB "64 KiB, half round trip, us" vader "" "&le; vader" 1
  row 1_MiB "1 MiB, half round trip, us" vader "" "&le; vader" 1
  row rate "8 B, 64 under way, messages/s" vader "" "" ""
  row hop "ring of four ranks, 8 B, one hop, us" vader "" "&le; vader" 1
  cat <<END

## Through sockets

With \`FI_TCP_SHARED_MEMORY=0\`, over 127.0.0.1: how ranks of two machines talk. Open MPI's own is \`btl/tcp\`.

END
  head_of btl/tcp
  row 8_B "8 B, half round trip, us" btl_tcp _sockets "&le; btl/tcp" 1
  row 4_KiB "4 KiB, half round trip, us" btl_tcp _sockets "&le; btl/tcp" 1
  row 64_KiB "64 KiB, half round trip, us" btl_tcp _sockets "&le; btl/tcp" 1
  row 1_MiB "1 MiB, half round trip, us" btl_tcp _sockets "&le; btl/tcp" 1
  row rate "8 B, 64 under way, messages/s" btl_tcp _sockets "&ge; 3 x libfabric" 3
  row hop "ring of four ranks, 8 B, one hop, us" btl_tcp _sockets "" ""
} >"$scratch/page"
cp "$scratch/page" "$output"
cat "$output"
