# SPDX-License-Identifier: BSD-2-Clause
# Shared by all rules of this folder: the list of files, and the treatment of violations. A rule is a script RULE.sh
# ROOT [ARGUMENT...] that sources this and ends with `findings | judge RULE`, where findings are lines
# "path<TAB>measure<TAB>sentence"; the measure is a size for rules that limit one, otherwise a line number.

root=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)

# list REGEX: the files of ROOT whose path matches, tracked ones and new ones that git does not ignore.
list() {
  if [ -e "$root/.git" ] && git -c safe.directory='*' -C "$root" rev-parse 2>/dev/null; then
    git -c safe.directory='*' -C "$root" ls-files --cached --others --exclude-standard
  else
    (cd "$root" && find . -type f ! -path './.git/*' ! -path './build*' | sed 's|^\./||')
  fi | LC_ALL=C sort -u | grep -E "$1" | while IFS= read -r path; do
    if [ -f "$root/$path" ]; then echo "$path"; fi
  done
}

# scan REGEX AWK_ARGUMENT...: one awk run over all matching files, in ROOT, so that FILENAME is the path.
scan() {
  pattern=$1
  shift
  files=$(list "$pattern")
  [ -n "$files" ] || return 0
  (cd "$root" && echo "$files" | xargs awk "$@") || printf 'scan\t0\tthe rule itself failed\n'
}

# judge RULE: prints the findings that exceptions.list does not cover, and the exceptions that are not needed. Fails if
# anything is printed.
judge() {
  awk -v rule="$1" -f "$here/judge.awk" "$here/exceptions.list" -
}

skip() {
  echo "SKIP: $1"
  exit 77
}

cpp='\.(h|c|cc)$'
