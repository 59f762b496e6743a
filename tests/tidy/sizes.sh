#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# sizes.sh ROOT: no source file above 600 lines. Data files (*.list, corpora, generated text) are not source.
set -eu
. "$(dirname "$0")/sources.sh"
scan '(\.(h|c|cc|cmake|sh|awk|in|md)|CMakeLists\.txt)$' '
  FNR == 1 && NR != 1 { report() }
  { path = FILENAME; lines = FNR }
  END { report() }
  function report() { if (lines > 600) printf "%s\t%d\ta file has at most 600 lines\n", path, lines }' | judge sizes
