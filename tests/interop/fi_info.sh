#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# fi_info.sh LIBRARY_FOLDER: the distribution's unmodified fi_info on weft, with common options.
set -u
. "$(dirname "$0")/stock.sh"
need_program /usr/bin/fi_info
LD_LIBRARY_PATH=$1
export LD_LIBRARY_PATH

# expect PATTERN OPTION...: fi_info succeeds and prints a line that matches.
expect() {
  pattern=$1
  shift
  timeout 30 /usr/bin/fi_info "$@" >"$scratch/out" 2>&1 || { cat "$scratch/out"; fail "fi_info $* ended with $?"; }
  grep -Eq "$pattern" "$scratch/out" || { cat "$scratch/out"; fail "fi_info $* does not print $pattern"; }
}

# refuse OPTION...: fi_info finds nothing and reports that.
refuse() {
  if timeout 30 /usr/bin/fi_info "$@" >"$scratch/out" 2>&1; then fail "fi_info $* found something"; fi
}

expect 'provider: tcp'
expect '^libfabric: 2\.' --version
expect '^tcp:' --list
expect 'FI_EP_MSG' --provider tcp --ep_type FI_EP_MSG
expect 'fi_sockaddr_in://127.0.0.1' --verbose --provider tcp --ep_type FI_EP_MSG --node 127.0.0.1 --port 7471
expect 'fi_sockaddr_in6://\[::1\]' --verbose --provider tcp --ep_type FI_EP_MSG --addr_format FI_SOCKADDR_IN6
expect 'caps: .*FI_RMA' --verbose --provider tcp --ep_type FI_EP_MSG --caps 'FI_MSG|FI_RMA'
expect 'FI_LOG_LEVEL' --env
expect 'FI_PROVIDER' --getenv PROVIDER
refuse --provider no_such_provider
refuse --provider tcp --domain no_such_domain
FI_PROVIDER=^tcp refuse --provider tcp --ep_type FI_EP_MSG
echo "fi_info: all good"
