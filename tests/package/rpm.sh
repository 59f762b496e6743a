#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# rpm.sh SOURCE WORK_FOLDER: the spec file makes packages, as far as a Debian system can: dependencies of the build are not
# checked. rpmlint finds no errors in it, and its version is that of the project.
set -eu
source=$(cd "$1" && pwd) work=$2
command -v rpmbuild >/dev/null || { echo "SKIP: rpmbuild is not installed"; exit 77; }
rm -rf "$work"
mkdir -p "$work/source"
work=$(cd "$work" && pwd)
version=$(sed -n 's/^project(weft VERSION \([0-9.]*\).*/\1/p' "$source/CMakeLists.txt")
grep -qx "Version: *$version" "$source/cmake/packaging/weft.spec" || { echo "FAIL: the spec file is not of $version"; exit 1; }
rpmlint "$source/cmake/packaging/weft.spec" | grep -v 'mklibname' >"$work/rpmlint" || :  # a rule of another distribution
grep ': E:' "$work/rpmlint" && { echo 'FAIL: rpmlint'; exit 1; }
tar -C "$source" --exclude='./build*' --exclude=./.git -cf - . | tar -C "$work/source" -xf -
cd "$work/source"
nothing='%{nil}'  # rpmbuild takes no empty macro
# Macros that distributions with RPM define; no packages of debug symbols.
rpmbuild -bb --build-in-place --nodeps --define "_topdir $work" --define "_smp_mflags -j${JOBS:-$(nproc)}" \
  --define "debug_package %{nil}" --define "_libdir /usr/lib64" --define "weft_cmake_options ${RPM_CMAKE_OPTIONS:-$nothing}" \
  cmake/packaging/weft.spec >"$work/log" 2>&1 || { tail -n 20 "$work/log"; exit 1; }
cd "$work/RPMS"
[ "$(find . -name '*.rpm' | wc -l)" -eq 4 ] || { echo "FAIL: not four packages"; find . -name '*.rpm'; exit 1; }
for package in */*.rpm; do
  echo "$package"
  rpm -qp --requires --provides --nosignature "$package" | grep -i 'fabric' | sort -u | sed 's/^/  /' | head -n 5
done
