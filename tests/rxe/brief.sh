#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# brief.sh PROGRAM [OPTION...]: runs a GoogleTest program and ends with its status. Of its output only failures and the
# sums remain: hundreds of lines about skipped tests hide the failure where a report shows the beginning of a log.
set -u
status=$(mktemp)
trap 'rm -f "$status"' EXIT
{ "$@" --gtest_brief=1 2>&1; echo $? >"$status"; } |
  awk '/: Skipped$/ { reason = 1; next } reason { reason = 0; next } /^\[ *SKIPPED *\] .*\./ { next } { print; fflush() }'
exit "$(cat "$status")"
