# SPDX-License-Identifier: BSD-2-Clause
# Reads `cc -E -dM` and prints "const NAME" for every FI_ macro that is an expression. Include guards (no body), attributes
# and macros with parameters are none.
/^#define FI_[A-Z0-9_a-z]* ./ && !/__attribute__|externally_visible/ && $2 !~ /\(/ { print "const " $2 }
