// SPDX-License-Identifier: BSD-2-Clause
// Addresses of verbs endpoints: IPv4 and IPv6, and the native ones of InfiniBand (struct sockaddr_ib); the rules of
// fi_setname, fi_getname and fi_getpeer in fi_cm(3), addressing formats in fi_getinfo(3), AF_IB in rdma_cm(7).
#pragma once

#include <endian.h>
#include <infiniband/ib.h>
#include <rdma/fabric.h>
#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "objects/address.h"
#include "objects/endpoint_names.h"

namespace weft::verbs {

// A value. Empty (size 0) unless made from an address.
class CmAddress {
 public:
  CmAddress() noexcept = default;
  CmAddress(const Address& ip) noexcept;  // NOLINT: implicit, every IP address is a CmAddress
  // The wildcard of an addr_format; IPv4's where the format leaves the family open.
  static CmAddress any(std::uint32_t addr_format) noexcept;
  // -FI_EINVAL: `name` is null, too short, or of an unknown family or one outside of `addr_format`. Without `len`, the
  // memory at `name` must have the family's full length.
  static Result<CmAddress> from(std::uint32_t addr_format, const void* name,
                                std::size_t len = sizeof(sockaddr_ib)) noexcept;
  // The source address of an info that an endpoint is opened with, or any().
  static Result<CmAddress> source(const fi_info& info) noexcept {
    if (info.src_addr == nullptr) return any(info.addr_format);
    return from(info.addr_format, info.src_addr, info.src_addrlen);
  }
  // An address reported by librdmacm; empty for null.
  static CmAddress from(const sockaddr* name) noexcept;

  sockaddr* data() noexcept { return &any_; }  // librdmacm takes no const
  std::size_t size() const noexcept;           // 16, 28, 48 or, if empty, 0
  int family() const noexcept { return any_.sa_family; }
  explicit operator bool() const noexcept { return size() != 0; }
  bool is_ib() const noexcept { return any_.sa_family == AF_IB; }
  bool is_any() const noexcept { return is_ib() ? ib_addr_any(&ib_.sib_addr) : ip().is_any(); }
  bool is_multicast() const noexcept;
  bool same_host(const CmAddress& other) const noexcept;  // or the same group; ports are ignored
  std::uint16_t port() const noexcept {
    return is_ib() ? static_cast<std::uint16_t>(be64toh(ib_.sib_sid)) : ntohs(in_.sin_port);
  }
  // The key of a native InfiniBand address; 0: open.
  std::uint16_t partition() const noexcept { return is_ib() ? be16toh(ib_.sib_pkey) : 0; }
  void set_port(std::uint16_t port) noexcept;
  std::uint32_t format() const noexcept { return is_ib() ? std::uint32_t{FI_SOCKADDR_IB} : ip().format(); }
  // Whether it may be used where fi_info has this addr_format.
  bool fits(std::uint32_t addr_format) const noexcept;
  rdma_port_space port_space() const noexcept { return is_ib() ? RDMA_PS_IB : RDMA_PS_TCP; }
  // Empty for AF_IB.
  Address ip() const noexcept { return is_ib() ? Address() : Address::from(&any_, size()).value_or(Address()); }
  std::string to_string() const noexcept;

 private:
  // `size`: of the address's family.
  static CmAddress copy_of(const void* name, std::size_t size) noexcept;

  union {
    sockaddr any_;
    sockaddr_in in_;
    sockaddr_in6 in6_;
    sockaddr_ib ib_ = {};
  };
};

inline int report_name(CmAddress address, void* buf, std::size_t* len) noexcept {
  return weft::report_name(address.data(), address.size(), buf, len);
}

}  // namespace weft::verbs
