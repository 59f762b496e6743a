// SPDX-License-Identifier: BSD-2-Clause
// Addresses of endpoints; see endpoint_names.h.
#include "objects/endpoint_names.h"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace weft {
namespace {

bool fits(std::uint32_t addr_format, const Address& address) noexcept {
  switch (addr_format) {
    case FI_SOCKADDR_IN:
      return address.family() == AF_INET;
    case FI_SOCKADDR_IN6:
      return address.family() == AF_INET6;
    default:  // FI_SOCKADDR, FI_SOCKADDR_IP, FI_FORMAT_UNSPEC
      return true;
  }
}

Result<Address> checked(std::uint32_t addr_format, const Result<Address>& address) noexcept {
  if (address && !fits(addr_format, *address)) return failure(FI_EINVAL);
  return address;
}

}  // namespace

int report_name(const void* name, std::size_t size, void* buf, std::size_t* len) noexcept {
  if (len == nullptr || (buf == nullptr && *len != 0)) return -FI_EINVAL;
  const std::size_t room = std::exchange(*len, size);
  if (room != 0) std::memcpy(buf, name, std::min(room, size));
  return room < size ? -FI_ETOOSMALL : 0;
}

Result<Address> read_name(std::uint32_t addr_format, const void* name, std::size_t len) noexcept {
  return checked(addr_format, Address::from(name, len));
}

Result<Address> read_name(std::uint32_t addr_format, const void* name) noexcept {
  return checked(addr_format, Address::from(name));
}

Result<Address> source_name(const fi_info& info) noexcept {
  if (info.src_addr == nullptr) return unnamed(info.addr_format);
  return read_name(info.addr_format, info.src_addr, info.src_addrlen);
}

Address unnamed(std::uint32_t addr_format) noexcept {
  return Address::any(addr_format == FI_SOCKADDR_IN6 ? AF_INET6 : AF_INET, 0);
}

}  // namespace weft
