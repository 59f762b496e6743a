# SPDX-License-Identifier: BSD-2-Clause
# Finds the classes of C++ files by their braces and counts what each declares: methods (constructors, destructors and
# defaulted functions included; methods that fill a slot of an ops table, named in `slots`, are not), and data members
# (static constants are not). Prints "path<TAB>class<TAB>methods<TAB>members". `slots`: names between blanks.

FNR == 1 { depth = 0; head = "" }

{
  while (match(line, /[{};]/)) {
    mark = substr(line, RSTART, 1)
    head = head " " substr(line, 1, RSTART - 1)
    line = substr(line, RSTART + 1)
    if (mark == "{") open_brace()
    else if (mark == "}") close_brace()
    else end_statement()
  }
  head = head " " line
}

# The statement without attributes, template arguments, access labels and default arguments of templates.
function plain(text) {
  gsub(/->/, " ", text)
  gsub(/\[\[[^\]]*\]\]/, "", text)
  gsub(/alignas *\([^()]*\)/, "", text)
  gsub(/(public|private|protected) *:/, "", text)
  gsub(/operator *(<=>|<<|>>|<=|>=|<|>|\(\))/, "operator", text)
  while (sub(/<[^<>]*>/, "", text)) continue
  sub(/^ *template */, "", text)
  gsub(/^ +| +$/, "", text)
  return text
}

function is_unbalanced(text,   opened) { opened = gsub(/\(/, "", text); return opened != gsub(/\)/, "", text) }

function in_class() { return depth > 0 && kind[depth] == "class" }

function open_brace(   text) {
  text = plain(head)
  depth++
  saved[depth] = ""
  if (text ~ /^(inline )?namespace/ || text ~ /^extern/) kind[depth] = "namespace"
  else if (text ~ /^(class|struct) / && text !~ /\)/ && text !~ /=/) {
    kind[depth] = "class"
    name[depth] = text
    sub(/^(class|struct) +/, "", name[depth])
    sub(/ *(final|:[^:]).*/, "", name[depth])
    methods[depth] = members[depth] = 0
  } else if (text ~ /^(enum|union)/) kind[depth] = "other"
  else if (depth > 1 && kind[depth - 1] == "class") {
    if (is_unbalanced(text)) { kind[depth] = "initializer"; saved[depth] = head }  # a default argument
    else if (text == "" || text ~ /^,/) kind[depth] = "body"  # the rest of a constructor
    else if (text ~ /\(/ && text !~ /^[^(]*[^=!]=[^=]/) { count_method(text, depth - 1); kind[depth] = "body" }
    else { kind[depth] = "initializer"; saved[depth] = head }
  } else kind[depth] = "other"
  head = ""
}

function close_brace() {
  if (kind[depth] == "class") printf "%s\t%s\t%d\t%d\n", FILENAME, name[depth], methods[depth], members[depth]
  head = kind[depth] == "initializer" ? saved[depth] : ""
  if (depth > 0) depth--
}

function count_method(text, at,   word) {
  word = text
  sub(/ *\(.*/, "", word)
  sub(/^.*[ *&]/, "", word)
  if (!index(slots, " " word " ")) methods[at]++
}

function end_statement(   text, declarators) {
  text = plain(head)
  head = ""
  if (!in_class() || text == "") return
  if (text ~ /^(using|typedef|friend|static_assert|enum|union|static constexpr|constexpr static|inline static constexpr)/ ) {
    if (text !~ /^static constexpr/ || text ~ /^[^(]*=/ || text !~ /\(/) return
  }
  if (text ~ /^(class|struct) [A-Za-z0-9_:]+$/) return
  if (text ~ /\( *\*/) { members[depth]++; return }
  if (text ~ /\(/ && text !~ /^[^(]*[^=!]=[^=]/) { count_method(text, depth); return }
  if (text ~ /operator/) { methods[depth]++; return }
  sub(/=.*/, "", text)
  declarators = gsub(/,/, ",", text) + 1
  members[depth] += declarators
}
