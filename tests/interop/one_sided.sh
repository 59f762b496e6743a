#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# one_sided.sh LIBRARY RANKS [apart]: the distribution's unmodified Open MPI runs one_sided_program.c with osc/rdma over
# btl/ofi, which uses weft's tcp: put, get and atomic operations on reliable datagrams. "apart": each rank believes
# to be on a host of its own, so that locks go through the network as well, not through memory that ranks share.
set -u
. "$(dirname "$0")/stock.sh"
for program in mpicc mpirun; do
  command -v $program >/dev/null || skip "$program is not installed (packages openmpi-bin, libopenmpi-dev)"
done
library=$1 ranks=$2 where="--oversubscribe -n $2"
# With Open MPI 5, btl/ofi belongs to pml/ob1 and is to carry messages, too; ranks that poll do not yield by themselves.
ways="--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include tcp"
[ "$(open_mpi)" -le 4 ] || ways="--mca pml ob1 --mca btl_ofi_mode 2 --mca mpi_yield_when_idle 1"
mpicc -Wall -o "$scratch/program" "$(dirname "$0")/one_sided_program.c" || fail "the program does not compile"

if [ "${3:-}" = apart ]; then
  # With btl/tcp, too.
  [ "$(open_mpi)" -le 4 ] || { echo "SKIP: Open MPI 5 waits for ever where hosts are one"; exit 77; }
  # The replacement of ssh for mpirun. Hosts that are one may share neither scratch files nor the files of windows.
  cat >"$scratch/agent" <<AGENT
#!/bin/sh
export TMPDIR=$scratch/\$1 OMPI_MCA_osc_rdma_backing_directory=$scratch/\$1
mkdir -p \$TMPDIR
shift
exec sh -c "\$*"
AGENT
  chmod +x "$scratch/agent"
  hosts=$(i=0; while [ $i -lt "$ranks" ]; do printf "%shost%d" "${list:-}" $i; list=,; i=$((i + 1)); done)
  where="--host $hosts --mca plm_rsh_agent $scratch/agent --mca routed direct --mca mpi_yield_when_idle 1"
fi

# Open MPI takes the first provider whose name begins as asked, and btl/ofi none of ofi_rxm: that one is left out.
# run BTLS: leaves in the file "output" what it said. Ranks print their errors themselves, since mpirun loses some when
# it collects them.
run() {
  timeout 100 mpirun --allow-run-as-root $where -x LD_LIBRARY_PATH="$library" -x FI_PROVIDER=^ofi_rxm $ways \
    --mca btl "$1" --mca btl_ofi_provider_include tcp --mca osc rdma --mca osc_rdma_btls ofi \
    --mca btl_base_verbose 10 --mca orte_base_help_aggregate 0 "$scratch/program" >"$scratch/output" 2>&1
}

run ofi,self
result=$?
cat "$scratch/output"
[ $result -eq 0 ] || fail "mpirun ended with $result"
grep -q "all right" "$scratch/output" || fail "not all right"
[ "$(grep -c "init of component ofi returned success" "$scratch/output")" -eq "$ranks" ] ||
  fail "not all ranks took btl/ofi"

# The proof that nothing else carries it: without btl/ofi no window exists.
if run self || ! grep -q "MPI_ERR_WIN\|unreachable proc\|BTLs attempted: self" "$scratch/output"; then
  cat "$scratch/output"
  fail "osc/rdma works without btl/ofi"
fi
