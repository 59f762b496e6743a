#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# run.sh LIBRARY_FOLDER [ROUNDS [OUTPUT]]: Open MPI's ping-pong between two ranks of this machine on weft, on the
# distribution's libfabric (both tcp;ofi_rxm), on weft's tcp itself and on Open MPI's own btl/tcp, in turns; medians as a
# table in Markdown, docs/performance/mpi.md by default.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
library=$1 rounds=${2:-5} output=${3:-$here/../../../docs/performance/mpi.md}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mpicc -O2 -o "$scratch/pingpong" "$here/mpi_pingpong.c"

# run NAME OPTION...: adds the results of one run to those of NAME.
run() {
  name=$1
  shift
  timeout 120 mpirun --allow-run-as-root --oversubscribe -n 2 "$@" "$scratch/pingpong" >>"$scratch/$name" 2>"$scratch/errors" ||
    { cat "$scratch/errors" >&2; exit 1; }
}
native="-x FI_PROVIDER=^ofi_rxm --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include tcp --mca btl self"
ofi="--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include tcp;ofi_rxm --mca btl self"
i=0
while [ $i -lt "$rounds" ]; do
  # shellcheck disable=SC2086  # options
  run weft -x LD_LIBRARY_PATH="$library" $ofi
  # shellcheck disable=SC2086
  run stock $ofi
  # shellcheck disable=SC2086
  run native -x LD_LIBRARY_PATH="$library" $native
  run btl --mca pml ob1 --mca btl tcp,self
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
# row MEASURE TITLE TARGET FACTOR: weft may need at most FACTOR of btl/tcp's time, or must reach FACTOR of libfabric's
# rate.
row() {
  echo "$(median weft "$1") $(median native "$1") $(median stock "$1") $(median btl "$1")" \
    "$(ratio weft stock "$1") $(ratio weft btl "$1") $(ratio native btl "$1")" |
    awk -v name="$2" -v target="$3" -v factor="$4" '{
      good = factor < 2 ? $6 <= factor : $5 >= factor
      printf "| %s | %s | %s | %s | %s | %.2f | %.2f | %.2f | %s | %s |\n", name, $1, $2, $3, $4, $5, $6, $7, target,
             good ? "PASS" : "FAIL"
    }'
}
processor=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)
{
  cat <<END
# Open MPI on weft

Two ranks of Debian's Open MPI on one machine, over 127.0.0.1: on weft and on Debian's libfabric (\`mtl/ofi\` with
\`tcp;ofi_rxm\`), on weft's \`tcp\` itself, and on Open MPI's own \`btl/tcp\`, in turns within one run. Verdicts apply to
\`tcp;ofi_rxm\`. \`tests/bench/mpi/run.sh\` writes this page.

$(date -u +%Y-%m-%d), $processor, $(nproc) processors, load average $(cut -d ' ' -f 1 /proc/loadavg) at the end;
medians of $rounds rounds; a ratio is the median of the ratios within each round.

| | weft | weft, tcp itself | libfabric | btl/tcp | weft / libfabric | weft / btl/tcp | tcp itself / btl/tcp | target | verdict |
|---|---|---|---|---|---|---|---|---|---|
END
  row 8_B "8 B, half round trip, us" "&le; btl/tcp" 1
  row 4_KiB "4 KiB, half round trip, us" "&le; btl/tcp" 1
  row 64_KiB "64 KiB, half round trip, us" "&le; half of btl/tcp" 0.5
  row 1_MiB "1 MiB, half round trip, us" "&le; btl/tcp" 1
  row rate "8 B, 64 under way, messages/s" "&ge; 3 x libfabric" 3
} >"$scratch/page"
cp "$scratch/page" "$output"
cat "$output"
