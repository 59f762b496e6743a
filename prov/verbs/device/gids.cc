// SPDX-License-Identifier: BSD-2-Clause
// GIDs of ports; see gids.h.
#include "verbs/device/gids.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace weft::verbs {
namespace {

constexpr std::size_t kUsualEntries = 32;

bool is_ipv4(const ibv_gid& gid) noexcept {
  static constexpr std::uint8_t kPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(gid.raw, kPrefix, sizeof kPrefix) == 0;
}

bool is_link_local(const ibv_gid& gid) noexcept {
  return gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80;
}

bool same_kind(const ibv_gid& a, const ibv_gid& b) noexcept {
  return is_ipv4(a) == is_ipv4(b) && is_link_local(a) == is_link_local(b);
}

}  // namespace

std::string gid_text(const ibv_gid& gid) {
  char text[INET6_ADDRSTRLEN] = "?";
  ::inet_ntop(AF_INET6, gid.raw, text, sizeof text);
  return text;
}

ibv_gid query_gid(const Device& device, std::uint8_t port, int index) noexcept {
  ibv_gid gid{};
  return ibv_query_gid(device.context(), port, index, &gid) == 0 ? gid : ibv_gid{};
}

ibv_gid gid_of(const Address& address) noexcept {
  ibv_gid gid{};
  if (address.family() == AF_INET) {
    gid.raw[10] = gid.raw[11] = 0xff;
    std::memcpy(gid.raw + 12, &reinterpret_cast<const sockaddr_in*>(address.data())->sin_addr, 4);
  } else {
    std::memcpy(gid.raw, &reinterpret_cast<const sockaddr_in6*>(address.data())->sin6_addr, 16);
  }
  return gid;
}

GidTable GidTable::of(const Device& device, std::uint8_t port) {
  const auto info = device.port(port);
  return info ? of(device, *info) : GidTable();
}

GidTable GidTable::of(const Device& device, const Device::Port& port) {
  GidTable table;
  const std::size_t all = static_cast<std::size_t>(std::max(port.attr.gid_tbl_len, 1)) * device.port_count();
  ssize_t count = -1;
  // Tables are long and hardly used, and a query costs as much as the room for its answer. It fails without enough.
  for (std::size_t room : {std::min(all, kUsualEntries), all}) {
    table.entries_.resize(room);
    count = ibv_query_gid_table(device.context(), table.entries_.data(), room, 0);
    if (count >= 0 && static_cast<std::size_t>(count) < room) break;
  }
  table.entries_.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  std::erase_if(table.entries_, [&](const ibv_gid_entry& entry) { return entry.port_num != port.number; });
  return table;
}

std::optional<std::uint32_t> GidTable::index_of(const ibv_gid& gid) const noexcept {
  std::optional<std::uint32_t> found;
  for (const ibv_gid_entry& entry : entries_)
    if (entry.gid == gid && (!found || entry.gid_type == IBV_GID_TYPE_ROCE_V2)) found = entry.gid_index;
  return found;
}

ibv_gid GidTable::at(std::uint32_t index) const noexcept {
  const auto entry = std::ranges::find(entries_, index, &ibv_gid_entry::gid_index);
  return entry != entries_.end() ? entry->gid : ibv_gid{};
}

std::optional<std::uint32_t> GidTable::index_for(const ibv_gid& peer, const ibv_gid& preferred) const noexcept {
  if (same_kind(peer, preferred))
    if (const auto index = index_of(preferred)) return index;
  for (const ibv_gid_entry& entry : entries_)
    if (same_kind(entry.gid, peer)) return index_of(entry.gid);
  return index_of(preferred);
}

std::string to_uri(const IbUdAddress& address) {
  return fmt::format("fi_addr_ib_ud://{}:{:x}/{:x}/{:x}/{:x}", gid_text(address.gid), address.qp_number, address.lid,
                     address.pkey, address.service_level);
}

}  // namespace weft::verbs
