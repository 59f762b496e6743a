#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# openings.sh ROOT: the first line is the licence (behind a "#!" line), and a comment with the purpose of the file
# follows. Markdown, pictures and test corpora have neither.
set -eu
. "$(dirname "$0")/sources.sh"
scan '(\.(h|c|cc|cmake|sh|awk|py|css|list|map|in|suppr|1)|CMakeLists\.txt|\.ci/run)$' '
  FNR == 1 {
    at = 1
    mark = FILENAME ~ /\.(h|c|cc|css)$/ ? "^(//|/[*]| [*])" : FILENAME ~ /\.1$/ ? "^[.]\\\\\"" : "^(#|;|/[*]| [*])"
    if (/^#!/) { at = 2; next }
  }
  FNR == at && !($0 ~ (mark " SPDX-License-Identifier: BSD-2-Clause( [*]/)?$")) {
    printf "%s\t%d\tdoes not open with \"SPDX-License-Identifier: BSD-2-Clause\"\n", FILENAME, FNR
  }
  # One line of the comment may be empty. Man pages state their purpose by themselves.
  FNR == at + 1 && $0 ~ (mark "$") { at++; next }
  FNR == at + 1 && FILENAME !~ /\.1$/ && !($0 ~ (mark " .*[a-z]")) && !/^"""[A-Z]/ {
    printf "%s\t%d\tdoes not say behind the licence what it is for\n", FILENAME, FNR
  }' | judge openings
