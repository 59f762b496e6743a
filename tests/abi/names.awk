# SPDX-License-Identifier: BSD-2-Clause
# Reads `readelf -wi` of an object that includes all public headers (compiled with -fno-eliminate-unused-debug-types) and
# prints what those headers define: "size STRUCT", "member STRUCT.MEMBER", "const ENUMERATOR". Members of an unnamed union
# count as members of the struct around it, as they do in C.

function value(line) { sub(/.*: +(\(.*\): )?/, "", line); sub(/[ \t]+$/, "", line); return line }

/^ *<[0-9a-f]+><[0-9a-f]+>: Abbrev Number/ {
  split($1, at, /[<>]/)
  depth = at[2]; die = at[4]; tag = $0
  sub(/.*\(/, "", tag); sub(/\).*/, "", tag)
  if (tag == "DW_TAG_structure_type" || tag == "DW_TAG_union_type") { owner[depth] = die; order[++count] = die }
  parent = owner[depth - 1]
  if (tag == "DW_TAG_member") { member = ++members[parent]; member_of = parent }
  next
}
/DW_AT_name/ {
  if (tag == "DW_TAG_structure_type") name[die] = value($0)
  else if (tag == "DW_TAG_member") member_name[member_of, member] = value($0)
  else if (tag == "DW_TAG_enumerator" && value($0) ~ /^[Ff][Ii]_/) print "const " value($0)
}
/DW_AT_type/ && tag == "DW_TAG_member" { type = $NF; gsub(/[<>]|0x/, "", type); member_type[member_of, member] = type }
/DW_AT_byte_size/ && (tag == "DW_TAG_structure_type") { complete[die] = 1 }

function list(die, structure,    i) {
  for (i = 1; i <= members[die]; i++)
    if ((die, i) in member_name) print "member " structure "." member_name[die, i]
    else list(member_type[die, i], structure)
}

END {
  for (i = 1; i <= count; i++) {
    die = order[i]
    if (complete[die] && name[die] ~ /^fid?(_|$)/) { print "size " name[die]; list(die, name[die]) }
  }
}
