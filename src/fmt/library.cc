// SPDX-License-Identifier: BSD-2-Clause
// The part of {fmt} that is not a template, compiled once: with the headers alone every file that formats a string
// would compile all of it, which takes three times as long as the rest of such a file. The distribution has {fmt} as a
// shared library only, which weft must not need. The functions instantiated here are those that <fmt/format.h> of {fmt}
// 9 declares extern.
#include <fmt/format-inl.h>

namespace fmt::detail {

template auto thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template auto decimal_point_impl(locale_ref) -> char;
template auto locale_ref::get<std::locale>() const -> std::locale;  // <fmt/chrono.h>

}  // namespace fmt::detail
