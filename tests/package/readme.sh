#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# readme.sh SOURCE WORK_FOLDER: the commands of README.md and of the page on packages, line by line, in a fresh Debian 12
# with a copy of the source: the blocks that begin with ```sh. Left out are tests/run.sh, which is the test itself, and
# docker, for which container.sh carries out the Dockerfile. Needs root and the network.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$1" && pwd) work=$2
. "$here/root_folder.sh"
fresh_root "$work" readme
mkdir "$root/source"
tar -C "$source" --exclude='./build*' --exclude=./.git -cf - . | tar -C "$root/source" -xf -
for page in README.md docs/packages.md; do
  awk '/^```sh$/ { inside = 1; next } /^```/ { inside = 0 } inside' "$source/$page"
done | grep -v '^docker\|^sh tests/run.sh' | sed 's,your-program,build/demo/src/tools/fi_info -p tcp,; s,apt install,apt install -y,' \
  >"$root/source/commands"
cat "$root/source/commands"
count=0
while read -r line; do
  count=$((count + 1))
  printf '%s\n' "$line" >"$root/source/line"
  inside 'cd /source && sh -e line' >"$work/readme.log" 2>&1 </dev/null ||
    { tail -n 30 "$work/readme.log"; echo "FAIL: $line"; exit 1; }
done <"$root/source/commands"
[ "$count" -ge 8 ] || { echo "FAIL: only $count commands"; exit 1; }
inside 'cd /source && test -x a.out && test -e build/docs/site/html/index.html && fi_info -p tcp' >"$work/readme.log" ||
  { echo "FAIL: a program, the site or the package is not there"; exit 1; }
echo "$count commands run"
