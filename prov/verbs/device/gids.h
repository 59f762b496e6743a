// SPDX-License-Identifier: BSD-2-Clause
// The GIDs of a port, and the addresses of datagram queue pairs, which contain one; ibv_query_gid_table(3),
// fi_getinfo(3) FI_ADDR_IB_UD.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "objects/address.h"
#include "verbs/device/device.h"

namespace weft::verbs {

inline bool operator==(const ibv_gid& a, const ibv_gid& b) noexcept {
  return a.global.subnet_prefix == b.global.subnet_prefix && a.global.interface_id == b.global.interface_id;
}

// "fe80::1"; on RoCE also "::ffff:a.b.c.d".
std::string gid_text(const ibv_gid& gid);

// The GID at this index of the port's table; zero: none.
ibv_gid query_gid(const Device& device, std::uint8_t port, int index) noexcept;

// The GID of an IP address in a RoCE port's table: the address itself, IPv4 as ::ffff:a.b.c.d.
ibv_gid gid_of(const Address& address) noexcept;

// The table of one port. With equal GIDs an entry of RoCEv2, which routers forward, is preferred to one of version 1.
class GidTable {
 public:
  static GidTable of(const Device& device, std::uint8_t port);
  static GidTable of(const Device& device, const Device::Port& port);

  std::optional<std::uint32_t> index_of(const ibv_gid& gid) const noexcept;
  // Zero: the entry is empty.
  ibv_gid at(std::uint32_t index) const noexcept;
  bool contains(const ibv_gid& gid) const noexcept { return index_of(gid).has_value(); }
  // The source for packets to `peer`: `preferred` if it is of the peer's kind (IPv4, link-local, other), otherwise the
  // first entry of that kind.
  std::optional<std::uint32_t> index_for(const ibv_gid& peer, const ibv_gid& preferred) const noexcept;
  const std::vector<ibv_gid_entry>& entries() const noexcept { return entries_; }

 private:
  std::vector<ibv_gid_entry> entries_;
};

// FI_ADDR_IB_UD with the memory layout of other libraries: numbers are in host byte order.
struct IbUdAddress {
  ibv_gid gid;
  std::uint32_t qp_number;
  std::uint16_t lid;
  std::uint16_t pkey;
  std::uint16_t service;
  std::uint8_t service_level;
  std::uint8_t padding[5];
};
static_assert(sizeof(IbUdAddress) == 32);
std::string to_uri(const IbUdAddress& address);  // the text of fi_av_straddr

}  // namespace weft::verbs
