// SPDX-License-Identifier: BSD-2-Clause
// The network card behind an fi_info; see nic.h.
#include "verbs/nic.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <new>
#include <string>

#include "abi/bridge.h"
#include "abi/fid_ops.h"

namespace weft::verbs {
namespace {

// Owner: its C handle, mostly an fi_info. The C structures point into the strings.
class Nic final : public Object<fid_nic> {
 public:
  struct Facts {
    std::string name, device_id, device_version, vendor_id, driver, firmware;
    std::string link_address, network_type;
    fi_bus_attr bus{};
    size_t mtu = 0;
    size_t speed = 0;
    fi_link_state state = FI_LINK_UNKNOWN;
  };

  explicit Nic(Facts facts);

  // Slots of fi_ops.
  int close() {
    delete this;
    return 0;
  }
  int control(int command, void* argument) {
    if (command != FI_DUP || argument == nullptr) return -FI_ENOSYS;
    *static_cast<fid_nic**>(argument) = &(new Nic(facts_))->abi;
    return 0;
  }

 private:
  Facts facts_;
  fi_device_attr device_{};
  fi_link_attr link_{};
};

char* text_or_null(std::string& text) noexcept {
  return text.empty() ? nullptr : text.data();
}

Nic::Nic(Facts facts) : facts_(std::move(facts)) {
  static constexpr fi_ops kOps = make_fid_ops<Nic>();
  device_ = {text_or_null(facts_.name),      text_or_null(facts_.device_id), text_or_null(facts_.device_version),
             text_or_null(facts_.vendor_id), text_or_null(facts_.driver),    text_or_null(facts_.firmware)};
  link_ = {text_or_null(facts_.link_address), facts_.mtu, facts_.speed, facts_.state,
           text_or_null(facts_.network_type)};
  abi.fid = {FI_CLASS_NIC, nullptr, const_cast<fi_ops*>(&kOps)};
  abi.device_attr = &device_;
  abi.bus_attr = &facts_.bus;
  abi.link_attr = &link_;
}

size_t bytes_of(ibv_mtu mtu) noexcept {
  return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? size_t{128} << mtu : 0;
}

// Megabits of one lane, by the code in port attributes.
size_t lane_speed(std::uint8_t code) noexcept {
  switch (code) {
    case 1:
      return 2'500;
    case 2:
      return 5'000;
    case 4:
    case 8:
      return 10'000;
    case 16:
      return 14'000;
    case 32:
      return 25'000;
    case 64:
      return 50'000;
    case 128:
      return 100'000;
    default:
      return 0;
  }
}

size_t lanes(std::uint8_t code) noexcept {
  switch (code) {
    case 1:
      return 1;
    case 2:
      return 4;
    case 4:
      return 8;
    case 8:
      return 12;
    case 16:
      return 2;
    default:
      return 0;
  }
}

fi_link_state state_of(ibv_port_state state) noexcept {
  switch (state) {
    case IBV_PORT_ACTIVE:
    case IBV_PORT_ACTIVE_DEFER:
      return FI_LINK_UP;
    case IBV_PORT_DOWN:
    case IBV_PORT_INIT:
    case IBV_PORT_ARMED:
      return FI_LINK_DOWN;
    default:
      return FI_LINK_UNKNOWN;
  }
}

std::string last_component(const std::filesystem::path& link) {
  std::error_code error;
  const auto target = std::filesystem::read_symlink(link, error);
  return error ? "" : target.filename().string();
}

fi_bus_attr bus_of(const std::filesystem::path& folder) {
  fi_bus_attr bus{};
  unsigned domain, number, device, function;
  const std::string name = last_component(folder);
  if (last_component(folder / "subsystem") != "pci" ||
      std::sscanf(name.c_str(), "%x:%x:%x.%x", &domain, &number, &device, &function) != 4)
    return bus;
  bus.bus_type = FI_BUS_PCI;
  bus.attr.pci = {static_cast<uint16_t>(domain), static_cast<uint8_t>(number), static_cast<uint8_t>(device),
                  static_cast<uint8_t>(function)};
  return bus;
}

Nic::Facts facts_of(const Source& source) {
  const ibv_device_attr& attr = source.device->attr().orig_attr;
  const ibv_port_attr& port = source.port.attr;
  const std::filesystem::path folder =
      std::string("/sys/class/infiniband/") + ibv_get_device_name(source.device->context()->device) + "/device";
  Nic::Facts facts;
  facts.name = source.device->name();
  facts.device_id = fmt::format("{:#x}", attr.vendor_part_id);
  facts.device_version = fmt::format("{}", attr.hw_ver);
  facts.vendor_id = fmt::format("{:#x}", attr.vendor_id);
  facts.driver = last_component(folder / "driver");
  facts.firmware = attr.fw_ver;
  facts.bus = bus_of(folder);
  ibv_gid gid{};
  ibv_query_gid(source.device->context(), source.port.number, std::max(source.gid_index, 0), &gid);
  char text[INET6_ADDRSTRLEN] = "";
  if (::inet_ntop(AF_INET6, gid.raw, text, sizeof text) != nullptr) facts.link_address = text;
  facts.mtu = bytes_of(port.active_mtu);
  facts.speed = lane_speed(port.active_speed) * lanes(port.active_width) * 1'000'000;
  facts.state = state_of(port.state);
  facts.network_type = source.port.transport == Transport::kInfiniBand ? "InfiniBand" : "Ethernet";
  return facts;
}

}  // namespace

fid_nic* make_nic(const Source& source) noexcept {
  try {
    return &(new Nic(facts_of(source)))->abi;
  } catch (const std::exception&) {
    return nullptr;
  }
}

}  // namespace weft::verbs
