#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# prints.sh PROGRAM TEXT...: the program succeeds, and each line of its output contains the TEXT of the same number.
set -eu
program=$1
shift
said=$("$program")
echo "$said"
for text in "$@"; do
  line=${said%%
*}
  case $line in
    *"$text"*) ;;
    *) echo "\"$text\" was expected in \"$line\""; exit 1 ;;
  esac
  said=${said#"$line"}
  said=${said#?}
done
[ -z "$said" ] || { echo "nothing more was expected: $said"; exit 1; }
