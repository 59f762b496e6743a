// SPDX-License-Identifier: BSD-2-Clause
// The part of {fmt} that is no template, compiled once: as headers only, every file that formats a string compiles all
// of it, which takes three times as long as the rest of such a file. The distribution has {fmt} compiled as a shared
// library only, and weft must not need one. What is instantiated here is what <fmt/format.h> of {fmt} 9 declares
// elsewhere.
#include <fmt/format-inl.h>

namespace fmt::detail {

template auto thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template auto decimal_point_impl(locale_ref) -> char;
template auto locale_ref::get<std::locale>() const -> std::locale;  // <fmt/chrono.h>

}  // namespace fmt::detail
