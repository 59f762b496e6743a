#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# each.sh NAME COMMAND... [:and: NAME COMMAND...]...: in the lab, runs the commands one after the other. The status is 0
# unless one of them failed; 77, a skip, is no failure.
set -u
failures=0
while [ $# -gt 0 ]; do
  name=$1 last=1 command=
  while [ $last -lt $# ]; do
    eval "word=\${$((last + 1))}"
    [ "$word" != :and: ] || break
    last=$((last + 1))
    command="$command \"\${$last}\""
  done
  echo "---- $name"
  eval "$command"
  status=$?
  echo "---- $name: status $status"
  case $status in 0 | 77) ;; *) failures=$((failures + 1)) ;; esac
  [ $last -eq $# ] || last=$((last + 1))
  shift $last
done
exit $((failures > 0))
