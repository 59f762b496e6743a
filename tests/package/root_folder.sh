# SPDX-License-Identifier: BSD-2-Clause
# Sourced: fresh Debian systems in folders, and commands inside them. SUITE: the release (default: bookworm, Debian 12).
# shellcheck disable=SC2034 # used by the sourcing scripts

skip() {
  echo "SKIP: $1"
  exit 77
}

# fresh_root WORK NAME: sets `root` to the folder of a new minimal system. A first system in WORK is copied for each.
fresh_root() {
  [ "$(id -u)" -eq 0 ] || skip "not root"
  command -v debootstrap >/dev/null || skip "debootstrap is not installed"
  mkdir -p "$1"
  base=$1/base
  root=$1/$2
  if [ ! -e "$base/complete" ]; then
    rm -rf "$base"
    debootstrap --variant=minbase "${SUITE:-bookworm}" "$base" >"$1/debootstrap.log" 2>&1 || { tail "$1/debootstrap.log"; exit 1; }
    touch "$base/complete"
  fi
  rm -rf "$root"
  cp -a "$base" "$root"
  cp -L /etc/resolv.conf "$root/etc/resolv.conf"
  in_root apt-get update -qq
}

# in_root COMMAND...: as root of the folder, with processes, devices and mounts of its own.
in_root() {
  unshare --mount --pid --ipc --fork sh -ec '
    root=$1
    shift
    mount -t proc proc "$root/proc"
    mount -t sysfs -o ro sysfs "$root/sys"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs tmpfs "$root/dev/shm"
    exec chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/ DEBIAN_FRONTEND=noninteractive "$@"' \
    sh "$root" "$@"
}
inside() { in_root sh -c "$1"; }

# install PACKAGE...: names of Debian's, or files with paths below the root.
install() {
  (cd "$root" && echo "$@") >"$root/tmp/wanted"
  inside "cd / && apt-get install -y -q --no-install-recommends $(cat "$root/tmp/wanted")" >"$root/tmp/apt.log" 2>&1 || {
    tail -n 20 "$root/tmp/apt.log"
    echo "FAIL: apt-get install $*"
    exit 1
  }
}
