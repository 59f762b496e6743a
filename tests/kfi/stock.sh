# SPDX-License-Identifier: BSD-2-Clause
# Sourced by the scripts beside: the folder of the distribution's libfabric.so.1, or the test is skipped; docs/testing.md.
stock_folder() {
  stock=$(ldconfig -p 2>/dev/null || /sbin/ldconfig -p)
  stock=$(echo "$stock" | sed -n 's/.*libfabric\.so\.1 .*=> //p' | head -n 1)
  if [ -n "$stock" ]; then dirname "$stock"; return; fi
  case ",${REQUIRE:-}," in *,stock,*) echo "FAIL: the distribution's libfabric is missing" >&2; exit 1 ;; esac
  echo "SKIP: the distribution's libfabric is not installed" >&2
  exit 77
}
