# SPDX-License-Identifier: BSD-2-Clause
# Reads lines "both|stock|weft KIND NAME" and writes the C program that prints each fact as "KIND NAME = VALUE": a
# structure's size, a member's offset and size, a constant's value. What only one library's headers define is compiled
# only against that library (-DWEFT=0 or 1).

function fact(kind, name,    part) {
  if (kind == "size") return "SIZE(" name ");"
  if (kind == "const") return "CONST(" name ");"
  split(name, part, "\\.")
  if (name == "fi_eq_cm_entry.data") return "FLEXIBLE(" part[1] ", " part[2] ");"
  return "MEMBER(" part[1] ", " part[2] ");"
}

BEGIN {
  print "#include <stdio.h>"
  print "#include \"all_headers.h\""
  print "static void number(const char *name, long long value) { printf(\"const %s = %#llx\\n\", name, value); }"
  print "static void text(const char *name, const char *value) { printf(\"const %s = %s\\n\", name, value); }"
  print "#define CONST(name) _Generic((name), char *: text, const char *: text, default: number)(#name, name)"
  print "#define SIZE(s) printf(\"size %s = %zu\\n\", #s, sizeof(struct s))"
  print "#define FLEXIBLE(s, m) printf(\"member %s.%s = %zu, flexible\\n\", #s, #m, offsetof(struct s, m))"
  print "#define MEMBER(s, m) \\"
  print "  printf(\"member %s.%s = %zu, %zu bytes\\n\", #s, #m, offsetof(struct s, m), sizeof(((struct s *)0)->m))"
  print "int main(void) {"
}
$1 == "both" { print fact($2, $3); next }
{ print "#if WEFT == " ($1 == "weft"); print fact($2, $3); print "#endif" }
END { print "return 0;\n}" }
