#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# selftest.sh WORK_FOLDER: the rules can fail. Makes a tree in which each rule is broken once and expects the complaint.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$1
rm -rf "$work"
mkdir -p "$work/src/base" "$work/src/objects" "$work/src/rdm" "$work/prov/tcp" "$work/prov/verbs/device" "$work/include/rdma"
cd "$work"
licence='// SPDX-License-Identifier: BSD-2-Clause'
status=0

# expect RULE TEXT [ARGUMENT...]: the rule fails, and one of its lines contains TEXT.
expect() {
  rule=$1 text=$2
  shift 2
  if sh "$here/$rule.sh" "$work" "$@" >found 2>&1; then
    echo "FAIL: $rule accepts: $text"
    status=1
  elif ! grep -qF "$text" found; then
    echo "FAIL: $rule does not say \"$text\" but:"
    cat found
    status=1
  fi
  rm -f found
}

{ echo "$licence"; echo '// Breaks the layering.'; echo '#include "core/getinfo.h"'; } >src/base/upward.h
{ echo "$licence"; echo '// A provider that knows another.'; echo '#include "udp/socket.h"'; } >prov/tcp/sideways.cc
{ echo "$licence"; echo '// The ABI in the lowest layer.'; echo '#include <rdma/fabric.h>'; } >src/base/fabric_aware.h
expect layers 'src/base/upward.h:3: src/base may not include core/getinfo.h'
expect layers 'prov/tcp/sideways.cc:3: prov/tcp may not include udp/socket.h'
{ echo "$licence"; echo '// The data path in the folder below.'; echo '#include "verbs/transfer/queues.h"'; } >prov/verbs/device/upward.h
expect layers 'src/base/fabric_aware.h:3: src/base may not include rdma/fabric.h'
expect layers 'prov/verbs/device/upward.h:3: prov/verbs/device may not include verbs/transfer/queues.h'

{ echo "$licence"; echo '// Too long.'; awk 'BEGIN { for (i = 0; i < 600; i++) print "int x" i ";" }'; } >src/base/long_file.h
expect sizes 'src/base/long_file.h:602:'

{
  echo "$licence"
  echo '// A function of 71 lines beside a table, a class and a namespace that are longer.'
  echo 'namespace weft {'
  echo 'constexpr Row kTable[] = {'
  awk 'BEGIN { for (i = 0; i < 80; i++) print "  {f(" i "), '"'{'"', \"}\"}," }'
  echo '};'
  echo 'class Long final : public Base<int (*)(int)> {'
  awk 'BEGIN { for (i = 0; i < 80; i++) print "  void g" i "() noexcept { call(); }  // }" }'
  echo '};'
  echo 'Long::Long(int a) : first_{a}, second_{a} {'
  awk 'BEGIN { for (i = 0; i < 70; i++) print "  use(a);" }'
  echo '}'
  echo 'template <class T, int N = 3>'
  echo 'int Long::run(int a,'
  echo '              int b = 1) const noexcept {'
  awk 'BEGIN { for (i = 0; i < 67; i++) print "  if (a) { b(); }" }'
  echo '}'
  echo '}  // namespace weft'
} >src/base/functions.cc
expect functions 'src/base/functions.cc:71: Long::run:'
expect functions 'src/base/functions.cc:72: Long::Long:'
[ "$(sh "$here/functions.sh" "$work" | wc -l)" -eq 3 ] || { echo 'FAIL: functions finds more than two'; status=1; }

# Three rooms in a ring; two that know each other are allowed.
ring() { { echo "$licence"; echo '// A room of a ring.'; echo "#include \"rdm/$2.h\""; } >"src/rdm/$1"; }
ring first.h second
ring second.cc third
ring third.h first
ring pair.h partner
ring partner.cc pair
expect cycles 'src/rdm:3: rooms that include each other: first second third'
# Three rooms in a ring only if the two of the sub-folder count as one.
mkdir -p prov/udp/inner
ring() { { echo "$licence"; echo '// A room of a ring through a sub-folder.'; echo "#include \"udp/$2.h\""; } >"prov/udp/$1"; }
ring outer.h middle
ring middle.h inner/deep
ring inner/shallow.h outer
{ echo "$licence"; echo '// Leads nowhere.'; } >prov/udp/inner/deep.h
expect cycles 'prov/udp:3: rooms that include each other: '
expect cycles 'inner/'

