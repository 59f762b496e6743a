#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# reproducible.sh SOURCE PACKAGES WORK_FOLDER [CMAKE_ARGUMENT...]: cmake/package.sh in a copy of the source in another
# folder gives packages with the bytes of those in PACKAGES.
set -eu
source=$(cd "$1" && pwd) packages=$(cd "$2" && pwd) work=$3
shift 3
rm -rf "$work"
mkdir -p "$work/copy/elsewhere"
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$source" log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
tar -C "$source" --exclude='./build*' --exclude=./.git -cf - . | tar -C "$work/copy/elsewhere" -xf -
BUILD="$work/other" sh "$work/copy/elsewhere/cmake/package.sh" "$@" >"$work/log" 2>&1 || { tail -n 20 "$work/log"; exit 1; }
status=0
for package in "$work"/other/*.deb; do
  cmp "$package" "$packages/$(basename "$package")" || status=1
done
[ $status -ne 0 ] || (cd "$work/other" && sha256sum -- *.deb)
exit $status
