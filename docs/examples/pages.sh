#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# pages.sh HEADERS PAGES LINKS: the manual pages and the headers agree. Each function, macro with arguments, structure
# and enumeration has a page or a link to one, each constant is on a page; prototypes and structures in the pages are
# those of the headers; each page that a header or another page names exists.
set -eu
headers=$1 pages=$2 links=$3
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
failed=0
# complain FILE TEXT: the lines of FILE are wrong.
complain() {
  [ -s "$1" ] || return 0
  echo "$2:"
  cat "$1"
  failed=1
}
all() { find "$headers" -name '*.h' -exec cat {} +; }
declared() { find "$headers" -name '*.h' -exec awk -v want="$1" -f "$here/pages.awk" {} + | LC_ALL=C sort -u; }
described() { awk -v want="$1" -f "$here/pages.awk" "$pages"/f*.3 | LC_ALL=C sort -u; }

# container_of and count_of have nothing to do with fabrics; FI_FORMAT_PRINTF is the headers' own.
declared names | grep -vxE 'container_of|count_of|FI_FORMAT_PRINTF' >names
for name in $(cat names); do
  [ -e "$pages/$name.3" ] || [ -e "$links/$name.3" ] || echo "$name"
done >missing
complain missing 'declared in a header, and in the synopsis of no page'

# Other constants are on some page. Not those without a meaning of their own, those of other providers and networks, and
# error numbers: fi_errno(3) refers to errno(3).
all | sed 's,//.*,,' | grep -ohE '\bFI_[A-Z0-9_]+\b' | LC_ALL=C sort -u |
  grep -vE '_(UNSPEC|MAX|LAST|H)$|^FI_E[A-Z0-9]+$' |
  grep -vE '^FI_(PROTO|CLASS|OPT_EFA|XPU_PROV|LIB|DEPRECATED|EP_SOCK|PROV_SPECIFIC)' |
  grep -vxE 'FI_(SUCCESS|FORMAT_PRINTF|XPU_CALL|XPU_TRIGGER|BUS_UNKNOWN|REVISION_VERSION|AV_AUTH_KEY)' >constants
cat "$pages"/*.[37] | grep -ohE '\bFI_[A-Z0-9_]+\b' | LC_ALL=C sort -u >described_constants
LC_ALL=C comm -23 constants described_constants >missing
complain missing 'constants that no page has'

declared calls >declared_calls
described calls >described_calls
LC_ALL=C comm -23 declared_calls described_calls >missing
complain missing 'prototypes that no synopsis has'
LC_ALL=C comm -13 declared_calls described_calls >wrong
complain wrong 'prototypes that no header has'

declared structures >declared_structures
described structures >described_structures
LC_ALL=C comm -13 declared_structures described_structures >wrong
complain wrong 'structures that no header has'

all | grep -ohE '\b(fi_[a-z0-9_]+|fabric)\([1-8]\)' | sort -u | tr '()' '. ' | while read -r page; do
  [ -e "$pages/$page" ] || [ -e "$links/$page" ] || echo "$page"
done >missing
complain missing 'pages that a header mentions'

grep -ohE '^\.Xr (fi_[a-z0-9_]+|fabric) [1-8]' "$pages"/*.[137] | sort -u | while read -r _ page section; do
  [ -e "$pages/$page.$section" ] || [ -e "$links/$page.$section" ] || echo "$page($section)"
done >missing
complain missing 'pages that a page mentions'

count() { wc -l <"$1"; }
[ "$(count declared_calls)" -ge 170 ] && [ "$(count constants)" -ge 350 ] && [ "$(count described_structures)" -ge 40 ] ||
  { echo 'the declarations are not found'; failed=1; }
[ $failed = 0 ] || exit 1
echo "$(count names) names, $(count constants) constants, $(count declared_calls) prototypes and" \
  "$(count described_structures) structures agree"
