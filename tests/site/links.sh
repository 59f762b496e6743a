#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# links.sh SOURCE WORK_FOLDER: builds the site without a warning, and checks its links without a browser. A dead link is
# found.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
sh "$1/docs/site/build.sh" "$1" "$2"
python3 "$here/links.py" "$2/html"
mkdir "$2/broken"
echo '<a href="no.html">nowhere</a>' >"$2/broken/index.html"
: >"$2/broken/searchindex.js"
if python3 "$here/links.py" "$2/broken" >"$2/broken.log"; then echo "FAIL: a dead link is not found"; exit 1; fi
grep -q 'no.html does not exist' "$2/broken.log"
