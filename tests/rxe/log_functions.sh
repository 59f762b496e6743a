# SPDX-License-Identifier: BSD-2-Clause
# Shared by the tests that run programs in the background: waiting for a line of a log, and for the end of a process. The
# script that sources it defines `wrong`, which reports a failure.

# until_log_has FILE PATTERN: waits for a line that matches, a minute at most.
until_log_has() {
  tries=0
  until grep -q "$2" "$1"; do
    tries=$((tries + 1))
    [ $tries -lt 600 ] || { wrong "$1 waits for \"$2\" in vain"; return; }
    sleep 0.1
  done
}

# until_end NAME PROCESS SECONDS: waits for the process, and kills it after that time.
until_end() {
  tries=0
  while kill -0 "$2" 2>/dev/null && [ "$(cut -d ' ' -f 3 "/proc/$2/stat")" != Z ]; do
    tries=$((tries + 1))
    [ $tries -lt $(($3 * 10)) ] || { wrong "$1 does not end"; kill -9 "$2"; break; }
    sleep 0.1
  done
}
