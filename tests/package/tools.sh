#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# tools.sh BUILD WORK_FOLDER: installed and moved tools, and libkfabric, run with the library and the plug-ins of their
# own installation, without LD_LIBRARY_PATH; that variable still selects another library.
set -eu
. "$(dirname "$0")/installed.sh"
unset LD_LIBRARY_PATH FI_PROVIDER_PATH || :
expected=$(readlink -f "$library")
for tool in bin/fi_info bin/fi_mcast bin/fi_pingpong bin/fi_strerror "$(cd "$prefix" && find . -name libkfabric.so.1)"; do
  found=$(ldd "$prefix/$tool" | sed -n 's/.*libfabric\.so\.1 => \([^ ]*\).*/\1/p')
  [ "$(readlink -f "$found")" = "$expected" ] || { echo "$tool takes ${found:-no library}, not $library"; exit 1; }
done
"$prefix/bin/fi_info" --version
"$prefix/bin/fi_strerror" -61 | grep -qx 'No data available' || { echo "fi_strerror does not run"; exit 1; }

# Another library that LD_LIBRARY_PATH names: a copy.
mkdir other
cp "$library" other/libfabric.so.1
LD_LIBRARY_PATH=$PWD/other ldd "$prefix/bin/fi_info" | grep -qF "$PWD/other/libfabric.so.1" ||
  { echo "LD_LIBRARY_PATH has no effect on fi_info"; exit 1; }

plugin=$(find "$prefix" -name libverbs-fi.so)
if [ -n "$plugin" ]; then
  FI_LOG_LEVEL=info "$prefix/bin/fi_info" -l >list 2>log
  sed -n 's/.*[( ]\(\/[^ ]*libverbs-fi\.so\).*/\1/p' log | while read -r file; do readlink -f "$file"; done |
    grep -qxF "$(readlink -f "$plugin")" || { cat log; echo "fi_info does not load $plugin"; exit 1; }
fi
