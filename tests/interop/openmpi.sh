#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# openmpi.sh LIBRARY OTHER_LIBRARY RANKS PROVIDER [CONTEXTS]: the distribution's unmodified Open MPI runs mpi_program.c,
# one half of the ranks on the library in one folder, the others on the other one's ("stock" for its own); "tcp+ofi_rxm"
# stands for "tcp;ofi_rxm". CONTEXTS: on scalable endpoints with so many contexts. Otherwise, with two ranks the
# distribution's NetPIPE checks messages of all lengths too, where it is installed.
set -u
. "$(dirname "$0")/stock.sh"
for program in mpicc mpirun; do
  command -v $program >/dev/null || skip "$program is not installed (packages openmpi-bin, libopenmpi-dev)"
done
library=$1 other=$2 ranks=$3 provider=$(echo "$4" | tr + ";") contexts=""
# Open MPI selects the first provider whose name begins with the given one: "tcp;ofi_rxm" for "tcp" too.
[ "$provider" != tcp ] || export FI_PROVIDER=^ofi_rxm
[ -z "${5:-}" ] || contexts="--mca mtl_ofi_enable_sep 1 --mca mtl_ofi_num_ctxts $5"
mpicc -Wall -o "$scratch/program" "$(dirname "$0")/mpi_program.c" || fail "the program does not compile"

# on LIBRARY: the options with which mpirun starts a rank there.
on() {
  [ "$1" = stock ] || echo "-x LD_LIBRARY_PATH=$1"
}
half=$((ranks / 2))
unset LD_LIBRARY_PATH
# run PROGRAM...: leaves in the file "output" what it said.
# One-sided communication takes the same way: otherwise Open MPI uses memory that ranks of one host share.
# The library's warnings belong to the output: a provider that is not there, say.
run() {
  timeout 110 mpirun --allow-run-as-root --oversubscribe --mca pml cm --mca mtl ofi \
    --mca mtl_ofi_provider_include "$provider" $contexts --mca btl self --mca osc pt2pt \
    --mca mtl_base_verbose 10 --mca opal_common_ofi_verbose 10 \
    -n $half $(on "$library") "$@" : -n $((ranks - half)) $(on "$other") "$@" >"$scratch/output" 2>&1
  result=$?
  cat "$scratch/output"
  [ $result -eq 0 ] || fail "mpirun ended with $result"
  [ "$(grep -c "prov: $provider\$" "$scratch/output")" -eq "$ranks" ] || fail "not all ranks took $provider"
}

run "$scratch/program"
grep -q "all right" "$scratch/output" || fail "not all right"

[ "$ranks" -eq 2 ] && [ -z "$contexts" ] && command -v NPopenmpi >/dev/null || exit 0
for options in "" -a -S; do
  run NPopenmpi $options -i -n 3 -u 3000000 -o "$scratch/netpipe"
  [ "$(grep -c "check passed" "$scratch/output")" -gt 30 ] || fail "NetPIPE checked next to nothing"
done
