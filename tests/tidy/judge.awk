# SPDX-License-Identifier: BSD-2-Clause
# Reads exceptions.list, then findings ("path<TAB>measure<TAB>sentence"). An exception covers its rule and path, up to
# its limit if it names one. An exception that covers nothing, or much more than needed, is itself a violation: the list
# may only shrink.
BEGIN { FS = "\t" }

FILENAME != "-" {
  split($0, word, " ")
  if (word[1] != rule) next
  limit[word[2]] = word[3] ~ /^[0-9]+$/ ? word[3] : -1
  next
}

{
  path = $1
  if (path in limit && (limit[path] < 0 || $2 <= limit[path])) {
    used[path] = 1
    if ($2 > largest[path]) largest[path] = $2
    next
  }
  printf "%s:%s: %s\n", path, $2, $3
  bad++
}

END {
  for (path in limit) {
    if (!(path in used)) {
      printf "exceptions.list: %s %s: not needed any more, remove the line\n", rule, path
      bad++
    } else if (limit[path] > largest[path] * 1.1) {
      printf "exceptions.list: %s %s: the limit is %d, %d would do\n", rule, path, limit[path], largest[path]
      bad++
    }
  }
  if (bad) { printf "%d violations\n", bad; exit 1 }
  print rule ": nothing to object to"
}
