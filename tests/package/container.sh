#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# container.sh SOURCE WORK_FOLDER: carries out cmake/packaging/Dockerfile with a folder for each FROM, and without Docker.
# It knows FROM debian:12 [AS name], COPY [--from=name] SOURCE TARGET and RUN, one a line. Needs root and the network.
set -eu
source=$(cd "$1" && pwd) work=$2
. "$(dirname "$0")/root_folder.sh"
stage=0
grep -v '^#' "$source/cmake/packaging/Dockerfile" >"$work.instructions"
while read -r instruction rest; do
  echo "$instruction $rest"
  # shellcheck disable=SC2086 # words of the instruction
  set -- $rest
  case "$instruction $rest" in
    "FROM debian:12"*)
      stage=$((stage + 1))
      fresh_root "$work" "${3:-$stage}"
      ;;
    "COPY . "*)
      mkdir -p "$root$2"
      tar -C "$source" --exclude=./build* --exclude=./.git -cf - . | tar -C "$root$2" -xf -
      ;;
    "COPY --from="*)
      mkdir -p "$root$3"
      # shellcheck disable=SC2086 # the pattern stands for files
      (cd "$work/${1#--from=}" && cp .$2 "$root$3")
      ;;
    "RUN "*) inside "$rest" >"$work.output" 2>&1 </dev/null || { tail -n 20 "$work.output"; echo "FAIL: $rest"; exit 1; } ;;
    *) echo "FAIL: unknown instruction"; exit 1 ;;
  esac
done <"$work.instructions"
grep -m 1 'provider: tcp' "$work.output" || { echo "FAIL: fi_info shows no tcp"; exit 1; }
