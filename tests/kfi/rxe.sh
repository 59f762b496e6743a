#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# rxe.sh WEFT PLUGINS PROGRAMS: in the lab, the server of the slides over verbs, with a client in kfi, one in fi on weft,
# and one on the distribution's library with its own provider; then half shutdown, and lists of memory. The three
# arguments are folders.
set -u
weft=$1 programs=$3 here=$(dirname "$0") status=0
export FI_PROVIDER_PATH=$2
for client in slides_client_1_7:weft slides_fi_client:weft slides_stock_client:stock; do
  library=$weft
  if [ "${client#*:}" = stock ]; then library=stock; fi
  echo "--- ${client%:*}"
  sh "$here/slides.sh" "$programs/kfi_slides_server_1_7" "$weft" "$programs/kfi_${client%:*}" "$library" verbs "$RXE_ADDRESS" ||
    status=1
done
export KFI_PROVIDER=verbs KFI_ADDRESS=$RXE_ADDRESS KFI_HALVES=write LD_LIBRARY_PATH=$weft
timeout 60 "$programs/kfi_half_shutdown" --gtest_brief=1 || status=1
timeout 60 "$programs/kfi_library" --gtest_brief=1 --gtest_filter=Lists.MessagesOfAllSizesShareBuffers || status=1
exit $status
