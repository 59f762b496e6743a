// SPDX-License-Identifier: BSD-2-Clause
// The network card behind an fi_info; fi_nic(3).
#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>
#include <string>

#include "abi/ops.h"
#include "verbs/device/gids.h"
#include "verbs/discovery/discovery.h"

namespace weft::verbs {
namespace {

// Owner: its C handle, usually an fi_info. One block of memory, because every connection request has a card. But
// libfabric 1.x copies an info's card piece by piece with malloc, and calls close() on that copy.
class Nic final : public Object<fid_nic> {
 public:
  // Null: out of memory.
  static fid_nic* make(fi_device_attr device, const fi_bus_attr& bus, fi_link_attr link) noexcept;

  // Slots of fi_ops.
  int close() noexcept;
  int control(int command, void* argument) noexcept {
    if (command != FI_DUP || argument == nullptr) return -FI_ENOSYS;
    fid_nic* const copy = make(*abi.device_attr, *abi.bus_attr, *abi.link_attr);
    if (copy == nullptr) return -FI_ENOMEM;
    *static_cast<fid_nic**>(argument) = copy;
    return 0;
  }
};
static_assert(sizeof(Nic) == sizeof(fid_nic));

// The layout of that block; the texts follow it.
struct Card {
  Nic nic;
  fi_device_attr device;
  fi_bus_attr bus;
  fi_link_attr link;
};

// Every text of a card; null: none.
std::array<char**, 8> texts_of(fi_device_attr& device, fi_link_attr& link) noexcept {
  return {&device.name,   &device.device_id, &device.device_version, &device.vendor_id,
          &device.driver, &device.firmware,  &link.address,          &link.network_type};
}

std::size_t room_for(const char* text) noexcept {
  return text != nullptr && *text != '\0' ? std::strlen(text) + 1 : 0;
}

fid_nic* Nic::make(fi_device_attr device, const fi_bus_attr& bus, fi_link_attr link) noexcept {
  std::size_t size = sizeof(Card);
  for (char** text : texts_of(device, link)) size += room_for(*text);
  void* const memory = std::malloc(size);
  if (memory == nullptr) return nullptr;
  Card& card = *new (memory) Card{{}, device, bus, link};
  char* copy = reinterpret_cast<char*>(&card + 1);
  for (char** text : texts_of(card.device, card.link)) {
    const std::size_t room = room_for(*text);
    *text = room != 0 ? static_cast<char*>(std::memcpy(copy, *text, room)) : nullptr;
    copy += room;
  }
  card.nic.abi.fid = {FI_CLASS_NIC, nullptr, ops_of<Nic>};
  card.nic.abi.device_attr = &card.device;
  card.nic.abi.bus_attr = &card.bus;
  card.nic.abi.link_attr = &card.link;
  return &card.nic.abi;
}

int Nic::close() noexcept {
  const bool is_copy = abi.device_attr != &reinterpret_cast<Card*>(this)->device;
  if (is_copy) {
    fi_device_attr no_device{};
    fi_link_attr no_link{};
    for (char** text : texts_of(abi.device_attr != nullptr ? *abi.device_attr : no_device,
                                abi.link_attr != nullptr ? *abi.link_attr : no_link))
      std::free(*text);
    std::free(abi.device_attr);
    std::free(abi.bus_attr);
    std::free(abi.link_attr);
  }
  std::free(this);
  return 0;
}

size_t bytes_of(ibv_mtu mtu) noexcept {
  return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? size_t{128} << mtu : 0;
}

// Codes in port attributes have one bit; the tables are by its position.
constexpr size_t kLaneSpeeds[] = {2'500,  5'000,  10'000, 10'000,
                                  14'000, 25'000, 50'000, 100'000};  // megabits per second
constexpr size_t kLanes[] = {1, 4, 8, 12, 2};

size_t by_bit(std::span<const size_t> table, std::uint8_t code) noexcept {
  const auto position = static_cast<size_t>(std::countr_zero(code));
  return std::has_single_bit(code) && position < table.size() ? table[position] : 0;
}

fi_link_state state_of(ibv_port_state state) noexcept {
  if (state == IBV_PORT_ACTIVE || state == IBV_PORT_ACTIVE_DEFER) return FI_LINK_UP;
  return state >= IBV_PORT_DOWN && state <= IBV_PORT_ARMED ? FI_LINK_DOWN : FI_LINK_UNKNOWN;
}

}  // namespace

fid_nic* make_nic(const Source& source) noexcept try {
  const ibv_device_attr& attr = source.device->attr().orig_attr;
  const ibv_port_attr& port = source.port.attr;

  std::string name = source.device->name();
  std::string id = fmt::format("{:#06x}", attr.vendor_part_id);
  std::string version = fmt::format("{}", attr.hw_ver);
  std::string vendor = fmt::format("{:#06x}", attr.vendor_id);
  std::string driver = source.device->driver();
  std::string firmware = attr.fw_ver;
  std::string address = gid_text(source.gid);
  std::string network = source.port.transport == Transport::kInfiniBand ? "InfiniBand" : "Ethernet";
  const size_t speed = by_bit(kLaneSpeeds, port.active_speed) * by_bit(kLanes, port.active_width) * 1'000'000;
  return Nic::make({name.data(), id.data(), version.data(), vendor.data(), driver.data(), firmware.data()},
                   source.device->bus(),
                   {address.data(), bytes_of(port.active_mtu), speed, state_of(port.state), network.data()});
} catch (const std::exception&) {
  return nullptr;
}

}  // namespace weft::verbs