{
  echo "$licence"
  echo '// A class with two slots, five methods and four data members; what is in its functions does not count.'
  echo 'template <class T, int N = 3>'
  echo 'class alignas(64) Crowd final : public Base<int (*)(int)> {'
  echo ' public:'
  echo '  explicit Crowd(int a) : first_{a}, second_{a} { int local = f(a); }'
  echo '  ~Crowd();'
  echo '  Crowd& operator=(const Crowd&) = delete;'
  echo '  [[nodiscard]] ssize_t send(const void* buf) noexcept;'
  echo '  int close() { return 0; }'
  echo '  bool empty() const noexcept { return first_ < 0; }'
  echo '  friend bool operator==(const Crowd&, const Crowd&) = default;'
  echo '  std::function<void(int)> on_end(std::span<const int> list = {}) noexcept;'
  echo ' private:'
  echo '  static constexpr int kMost = most(3);'
  echo '  struct Inner { int x = 0; };'
  echo '  int first_{0}, second_ = f(1);'
  echo '  std::atomic<bool> done_{false};'
  echo '  void (*handler_)(int) = nullptr;'
  echo '};'
} >src/objects/crowd.h
mkdir -p src/abi
{
  echo "$licence"
  echo '// Slots: `send` fills one of its name, `fetch` one of another; `write` and `table` are no methods of these tables.'
  echo '#define WEFT_TABLE(table, EACH_SLOT, ...) WEFT_EACH(EACH_SLOT, __VA_ARGS__)'
  echo 'WEFT_TABLE(fi_ops_first, WEFT_SLOT, send,'
  echo '           recv)'
  echo 'WEFT_TABLE(fi_ops_second, WEFT_RENAMED, (close, close), (write, fetch),'
  echo '           (read2, read2))'
} >src/abi/slots.h
slots=$(sh "$here/classes.sh" "$work" slots | tr '\n' ' ')
[ "$slots" = 'close fetch read2 recv send ' ] || { echo "FAIL: classes finds the slots $slots"; status=1; }
[ "$(sh "$here/classes.sh" "$here/../.." slots | wc -l)" -gt 100 ] || { echo 'FAIL: classes finds few slots of weft'; status=1; }
expect classes 'src/objects/crowd.h:Crowd:5: a class has at most 4 methods' methods 4
expect classes 'src/objects/crowd.h:Crowd:4: a class has at most 3 members' members 3

touch prov/tcp/tcp_util.h NOTES.txt src/base/CamelCase.cc
expect names 'NOTES.txt:1: does not belong to the top level'
expect names 'prov/tcp/tcp_util.h:1: says nothing about its contents'
expect names 'src/base/CamelCase.cc:1: is not snake_case'

{ echo "$licence"; echo '#pragma once'; } >src/base/silent.h
echo '// No licence' >src/base/free.h
expect openings 'src/base/silent.h:2: does not say'
expect openings 'src/base/free.h:1: does not open with'

{
  echo "$licence"
  echo '// Ends the process in several ways. A throw in a comment is none, and neither is "throw x" in a string.'
  echo 'void f() { throw 1; }'
  echo 'void g() { std::abort(); }'
  echo 'const char* h = "throw 2";'
  printf '// see https://%s.org/project\n' pypi
} >src/objects/final_words.cc
expect words 'src/objects/final_words.cc:3: throws'
expect words 'src/objects/final_words.cc:4: ends the process'
expect words 'src/objects/final_words.cc:6: names a package registry'
[ "$(sh "$here/words.sh" "$work" | wc -l)" -eq 4 ] || { echo 'FAIL: words finds more than three'; status=1; }

printf 'weft_objects weft_headers\nweft_objects fabric\n' >edges
expect targets 'weft_objects:0: may not depend on fabric' edges

if command -v g++ >/dev/null && [ -z "${WEFT_SANITIZE:-}" ]; then
  # A table of function pointers is constant although the loader writes to it; a counter is not.
  printf 'void f(); extern void (*const table[])() = {f}; int counter; int next() { static int n; return ++n; }\n' |
    g++ -x c++ -fPIC -c -o globals.o - && ar rc globals.a globals.o
  expect globals 'globals.o has the mutable global counter' globals.a
  expect globals 'globals.o has the mutable global next()::n' globals.a
  [ "$(sh "$here/globals.sh" "$work" globals.a | wc -l)" -eq 3 ] || { echo 'FAIL: globals finds more than two'; status=1; }
fi

# More foreign openings and phrases than any limit; the second line of a comment may open with everything.
mkdir -p docs
{
  echo "$licence"
  printf '// A file in a dialect.\nint first;\n'
  awk 'BEGIN {
    for (i = 0; i < 3000; i++) print "// Of whom?\n// Of course.\nint x" i " = 0;  // what it is\nint y" i ";"
    for (i = 0; i < 3000; i++) print "// Nobody comes abou" "t."
    for (i = 0; i < 3000; i++) print "int z" i " = 0;  // they differ\n// The same."
  }'
} >src/objects/dialect.cc
awk 'BEGIN { for (i = 0; i < 121; i++) printf "x"; print "" }' >docs/wide.md
expect language 'opens-with-of:3000:'
expect language 'opens-with-what:3000:'
expect language 'opens-with-the-same:3000:'
expect language 'opens-with-they:3000:'
expect language 'comes-about:3000:'
expect language 'docs/wide.md:1: lines above 120 columns'

# An exception that is not needed is a violation itself.
sed 's/^ *//' >list <<'END'
  # comment
  sizes src/base/long_file.h 602 # covered
  sizes src/base/upward.h 700 # not needed
END
printf 'src/base/long_file.h\t602\ttoo long\n' | awk -v rule=sizes -f "$here/judge.awk" list - >found && status=1
grep -qF 'sizes src/base/upward.h: not needed any more' found || { echo 'FAIL: judge.awk'; cat found; status=1; }
[ "$(wc -l <found)" -eq 2 ] || { echo 'FAIL: judge.awk prints more'; cat found; status=1; }

[ $status -ne 0 ] || echo 'every rule complains when it is broken'
exit $status
