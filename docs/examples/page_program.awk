# SPDX-License-Identifier: BSD-2-Clause
# awk -f page_program.awk PAGE: the example of a manual page as a C program. The comment .\" Example: NAME of the page
# names the objects that exist around it: "alone" none, else those of page_objects_NAME.c. A block with a main() of its own
# is a program already.
# awk -v output=1 -f page_program.awk PAGE: the lines that the page says it prints, which are its second block.
/^\.\\" Example: / { objects = $3 }
/^\.Sh / { examples = $2 == "EXAMPLES" }
examples && /^\.Bd -literal/ { blocks++; inside = 1; next }
/^\.Ed/ { inside = 0 }
inside {
  gsub(/\\&/, "")
  gsub(/\\-/, "-")
  gsub(/\\\(aq/, "'")
  gsub(/\\\(ti/, "~")
  gsub(/\\\(ha/, "^")
  gsub(/\\e/, "\\")
  text[blocks] = text[blocks] $0 "\n"
}
END {
  if (output) printf "%s", text[2]
  else if (text[1] ~ /int main\(/) printf "%s", text[1]
  else if (text[1] == "") { print "#error the page has no example"; exit 1 }
  else {
    print "#include \"page" (objects == "alone" ? "" : "_objects") ".h\""
    print "int main(void) {"
    if (objects != "alone") print "open_objects();"
    print "{\n" text[1] "}"
    if (objects != "alone") print "close_objects();"
    print "return 0;\n}"
  }
}
