#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# browser.sh SOURCE WORK_FOLDER [AXE_SCRIPT]: builds the site and opens each page in headless Chromium; see browser.py.
set -eu
skip() { echo "SKIP: $1"; exit 77; }
command -v sphinx-build >/dev/null || skip "Sphinx is not installed (sh cmake/install-dependencies.sh site)"
command -v chromium >/dev/null || skip "Chromium is not installed (package chromium)"
here=$(cd "$(dirname "$0")" && pwd)
sh "$1/docs/site/build.sh" "$1" "$2"
python3 "$here/browser.py" "$2/html" ${3:+"$3"}
