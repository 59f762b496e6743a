// SPDX-License-Identifier: BSD-2-Clause
// Addresses of verbs endpoints; see cm_address.h.
#include "verbs/cm/cm_address.h"

#include <arpa/inet.h>
#include <rdma/fi_errno.h>

#include <cstring>

namespace weft::verbs {
namespace {

std::size_t size_of(int family) noexcept {
  switch (family) {
    case AF_INET:
      return sizeof(sockaddr_in);
    case AF_INET6:
      return sizeof(sockaddr_in6);
    case AF_IB:
      return sizeof(sockaddr_ib);
    default:
      return 0;
  }
}

// The service id of AF_IB: the port space above the port.
constexpr std::uint64_t kServicePrefix = std::uint64_t{RDMA_PS_IB} << 16;

}  // namespace

CmAddress::CmAddress(const Address& ip) noexcept : CmAddress(from(ip.data())) {}

CmAddress CmAddress::any(std::uint32_t addr_format) noexcept {
  if (addr_format == FI_SOCKADDR_IB) {
    CmAddress address;
    address.ib_.sib_family = AF_IB;
    return address;
  }
  return Address::any(addr_format == FI_SOCKADDR_IN6 ? AF_INET6 : AF_INET, 0);
}

Result<CmAddress> CmAddress::from(std::uint32_t addr_format, const void* name, std::size_t len) noexcept {
  sa_family_t family;
  if (name == nullptr || len < sizeof family) return failure(FI_EINVAL);
  std::memcpy(&family, name, sizeof family);
  const std::size_t size = size_of(family);
  if (size == 0 || len < size) return failure(FI_EINVAL);
  const CmAddress address = copy_of(name, size);
  if (!address.fits(addr_format)) return failure(FI_EINVAL);
  return address;
}

CmAddress CmAddress::from(const sockaddr* name) noexcept {
  return name == nullptr ? CmAddress() : copy_of(name, size_of(name->sa_family));
}

CmAddress CmAddress::copy_of(const void* name, std::size_t size) noexcept {
  CmAddress address;
  std::memcpy(&address.ib_, name, size);
  if (address.family() == AF_INET) std::memset(address.in_.sin_zero, 0, sizeof address.in_.sin_zero);
  return address;
}

std::size_t CmAddress::size() const noexcept {
  return size_of(any_.sa_family);
}

bool CmAddress::is_multicast() const noexcept {
  if (!is_ib()) return ip().is_multicast();
  return *reinterpret_cast<const unsigned char*>(&ib_.sib_addr) == 0xff;  // IBA 4.1.1, as with IPv6
}

bool CmAddress::same_host(const CmAddress& other) const noexcept {
  if (is_ib() != other.is_ib()) return false;
  if (!is_ib()) return ip().same_host(other.ip());
  return std::memcmp(&ib_.sib_addr, &other.ib_.sib_addr, sizeof ib_.sib_addr) == 0;
}

void CmAddress::set_port(std::uint16_t port) noexcept {
  if (!is_ib()) {
    in_.sin_port = htons(port);
    return;
  }
  ib_.sib_sid = htobe64(kServicePrefix + port);
  ib_.sib_sid_mask = htobe64(port == 0 ? ~std::uint64_t{UINT16_MAX} : ~std::uint64_t{0});
}

bool CmAddress::fits(std::uint32_t addr_format) const noexcept {
  switch (addr_format) {
    case FI_SOCKADDR_IN:
      return family() == AF_INET;
    case FI_SOCKADDR_IN6:
      return family() == AF_INET6;
    case FI_SOCKADDR_IB:
      return is_ib();
    case FI_SOCKADDR_IP:
      return !is_ib();
    default:  // FI_SOCKADDR, FI_FORMAT_UNSPEC
      return true;
  }
}

std::string CmAddress::to_string() const noexcept try {
  if (!is_ib()) return ip().to_string();
  char gid[INET6_ADDRSTRLEN] = "?";
  ::inet_ntop(AF_INET6, &ib_.sib_addr, gid, sizeof gid);
  return "[ib:" + std::string(gid) + "]:" + std::to_string(port());
} catch (const std::bad_alloc&) {
  return "(no memory)";
}

}  // namespace weft::verbs
