# SPDX-License-Identifier: BSD-2-Clause
# Finds functions by their braces: a `{` opens one when what stands before it, back to the last `;`, `{` or `}`, has a
# parameter list and is neither a type, a namespace, nor an initialiser. Braces inside a function do not count.
# Prints "path<TAB>lines<TAB>sentence" for those above 70 lines.

FNR == 1 { depth = inside = 0; head = ""; head_line = 0 }

{
  while (match(line, /[{};]/)) {
    mark = substr(line, RSTART, 1)
    add(substr(line, 1, RSTART - 1))
    line = substr(line, RSTART + 1)
    if (mark == "{") {
      depth++
      if (!inside && is_function(head)) { inside = depth; start = head_line; name = name_of(head); opening = head }
    } else if (mark == "}") {
      closed = inside && depth == inside
      if (closed) {
        lines = FNR - start + 1
        if (lines > 70) printf "%s\t%d\t%s: a function has at most 70 lines\n", FILENAME, lines, name
        inside = 0
      }
      if (depth > 0) depth--
      # `member_{value}` of a constructor: its body is still to come.
      if (closed && line ~ /^ *[,{]/) { head = opening; head_line = start; continue }
    }
    head = ""
  }
  add(line)
}

function add(text) {
  if (head == "" && text ~ /[^ \t]/) head_line = FNR
  if (head != "" || text ~ /[^ \t]/) head = head " " text
}

function is_function(text) {
  if (text !~ /\(/) return 0
  gsub(/template *<[^<>]*(<[^<>]*>)*[^<>]*>/, "", text)
  if (text ~ /^ *((inline )?namespace|class|struct|union|enum|extern "")/ &&
      text !~ /\) *((const|noexcept|override|final) *)*(->[^)]*)?$/)
    return 0
  if (text ~ /(^|[^=!<>])=([^=]|$)/ && text !~ /operator *[^(]*=/ && text !~ /\([^()]*=[^()]*\)/) return 0
  return 1
}

function name_of(text) {
  sub(/\(.*/, "", text)
  gsub(/^.*[ *&]/, "", text)
  return text
}
