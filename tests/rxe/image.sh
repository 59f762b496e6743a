#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# image.sh: prints the folder of a bootable image (vmlinux, initramfs), and makes it first where it is missing or older
# than the kernel package. The kernel is Debian's: downloaded and unpacked into the cache, never installed. The initramfs
# holds busybox, the modules that Soft-RoCE needs and guest-init. Debian builds no module of software iWARP (siw): it is
# compiled, against that kernel's headers, where RXE_DRIVER requests it.
#
# Environment: RXE_CACHE (default ~/.cache/rxe-lab), RXE_KERNEL (a linux-image package; default: what linux-image-amd64
# stands for), RXE_DRIVER (rxe, siw). Needs apt-get, dpkg, cpio, kmod, busybox (static), xz, and for siw make and gcc-12;
# a missing one is named and the status is 77.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cache=${RXE_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/rxe-lab}
PATH=$PATH:/usr/sbin:/sbin
# The modules that the lab uses itself; modprobe adds their dependencies. crc32_generic is not one of them, yet rxe
# requests it by name.
modules="virtio_pci virtio_net virtio_console 9p 9pnet_virtio overlay veth sch_netem crc32_generic crc32_pclmul
  ib_uverbs ib_umad rdma_cm rdma_ucm rdma_rxe"

driver=${RXE_DRIVER:-rxe} compilers=
[ "$driver" != siw ] || compilers="make gcc-12" modules="$modules libcrc32c"

skip() { echo "$*" >&2; exit 77; }
for program in apt-get apt-cache dpkg cpio modprobe depmod busybox xz flock $compilers; do
  command -v $program >/dev/null || skip "$program is missing (sh cmake/install-dependencies.sh test)"
done
busybox=$(command -v busybox)
mkdir -p "$cache" 2>/dev/null || skip "the cache $cache cannot be written (set RXE_CACHE)"

kernel=${RXE_KERNEL:-$(apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-.*\)/\1/p')}
version=$(apt-cache show "$kernel" 2>/dev/null | sed -n 's/^Version: //p' | head -n 1)
recipe=$(cat "$here/image.sh" "$here/guest-init" | cksum | cut -d ' ' -f 1)
image=$cache/image-$driver-$kernel-$version-$recipe
if [ -z "$version" ]; then  # no package lists (offline): any image of this recipe will do
  image=$(find "$cache" -maxdepth 1 -name "image-$driver-*-$recipe" | sort | tail -n 1)
  [ -n "$image" ] || skip "apt knows no package linux-image-amd64 (apt-get update)"
fi

# unpack_kernel VMLINUZ VMLINUX: Debian compresses the kernel with xz, which takes an emulated processor seconds.
unpack_kernel() {
  magic=$(printf '\3757zXZ')
  offset=$(LC_ALL=C grep -abo -m 1 "$magic" "$1" | head -n 1 | cut -d : -f 1)
  [ -n "$offset" ] && tail -c +$((offset + 1)) "$1" | xz -dc --single-stream >"$2" 2>/dev/null || :
  [ "$(head -c 4 "$2" 2>/dev/null | tail -c 3)" = ELF ] || cp "$1" "$2"
}

fetch_kernel() {
  package=$cache/$kernel-$version
  [ ! -d "$package" ] || return 0
  mkdir "$scratch/package"
  download "$kernel"
  dpkg -x "$scratch"/download/*.deb "$scratch/package"
  mv "$scratch/package" "$package"
}

# download PACKAGE...: into $scratch/download, in the kernel's version, else in the newest one. While Debian publishes a
# kernel, the archive has tools of the new version only.
download() {
  echo "rxe: downloading $* $version" >&2
  rm -rf "$scratch/download"
  mkdir "$scratch/download"
  for wanted in "$@"; do
    (cd "$scratch/download" && { apt-get -q download "$wanted=$version" || apt-get -q download "$wanted"; }) \
      >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; skip "$wanted $version cannot be downloaded (apt-get update)"; }
  done
}

# compile_siw: $package/siw.ko. The headers name folders of /usr/src and /usr/lib, where they are not installed.
compile_siw() {
  [ ! -e "$package/siw.ko" ] || return 0
  series=$(echo "$release" | cut -d . -f 1,2)
  headers=linux-headers-$release
  download "$headers" "${headers%-amd64}-common" "linux-kbuild-$series" linux-compiler-gcc-12-x86 "linux-source-$series"
  for file in "$scratch"/download/linux-[!s]*.deb; do dpkg -x "$file" "$scratch/headers"; done
  sed -i "s|/usr/src|$scratch/headers&|" "$scratch/headers/usr/src/$headers/Makefile"
  folder=linux-source-$series/drivers/infiniband/sw/siw
  dpkg --fsys-tarfile "$scratch"/download/linux-source-*.deb | tar -xO "./usr/src/linux-source-$series.tar.xz" |
    tar -xJ -C "$scratch" "$folder"
  make -s -C "$scratch/headers/usr/src/$headers" "M=$scratch/$folder" CONFIG_RDMA_SIW=m modules >"$scratch/log" 2>&1 ||
    { cat "$scratch/log" >&2; skip "siw does not compile against $headers"; }
  strip --strip-debug -o "$scratch/siw.ko" "$scratch/$folder/siw.ko"
  mv "$scratch/siw.ko" "$package/siw.ko"
}

make_image() {
  release=$(basename "$package"/lib/modules/*)
  [ -e "$package/lib/modules/$release/modules.dep.bin" ] || depmod -b "$package" "$release"
  root=$scratch/root
  mkdir -p "$root/bin" "$root/modules" "$root/dev" "$scratch/image"
  cp "$busybox" "$root/bin/busybox"
  cp "$here/guest-init" "$root/init"
  chmod 755 "$root/init" "$root/bin/busybox"
  [ "$driver" != siw ] || compile_siw
  for module in $modules; do
    modprobe -d "$package" -S "$release" --show-depends $module 2>/dev/null | awk '$1 == "insmod" { print $2 }'
  done | awk '!seen[$0]++' >"$scratch/modules"
  while read -r module; do
    cp "$module" "$root/modules/"
    basename "$module" >>"$root/modules/order"
  done <"$scratch/modules"
  if [ "$driver" = siw ]; then
    cp "$package/siw.ko" "$root/modules/"
    echo siw.ko >>"$root/modules/order"
  fi
  (cd "$root" && find . | cpio -o -H newc --quiet -R 0:0) >"$scratch/image/initramfs"
  unpack_kernel "$package/boot/vmlinuz-$release" "$scratch/image/vmlinux"
  rm -rf "$image"
  mv "$scratch/image" "$image"
}

if [ ! -d "$image" ]; then
  exec 9>"$cache/lock"
  flock 9  # other runs that need the same image wait here and then find it
  if [ ! -d "$image" ]; then
    scratch=$(mktemp -d "$cache/new.XXXXXX")
    trap 'rm -rf "$scratch"' EXIT
    fetch_kernel
    make_image
  fi
fi
echo "$image"
