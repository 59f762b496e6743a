#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# names.sh ROOT: the top level has the entries of docs/architecture.md only, files are nouns of the field in snake_case,
# and none is a collection of everything.
set -eu
. "$(dirname "$0")/sources.sh"
list . | awk '
  {
    top = $0
    sub(/\/.*/, "", top)
    # Dot-files and dot-folders are allowed; all other files belong below one of these.
    if (top !~ /^(CMakeLists\.txt|include|src|prov|tests|docs|cmake|LICENSE|README\.md|\..*)$/ && !seen[top]++)
      printf "%s\t1\tdoes not belong to the top level\n", $0
    base = $0
    sub(/.*\//, "", base)
    stem = base
    sub(/\..*/, "", stem)
    if (("_" tolower(stem) "_") ~ /[_-](utils?|utilities|common|misc|helpers?|impl)[_-]/)
      printf "%s\t1\tsays nothing about its contents; name it after what it holds\n", $0
    if (base ~ /\.(cpp|cxx|hpp|hh|C)$/) printf "%s\t1\tsources end in .cc and .h, or .c\n", $0
    if (base ~ /\.(h|c|cc)$/ && base !~ /^[a-z][a-z0-9_.]*$/) printf "%s\t1\tis not snake_case\n", $0
    if (base ~ /\.btr$|~$|\.(orig|rej|o|so|a)$/) printf "%s\t1\tis litter\n", $0
  }' | judge names
