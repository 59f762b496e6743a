#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# openmpi.sh LIBRARY OTHER_LIBRARY RANKS PROVIDER [CONTEXTS]: the distribution's unmodified Open MPI runs mpi_program.c,
# one half of the ranks on the library in one folder, the others on the other one's ("stock" for its own); "tcp+ofi_rxm"
# stands for "tcp;ofi_rxm", "native" for reliable datagrams over tcp itself. CONTEXTS: on scalable endpoints with so many
# contexts. Otherwise, with two ranks the distribution's NetPIPE checks messages of all lengths too, where it is
# installed.
set -u
. "$(dirname "$0")/stock.sh"
for program in mpicc mpirun; do
  command -v $program >/dev/null || skip "$program is not installed (packages openmpi-bin, libopenmpi-dev)"
done
library=$1 other=$2 ranks=$3 provider=$(echo "$4" | tr + ";") contexts=""
case $provider,$library,$other in
  native,stock,* | native,*,stock)
    need_program /usr/bin/fi_info
    # Its ranks lose messages among themselves, too.
    [ "$(stock_native)" != net ] || { echo "SKIP: net of libfabric 1.17 does not handle unexpected messages"; exit 77; }
    ;;
esac
# Open MPI selects the first provider whose name begins with the given one: "tcp;ofi_rxm" for "tcp" too.
if [ "$provider" = native ]; then
  provider=tcp
  export FI_PROVIDER=^ofi_rxm
fi
[ -z "${5:-}" ] || contexts="--mca mtl_ofi_enable_sep 1 --mca mtl_ofi_num_ctxts $5"
mpicc -Wall -o "$scratch/program" "$(dirname "$0")/mpi_program.c" || fail "the program does not compile"

# on LIBRARY: the command with which a rank selects it.
on() {
  if [ "$1" = stock ]; then echo ":"; else echo "export LD_LIBRARY_PATH=$1"; fi
}
# One program for all ranks: mpirun of Open MPI 5.0.7 crashes when it is to start two.
cat >"$scratch/rank" <<RANK
#!/bin/sh
if [ "\$OMPI_COMM_WORLD_RANK" -lt $((ranks / 2)) ]; then
  $(on "$library")
else
  $(on "$other")
fi
exec "\$@"
RANK
chmod +x "$scratch/rank"
unset LD_LIBRARY_PATH
# Open MPI 5 has no osc/pt2pt.
one_sided=""
[ "$(open_mpi)" -gt 4 ] || one_sided="--mca osc pt2pt"
# run PROGRAM...: leaves in the file "output" what it said.
# One-sided communication takes the same way: otherwise Open MPI uses memory that ranks of one host share.
# The library's warnings belong to the output: a provider that is not there, say.
run() {
  timeout 110 mpirun --allow-run-as-root --oversubscribe --mca pml cm --mca mtl ofi \
    --mca mtl_ofi_provider_include "$provider" $contexts --mca btl self $one_sided \
    --mca mtl_base_verbose 10 --mca opal_common_ofi_verbose 10 -n "$ranks" "$scratch/rank" "$@" >"$scratch/output" 2>&1
  result=$?
  cat "$scratch/output"
  [ $result -eq 0 ] || fail "mpirun ended with $result"
  [ "$(grep -c "prov\(ider\)\?: $provider\$" "$scratch/output")" -eq "$ranks" ] || fail "not all ranks took $provider"
}

# Between its own ranks, too, native matched probes of libfabric 2.1 end with FI_ENOMSG.
unmatched=""
case $provider,$other in tcp,stock) unmatched=unmatched ;; esac
run "$scratch/program" $unmatched
grep -q "all right" "$scratch/output" || fail "not all right"

[ "$ranks" -eq 2 ] && [ -z "$contexts" ] && command -v NPopenmpi >/dev/null || exit 0
for options in "" -a -S; do
  run NPopenmpi $options -i -n 3 -u 3000000 -o "$scratch/netpipe"
  [ "$(grep -c "check passed" "$scratch/output")" -gt 30 ] || fail "NetPIPE checked next to nothing"
done
