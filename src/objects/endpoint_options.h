// SPDX-License-Identifier: BSD-2-Clause
// How endpoint options cross the C interface; fi_endpoint(3), fi_getopt, fi_setopt and fi_control.
#pragma once

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

namespace weft {

// -FI_ETOOSMALL, with the required size in *len, when `buf` cannot hold the value.
template <class T>
int report_option(const T& value, void* buf, std::size_t* len) noexcept {
  if (buf == nullptr || len == nullptr) return -FI_EINVAL;
  const std::size_t room = *len;
  *len = sizeof value;
  if (room < sizeof value) return -FI_ETOOSMALL;
  std::memcpy(buf, &value, sizeof value);
  return 0;
}

// -FI_EINVAL unless the application passed a T.
template <class T>
int read_option(const void* buf, std::size_t len, T& value) noexcept {
  if (buf == nullptr || len != sizeof value) return -FI_EINVAL;
  std::memcpy(&value, buf, sizeof value);
  return 0;
}

// The options of endpoints with FI_HMEM. Network devices access memory of accelerators themselves: the processor does
// not, and no library of an accelerator is called.
constexpr bool is_device_memory_option(int option) noexcept {
  return option == FI_OPT_FI_HMEM_P2P || option == FI_OPT_CUDA_API_PERMITTED;
}
inline int set_device_memory_option(int option, const void* value, std::size_t len) noexcept {
  bool may_call = false;
  if (option == FI_OPT_CUDA_API_PERMITTED) return read_option(value, len, may_call);
  int mode = 0;
  if (const int result = read_option(value, len, mode); result != 0) return result;
  if (mode == FI_HMEM_P2P_DISABLED) return -FI_EOPNOTSUPP;
  return mode >= FI_HMEM_P2P_ENABLED && mode <= FI_HMEM_P2P_PREFERRED ? 0 : -FI_EINVAL;
}
inline int get_device_memory_option(int option, void* value, std::size_t* len) noexcept {
  if (option == FI_OPT_CUDA_API_PERMITTED) return -FI_ENOPROTOOPT;  // fi_setopt only
  return report_option(int{FI_HMEM_P2P_REQUIRED}, value, len);
}

// An int that is 0 or 1.
template <class Switch>
int read_switch(const void* buf, std::size_t len, Switch& value) noexcept {
  int wanted = 0;
  if (read_option(buf, len, wanted) != 0 || (wanted != 0 && wanted != 1)) return -FI_EINVAL;
  value = wanted == 1;
  return 0;
}

// An option that only states a limit; without a limit the option does not exist. An application may announce a lower
// limit for itself.
inline int report_limit(std::optional<std::size_t> limit, void* buf, std::size_t* len) noexcept {
  return limit ? report_option(*limit, buf, len) : -FI_ENOPROTOOPT;
}
inline int accept_limit(std::optional<std::size_t> limit, const void* buf, std::size_t len) noexcept {
  std::size_t wanted = 0;
  if (!limit) return -FI_ENOPROTOOPT;
  return read_option(buf, len, wanted) == 0 && wanted <= *limit ? 0 : -FI_EINVAL;
}

// FI_OPT_TX_SIZE or FI_OPT_RX_SIZE of an endpoint, which must not be enabled; `set` takes a size.
template <class Set>
int set_queue_size(bool enabled, const void* buf, std::size_t len, Set set) noexcept {
  std::size_t wanted = 0;
  if (enabled) return -FI_EOPBADSTATE;
  if (read_option(buf, len, wanted) != 0 || wanted == 0) return -FI_EINVAL;
  set(wanted);
  return 0;
}

// FI_GETOPSFLAG and FI_SETOPSFLAG of fi_control: `flags` contains FI_TRANSMIT or FI_RECV, not both, which selects one
// of the two defaults; FI_GETOPSFLAG replaces it by the default. `guard(direction)` returns an object that holds the
// lock of that default.
template <class Guard>
int control_default_flags(int command, std::uint64_t* flags, std::uint64_t& transmit, std::uint64_t& receive,
                          Guard guard) noexcept {
  if (flags == nullptr) return -FI_EINVAL;
  const std::uint64_t direction = *flags & (FI_TRANSMIT | FI_RECV);
  if (direction != FI_TRANSMIT && direction != FI_RECV) return -FI_EINVAL;
  std::uint64_t& defaults = direction == FI_TRANSMIT ? transmit : receive;
  [[maybe_unused]] const auto held = guard(direction);
  if (command == FI_SETOPSFLAG)
    defaults = *flags & ~direction;
  else
    *flags = defaults;
  return 0;
}

}  // namespace weft
