// SPDX-License-Identifier: BSD-2-Clause
// Parameters of providers: one row of a table gives the definition, the default, the help text and the reading of each;
// fi_provider(3), fi_param_define and fi_param_get.
#pragma once

#include <rdma/providers/fi_prov.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <variant>
#include <vector>

namespace weft {

inline constexpr int kMaxInt = std::numeric_limits<int>::max();
inline constexpr std::int64_t kMaxBytes = std::numeric_limits<std::int64_t>::max();

// The parameters of all providers with connected endpoints, in FI_TCP_, FI_VERBS_ ...
struct ConnectionParameters {
  int connect_timeout_ms = 30'000;  // CONNECT_TIMEOUT: until a request is on its way to the peer's host; 0: no limit
  int answer_timeout_ms = 120'000;  // ANSWER_TIMEOUT: from then on, for the peer's application; 0: no limit
  int backlog = 4096;               // BACKLOG: requests that may be pending at a passive endpoint
  int keepalive_s = 30;             // KEEPALIVE: silence after which the peer is probed; 0: never
};

// P: the struct with a provider's values; its member initialisers are the defaults. An empty text or list means "all".
template <class P>
struct ParameterRow {
  const char* name;  // without the provider's prefix, in lower case
  std::variant<int P::*, std::size_t P::*, std::uint8_t P::*, std::uint16_t P::*, std::uint32_t P::*, bool P::*,
               std::string P::*, std::vector<std::string> P::*>
      member;
  const char* help;
  std::int64_t lowest = 0;  // the range of a number
  std::int64_t highest = kMaxInt;
  const char* otherwise = nullptr;  // describes the default if its value does not
};

using ParameterValue = std::variant<int*, std::size_t*, std::uint8_t*, std::uint16_t*, std::uint32_t*, bool*,
                                    std::string*, std::vector<std::string>*>;

// `value` has the default; the help text ends with it, or with `otherwise`.
void define_parameter(const fi_provider* provider, const char* name, ParameterValue value, const char* help,
                      const char* otherwise);
// A parameter that is not set leaves the value unchanged; so does a wrong one, which is logged. Lists are separated by
// commas.
void read_parameter(fi_provider* provider, const char* name, ParameterValue value, std::int64_t lowest,
                    std::int64_t highest);

// Called once, when the provider is loaded. A null provider: the parameters belong to the process, without a prefix.
template <class P, std::size_t N>
void define_parameters(const fi_provider* provider, const ParameterRow<P> (&rows)[N]) {
  P defaults;
  for (const ParameterRow<P>& row : rows) {
    const auto value = std::visit([&](auto member) { return ParameterValue(&(defaults.*member)); }, row.member);
    define_parameter(provider, row.name, value, row.help, row.otherwise);
  }
}

template <class P, std::size_t N>
P read_parameters(fi_provider* provider, const ParameterRow<P> (&rows)[N]) {
  P values;
  for (const ParameterRow<P>& row : rows) {
    const auto value = std::visit([&](auto member) { return ParameterValue(&(values.*member)); }, row.member);
    read_parameter(provider, row.name, value, row.lowest, row.highest);
  }
  return values;
}

}  // namespace weft
