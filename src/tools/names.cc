// SPDX-License-Identifier: BSD-2-Clause
// Names and values; see names.h.
#include "names.h"

#include <rdma/fi_errno.h>
#include <strings.h>

#include <charconv>

namespace weft::tools {
namespace {

#define NAMED(code) \
  { #code, code }
constexpr ErrorName kNames[] = {
    NAMED(FI_SUCCESS),      NAMED(FI_EPERM),         NAMED(FI_ENOENT),        NAMED(FI_EINTR),
    NAMED(FI_EIO),          NAMED(FI_E2BIG),         NAMED(FI_EBADF),         NAMED(FI_EAGAIN),
    NAMED(FI_ENOMEM),       NAMED(FI_EACCES),        NAMED(FI_EFAULT),        NAMED(FI_EBUSY),
    NAMED(FI_ENODEV),       NAMED(FI_EINVAL),        NAMED(FI_EMFILE),        NAMED(FI_ENOSPC),
    NAMED(FI_ENOSYS),       NAMED(FI_ENOMSG),        NAMED(FI_ENODATA),       NAMED(FI_EPROTO),
    NAMED(FI_EOVERFLOW),    NAMED(FI_EMSGSIZE),      NAMED(FI_ENOPROTOOPT),   NAMED(FI_EOPNOTSUPP),
    NAMED(FI_EADDRINUSE),   NAMED(FI_EADDRNOTAVAIL), NAMED(FI_ENETDOWN),      NAMED(FI_ENETUNREACH),
    NAMED(FI_ECONNABORTED), NAMED(FI_ECONNRESET),    NAMED(FI_ENOBUFS),       NAMED(FI_EISCONN),
    NAMED(FI_ENOTCONN),     NAMED(FI_ESHUTDOWN),     NAMED(FI_ETIMEDOUT),     NAMED(FI_ECONNREFUSED),
    NAMED(FI_EHOSTDOWN),    NAMED(FI_EHOSTUNREACH),  NAMED(FI_EALREADY),      NAMED(FI_EINPROGRESS),
    NAMED(FI_EREMOTEIO),    NAMED(FI_ECANCELED),     NAMED(FI_EKEYREJECTED),  NAMED(FI_EOTHER),
    NAMED(FI_ETOOSMALL),    NAMED(FI_EOPBADSTATE),   NAMED(FI_EAVAIL),        NAMED(FI_EBADFLAGS),
    NAMED(FI_ENOEQ),        NAMED(FI_EDOMAIN),       NAMED(FI_ENOCQ),         NAMED(FI_ECRC),
    NAMED(FI_ETRUNC),       NAMED(FI_ENOKEY),        NAMED(FI_ENOAV),         NAMED(FI_EOVERRUN),
    NAMED(FI_ENORX),        NAMED(FI_ENOMR),         NAMED(FI_EFIREWALLADDR),
};
#undef NAMED

constexpr std::string_view kPrefix = "FI_";
constexpr uint32_t kEnumValues = 64;  // every enumeration of the API is dense and shorter

// Equal in any letter case.
bool same_name(std::string_view a, std::string_view b) {
  return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

bool is_called(const char* official, std::string_view name, std::string_view prefix) {
  if (official == nullptr) return false;
  std::string_view full(official);
  return same_name(full, name) || (full.starts_with(prefix) && same_name(full.substr(prefix.size()), name));
}

}  // namespace

std::span<const ErrorName> error_names() {
  return kNames;
}

const ErrorName* error_named(std::string_view name) {
  for (const ErrorName& error : kNames)
    if (same_name(error.name, name) || same_name(error.name.substr(kPrefix.size()), name)) return &error;
  return nullptr;
}

std::optional<int> error_number(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    base = 16;
    text.remove_prefix(2);
  } else if (text.size() > 1 && text.front() == '0') {
    base = 8;
    text.remove_prefix(1);
  }
  unsigned number = 0;
  const char* end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, number, base);
  if (text.empty() || error != std::errc() || stop != end || number > 0x7fffffffU) return std::nullopt;
  return static_cast<int>(number);
}

std::optional<uint64_t> flag_named(std::string_view name, fi_type type) {
  if (name.empty()) return std::nullopt;
  for (int bit = 0; bit < 64; ++bit) {
    const uint64_t flag = uint64_t{1} << bit;
    if (is_called(fi_tostr(&flag, type), name, kPrefix)) return flag;
  }
  return std::nullopt;
}

std::optional<uint32_t> value_named(std::string_view name, fi_type type, std::string_view prefix) {
  if (name.empty()) return std::nullopt;
  for (uint32_t value = 0; value < kEnumValues; ++value)
    if (is_called(fi_tostr(&value, type), name, prefix)) return value;
  return std::nullopt;
}

}  // namespace weft::tools
