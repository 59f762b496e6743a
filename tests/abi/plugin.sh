#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# plugin.sh PLUGIN: a provider plug-in shows fi_prov_ini and nothing else, and needs of libfabric only what its first
# release had, so that every libfabric.so.1 can load it; fi_provider(3).
set -eu
plugin=$1
shown=$(nm -D --defined-only "$plugin" | awk '{ print $NF }')
[ "$shown" = fi_prov_ini ] || { echo "it shows:" $shown; exit 1; }
# Which library a symbol comes from does not show, but libfabric's begin with fi_ and have a version.
needed=$(nm -D --undefined-only "$plugin" | awk '$NF ~ /^fi_|@FABRIC/ { print $NF }')
for symbol in $needed; do
  case $symbol in
    *@FABRIC_1.0) ;;
    *) echo "it needs $symbol"; exit 1 ;;
  esac
done
[ -n "$needed" ] || { echo "it needs nothing of libfabric, not even fi_log: is it the plug-in?"; exit 1; }
echo "$plugin shows fi_prov_ini and needs" $needed
