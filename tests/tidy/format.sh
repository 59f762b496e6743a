#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# format.sh ROOT: C and C++ have the layout of .clang-format. The layout differs between releases of the tool, so that
# only Debian 12's (14) judges.
set -eu
. "$(dirname "$0")/sources.sh"
tool=$(command -v clang-format-14 || command -v clang-format) || skip "clang-format is not installed"
"$tool" --version | grep -q 'version 14\.' || skip "clang-format is not version 14: $("$tool" --version)"
cd "$root"
# Each file that would change, once, at its first difference.
list "$cpp" | xargs "$tool" --dry-run 2>&1 | awk -F: '
  /warning: code should be clang-formatted/ && !seen[$1]++ { printf "%s\t%d\tis not as .clang-format says\n", $1, $2 }' |
  judge format
