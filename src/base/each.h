// SPDX-License-Identifier: BSD-2-Clause
// A macro applied to each of several names, for tables whose rows differ in nothing else.
#pragma once

// WEFT_EACH(M, a, b, c) is M(a) M(b) M(c), for 64 names at most. A macro cannot call itself while it is expanded, so
// each step leaves the next one behind as text, which WEFT_EXPAND scans again.
#define WEFT_EACH(macro, ...) __VA_OPT__(WEFT_EXPAND(WEFT_STEP(macro, __VA_ARGS__)))
#define WEFT_STEP(macro, first, ...) macro(first) __VA_OPT__(WEFT_NEXT_STEP WEFT_PARENTHESES(macro, __VA_ARGS__))
#define WEFT_NEXT_STEP() WEFT_STEP
#define WEFT_PARENTHESES ()
#define WEFT_EXPAND(...) WEFT_EXPAND16(WEFT_EXPAND16(WEFT_EXPAND16(WEFT_EXPAND16(__VA_ARGS__))))
#define WEFT_EXPAND16(...) WEFT_EXPAND4(WEFT_EXPAND4(WEFT_EXPAND4(WEFT_EXPAND4(__VA_ARGS__))))
#define WEFT_EXPAND4(...) WEFT_SCAN(WEFT_SCAN(WEFT_SCAN(WEFT_SCAN(__VA_ARGS__))))
#define WEFT_SCAN(...) __VA_ARGS__
