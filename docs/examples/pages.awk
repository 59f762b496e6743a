# SPDX-License-Identifier: BSD-2-Clause
# The declarations of headers or of manual pages, one a line, in one spelling.
# awk -v want=names -f pages.awk HEADER...       names of functions, macros with arguments, structures, enumerations
# awk -v want=calls -f pages.awk FILE...         prototypes, of headers or of the synopses of pages
# awk -v want=structures -f pages.awk FILE...    structures with their members
function spell(text) {
  gsub(/__extension__/, "", text)
  gsub(/[ \t\n]+/, " ", text)
  gsub(/ *\* */, "*", text)
  gsub(/ *[(] */, "(", text)
  gsub(/ *[)] */, ")", text)
  gsub(/ *, */, ",", text)
  gsub(/ *; */, ";", text)
  sub(/^ /, "", text)
  sub(/ $/, "", text)
  return text
}
function last_word(text) {
  sub(/[(].*/, "", text)
  sub(/.*[ *]/, "", text)
  return text
}
FNR == 1 { page = FILENAME ~ /\.[0-9]$/; inside = call = 0 }
!page { sub(/\/\/.*/, "") }
page && /^\.Ft / { type = $0; sub(/^\.Ft "?/, "", type); sub(/"$/, "", type) }
page && /^\.Fo / { prototype = type " " $2 "("; comma = "" }
page && /^\.Fa "/ && prototype {
  argument = $0
  sub(/^\.Fa "/, "", argument)
  sub(/"$/, "", argument)
  prototype = prototype comma argument
  comma = ","
}
page && /^\.Fc/ { if (want == "calls") print spell(prototype ")"); prototype = "" }
# A call of a header begins in the first column and ends with its body or a semicolon.
!page && !inside && !call && /^(static inline |FI_XPU_CALL )?[a-z][a-z0-9_ ]*[ *]+fi_[a-z0-9_]+[(]/ {
  call = 1
  text = ""
}
!page && /^#define [A-Za-z0-9_]+[(]/ && want == "names" { name = $2; sub(/[(].*/, "", name); print name }
call {
  text = text " " $0
  if (text ~ /[{;]/) {
    sub(/[{;].*/, "", text)
    sub(/^ *(static inline|FI_XPU_CALL) /, "", text)
    sub(/FI_FORMAT_PRINTF[(][^)]*[)]/, "", text)
    text = spell(text)
    if (want == "calls") print text
    if (want == "names") print last_word(text)
    call = 0
    next
  }
}
/^(struct|enum) [a-z0-9_]+ [{]/ && !call { inside = 1; kind = $1; text = ""; if (want == "names" && !page) print $2 }
inside {
  if ($0 !~ /^#/) text = text " " $0
  if (/^[}];/) {
    if (want == "structures" && kind == "struct") print spell(text)
    inside = 0
  }
}
