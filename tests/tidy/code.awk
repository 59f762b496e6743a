# SPDX-License-Identifier: BSD-2-Clause
# Runs before functions.awk and classes.awk, which count braces: leaves `line`, the line of C++ without comments and the
# contents of literals, and skips lines of the preprocessor.

FNR == 1 { comment = continued = 0 }

{
  line = $0
  if (comment) {
    if (!index(line, "*/")) next
    sub(/^.*\*\//, "", line)
    comment = 0
  }
  # Character and string literals, then comments, may hold braces.
  gsub(/\\./, "", line)
  gsub(/"[^"]*"/, "\"\"", line)
  gsub(/'[^']*'/, "0", line)
  sub(/\/\/.*/, "", line)
  gsub(/\/\*[^*]*\*\//, "", line)
  if (match(line, /\/\*/)) { line = substr(line, 1, RSTART - 1); comment = 1 }
  if (continued) { continued = line ~ /\\$/; next }
  if (line ~ /^[ \t]*#/) { continued = line ~ /\\$/; next }
}
