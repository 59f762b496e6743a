#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# language.sh ROOT [PATTERN]: the section "Language" of docs/style.md as far as patterns can check it: first words of
# comments, and phrases that plain English does not have. The measure is the number of places of a pattern; with PATTERN,
# the places themselves. Lines of Markdown end at column 120; the measure is their number in a file, tables of
# measurements excepted. A bracket in each phrase keeps this file from matching itself.
set -eu
. "$(dirname "$0")/sources.sh"
# Bytes that continue a character are no columns.
export LC_ALL=C
findings() {
  scan '(\.(h|c|cc|cmake|sh|awk|list|[137])$|CMakeLists\.txt$|^\.ci/run$|^tests/rxe/(lab|guest-)|^README\.md$|^docs/.*\.md$)' \
    -v places="${2:-}" '
    BEGIN {
      openings = " of who whose who" "ever what whatever it they those such "
      phrase["there-is-not"] = "[t]here (is|are) not[^a-z]"
      phrase["such-a-one"] = "[s]uch an? one"
      phrase["comes-about"] = "(come|comes|came) [a]bout"
      phrase["tells-of"] = "(tell|tells|told) [o]f"
      phrase["nobody-asks"] = "[n]obody (asks|asked|wants|hears|knows)"
      phrase["who" "ever"] = "[w]hoever"
    }
    function count(pattern) {
      found[pattern]++
      if (pattern == places) printf "%s\t%d\t%s\n", FILENAME, FNR, pattern
    }
    FNR == 1 { above = 0 }
    /SPDX-[L]icense/ || /^#!/ { next }
    FILENAME ~ /\.md$/ {
      text = $0
      gsub(/[\200-\277]/, "", text)
      if (length(text) > 120 && !(FILENAME ~ /^docs\/performance/ && text ~ /^\|/)) long[FILENAME]++
    }
    FILENAME !~ /^docs\/style\.md$/ {
      text = tolower($0)
      for (name in phrase) if (text ~ phrase[name]) count(name)
    }
    FILENAME !~ /\.(md|[137])$/ {
      mark = FILENAME ~ /\.(h|c|cc)$/ ? "//" : "#"
      text = $0
      full = text ~ "^[ \t]*" mark
      if (!full) gsub(/"[^"]*"/, "", text)
      opening = text
      sub("^[ \t]*" mark "+ *", "", opening)
      # The first line of a comment or of its paragraph, or a comment behind code.
      if (full ? !above : match(text, "[ \t]" mark " ")) {
        if (full) text = opening
        else text = substr(text, RSTART + length(mark) + 2)
        split(tolower(text), word, /[^a-z]+/)
        if (word[1] != "" && index(openings, " " word[1] " ")) count("opens-with-" word[1])
        if (word[1] == "the" && word[2] == "same") count("opens-with-the-same")
      }
      above = full && opening != ""
    }
    END {
      if (places != "") exit
      for (name in found) printf "%s\t%d\tplaces; see tests/tidy/language.sh ROOT %s\n", name, found[name], name
      for (file in long) printf "%s\t%d\tlines above 120 columns\n", file, long[file]
    }'
}
if [ $# -gt 1 ]; then findings "$@"; else findings "$@" | judge language; fi
