#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# parameters.sh FI_INFO FOLDER MAN PAGE...: the parameters of each provider, as FI_INFO -e lists them with their defaults,
# are exactly those in the table of FOLDER/PAGE.md and in the list of MAN/fi_PAGE.7. FI_PROVIDER_PATH has the plug-ins.
set -eu
fi_info=$1
folder=$2
man=$3
shift 3
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
"$fi_info" -e >"$here/list"
for page in "$@"; do
  prefix=FI_$(echo "$page" | sed 's/rxm/ofi_rxm/' | tr a-z A-Z)_
  # "# FI_TCP_BACKLOG: Integer" and "# Connection requests ... (default: 4096)"
  sed -n "/^# $prefix/{s/^# //;s/:.*//;N;s/\n.*(default: \(.*\))\$/ = \1/;p}" "$here/list" | sort >"$here/defined"
  # "| `FI_TCP_TX_SIZE`, `FI_TCP_RX_SIZE` | 256 | operations ..."
  awk -F' *[|] *' -v row="^[|] .$prefix" '$0 ~ row {
    gsub("`", "", $2)
    for (i = split($2, names, ", *"); i > 0; --i) print names[i] " = " $3
  }' "$folder/$page.md" | sort >"$here/documented"
  [ -s "$here/defined" ] || { echo "no parameter begins with $prefix"; exit 1; }
  # ".It Ev FI_TCP_TX_SIZE , FI_TCP_RX_SIZE Pq 256"
  awk -v row="^[.]It Ev $prefix" '$0 ~ row {
    names = value = $0
    sub(/^.It Ev /, "", names)
    sub(/ Pq .*/, "", names)
    sub(/.* Pq /, "", value)
    for (i = split(names, list, " *, *"); i > 0; --i) print list[i] " = " value
  }' "$man/fi_$page.7" | sort >"$here/listed"
  diff -u "$here/defined" "$here/listed" || { echo "fi_$page.7 differs from the parameters of $page"; exit 1; }
  diff -u "$here/defined" "$here/documented" || { echo "$folder/$page.md differs from the parameters of $page"; exit 1; }
done
