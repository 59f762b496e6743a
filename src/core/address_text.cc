// SPDX-License-Identifier: BSD-2-Clause
// Addresses of every format as text; fi_getinfo(3) ADDRESSING FORMATS.
#include <arpa/inet.h>
#include <fmt/format.h>

#include <array>
#include <cstring>

#include "core/names.h"
#include "objects/address.h"

namespace weft::core {
namespace {

constexpr const char* kTruncated = "(truncated)";
constexpr std::size_t kGidSize = 16;

// A member of an address in raw bytes.
template <class T>
T part(const void* address, std::size_t offset) noexcept {
  T value;
  std::memcpy(&value, static_cast<const char*>(address) + offset, sizeof value);
  return value;
}

std::string gid_text(const void* gid) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(AF_INET6, gid, text.data(), text.size());
  return text.data();
}

// "name://<hex>:<hex>..." of `count` 64-bit numbers.
std::string numbers_text(const char* name, const void* address, std::size_t size, std::size_t count) {
  if (size < count * sizeof(uint64_t)) return kTruncated;
  std::string text = name;
  for (std::size_t i = 0; i < count; ++i) {
    text += fmt::format("{}{:x}", i == 0 ? "://" : ":", part<uint64_t>(address, i * sizeof(uint64_t)));
  }
  return text;
}

std::string ip_text(const void* address, std::size_t size) {
  const Result<Address> ip = Address::from(address, size);
  return ip ? ip->to_uri() : kTruncated;
}

std::string ib_text(const void* address, std::size_t size) {
  // struct sockaddr_ib of the kernel: family, pkey, flowinfo, address, service id, its mask, scope.
  constexpr std::size_t kPkey = 2, kGid = 8, kServiceId = 24, kScope = 40, kSize = 48;
  if (size < kSize) return kTruncated;
  const uint64_t service = be64toh(part<uint64_t>(address, kServiceId));
  return fmt::format("fi_sockaddr_ib://[{}]:{:#x}:{:#x}:{:#x}", gid_text(static_cast<const char*>(address) + kGid),
                     ntohs(part<uint16_t>(address, kPkey)), service >> 16 & 0xfff,
                     part<uint64_t>(address, kScope) & 0xff);
}

std::string ib_ud_text(const void* address, std::size_t size) {
  constexpr std::size_t kQpn = 16, kLid = 20, kPkey = 22, kServiceLevel = 26, kSize = 32;
  if (size < kSize) return kTruncated;
  return fmt::format("fi_addr_ib_ud://{}:{:x}/{:x}/{:x}/{:x}", gid_text(address), part<uint32_t>(address, kQpn),
                     part<uint16_t>(address, kLid), part<uint16_t>(address, kPkey),
                     part<uint8_t>(address, kServiceLevel));
}

std::string efa_text(const void* address, std::size_t size) {
  constexpr std::size_t kQpn = kGidSize, kKey = 20, kSize = 24;
  if (size < kSize) return kTruncated;
  return fmt::format("fi_addr_efa://[{}]:{}:{}", gid_text(address), part<uint16_t>(address, kQpn),
                     part<uint32_t>(address, kKey));
}

}  // namespace

std::string address_text(uint32_t format, const void* address, std::size_t size) {
  if (address == nullptr) return "(null)";
  switch (format) {
    case FI_SOCKADDR:
    case FI_SOCKADDR_IP:
      if (size >= sizeof(sa_family_t) && part<sa_family_t>(address, 0) == AF_IB) return ib_text(address, size);
      return ip_text(address, size);
    case FI_SOCKADDR_IN:
    case FI_SOCKADDR_IN6:
      return ip_text(address, size);
    case FI_SOCKADDR_IB:
      return ib_text(address, size);
    case FI_ADDR_STR:
      return {static_cast<const char*>(address), ::strnlen(static_cast<const char*>(address), size)};
    case FI_ADDR_IB_UD:
      return ib_ud_text(address, size);
    case FI_ADDR_EFA:
      return efa_text(address, size);
    case FI_ADDR_PSMX:
      return numbers_text("fi_addr_psmx", address, size, 1);
    case FI_ADDR_PSMX2:
      return numbers_text("fi_addr_psmx2", address, size, 2);
    case FI_ADDR_PSMX3:
      return numbers_text("fi_addr_psmx3", address, size, 4);
    case FI_ADDR_GNI:
      return numbers_text("fi_addr_gni", address, size, 1);
    case FI_ADDR_OPX:
      return numbers_text("fi_addr_opx", address, size, 1);
    case FI_ADDR_CXI:
      return size < sizeof(uint32_t) ? kTruncated : fmt::format("fi_addr_cxi://{:#x}", part<uint32_t>(address, 0));
    case FI_ADDR_BGQ:
      return fmt::format("fi_addr_bgq://{}", address);
    case FI_ADDR_MLX:
      return fmt::format("fi_addr_mlx://{}", address);
    default:
      return {};
  }
}

}  // namespace weft::core
