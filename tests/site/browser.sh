#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# browser.sh SOURCE WORK_FOLDER [AXE_SCRIPT]: builds the site and opens each page in headless Chromium; see browser.py.
set -eu
command -v chromium >/dev/null || { echo "SKIP: Chromium is not installed (package chromium)"; exit 77; }
here=$(cd "$(dirname "$0")" && pwd)
sh "$1/docs/site/build.sh" "$1" "$2"
python3 "$here/browser.py" "$2/html" ${3:+"$3"}
