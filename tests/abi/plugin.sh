#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# plugin.sh PLUGIN: a provider plug-in exports only fi_prov_ini, and needs only symbols of libfabric's first release, so
# that every libfabric.so.1 can load it; fi_provider(3).
set -eu
plugin=$1
shown=$(nm -D --defined-only "$plugin" | awk '{ print $NF }')
[ "$shown" = fi_prov_ini ] || { echo "it exports:" $shown; exit 1; }
# nm does not name a symbol's library, but libfabric's symbols begin with fi_ and have a version.
needed=$(nm -D --undefined-only "$plugin" | awk '$NF ~ /^fi_|@FABRIC/ { print $NF }')
for symbol in $needed; do
  case $symbol in
    *@FABRIC_1.0) ;;
    *) echo "it needs $symbol"; exit 1 ;;
  esac
done
[ -n "$needed" ] || { echo "it needs nothing of libfabric, not even fi_log: is it the plug-in?"; exit 1; }
echo "$plugin exports fi_prov_ini and needs" $needed
