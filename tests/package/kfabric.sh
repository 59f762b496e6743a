#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# kfabric.sh BUILD WORK_FOLDER CC CXX: programs in each language and generation find the installed libkfabric with
# pkg-config, and run with it; a kernel module's code does so with libkfabric-kernel.
set -eu
. "$(dirname "$0")/installed.sh"
programs=$here/../kfi
command -v pkg-config >/dev/null || skip 'pkg-config is not installed'
LD_LIBRARY_PATH=$(dirname "$library")
PKG_CONFIG_LIBDIR=$(dirname "$(find "$prefix" -name libkfabric.pc)")
export LD_LIBRARY_PATH PKG_CONFIG_LIBDIR
cat >spellings.c <<'END'
#include <kfi/kfi_cm.h>
#include <kfi_cm.h>
#include <kfi_eq.h>
#include <kfi/kfi_eq.h>
int main(void) { return kfi_version() == KFI_VERSION(1, 7) ? 0 : 1; }
END

# builds PACKAGE LANGUAGE SOURCE OPTION...
builds() {
  package=$1 language=$2 source=$3
  shift 3
  case $language in *++*) compiler="$cxx -x c++" ;; *) compiler=$cc ;; esac
  # shellcheck disable=SC2046,SC2086 # several words are meant
  $compiler -std="$language" -Wall -Wextra -Werror "$@" $(pkg-config --cflags "$package") "$source" -o program -x none \
    $(pkg-config --libs "$package")
}
for api in 0x10001 0x10007; do
  for language in c99 c11 c++17; do
    for source in spellings.c "$programs/data_program.c"; do
      builds libkfabric $language "$source" -D_POSIX_C_SOURCE=200809L -DKFI_API=$api
      timeout 60 ./program || { echo "FAIL: $source in $language as $api"; exit 1; }
    done
  done
done
for language in gnu99 gnu11 gnu++17; do
  builds libkfabric-kernel $language "$programs/kernel_module.c"
  timeout 60 ./program || { echo "FAIL: the module in $language"; exit 1; }
done
ldd ./program | grep -qF "$(dirname "$library")/libkfabric.so.1" || { ldd ./program; exit 1; }
