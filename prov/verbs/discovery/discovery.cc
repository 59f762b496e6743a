// SPDX-License-Identifier: BSD-2-Clause
// Local addresses and the devices behind them; see discovery.h.
#include "verbs/discovery/discovery.h"

#include <fmt/format.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_log.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>

#include "base/standard_descriptors.h"
#include "objects/interface_watch.h"
#include "verbs/device/gids.h"
#include "verbs/device/logging.h"
#include "verbs/device/verbs_handles.h"

namespace weft::verbs {
namespace {

bool selected(const std::vector<std::string>& prefixes, std::string_view name) noexcept {
  return prefixes.empty() ||
         std::ranges::any_of(prefixes, [&](const std::string& prefix) { return name.starts_with(prefix); });
}

// A port and what is known of it.
struct DevicePort {
  Ref<Device> device;
  Device::Port port;
  ibv_gid first_gid{};
  GidTable gids{};  // RoCE only, where it has the addresses of the port's interfaces

  ibv_gid gid_at(int index) const noexcept {
    if (index == 0) return first_gid;
    return port.transport == Transport::kRoce ? gids.at(static_cast<std::uint32_t>(index))
                                              : query_gid(*device, port.number, index);
  }
  Source source(CmAddress address, const ibv_gid& gid, int gid_index) const {
    return {std::move(address), "", device, port, first_gid, gid, gid_index};
  }
};

std::vector<DevicePort> ports_of(const std::vector<Ref<Device>>& devices) {
  std::vector<DevicePort> found;
  for (const Ref<Device>& device : devices)
    for (int number = 1; number <= device->port_count(); ++number) {
      const auto port = device->port(static_cast<std::uint8_t>(number));
      if (!port) continue;
      found.push_back({device, *port});
      DevicePort& added = found.back();
      if (port->transport == Transport::kRoce) added.gids = GidTable::of(*device, *port);
      added.first_gid = port->transport == Transport::kRoce ? added.gids.at(0) : query_gid(*device, port->number, 0);
    }
  return found;
}

// Finds the ports of addresses.
class Locator {
 public:
  explicit Locator(const std::vector<DevicePort>& ports) noexcept : ports_(ports) {}

  // The kernel's choice needs a channel, which is opened only if some port is not RoCE.
  Status open() noexcept {
    if (std::ranges::all_of(ports_, [](const auto& at) { return at.port.transport == Transport::kRoce; })) return {};
    const StandardDescriptors held;
    channel_.reset(rdma_create_event_channel());
    return channel_ != nullptr ? Status() : Status::last_errno();
  }

  // nullopt: no port has the address.
  std::optional<Source> find(const CmAddress& address) const {
    const ibv_gid gid = gid_of(address.ip());
    for (const DevicePort& at : ports_)
      if (const auto index = at.gids.index_of(gid)) return at.source(address, gid, static_cast<int>(*index));
    return channel_ != nullptr ? ask_kernel(address) : std::nullopt;
  }

 private:
  // Binding waits for no event.
  std::optional<Source> ask_kernel(const CmAddress& address) const {
    rdma_cm_id* raw = nullptr;
    if (rdma_create_id(channel_.get(), &raw, nullptr, address.port_space()) != 0) return std::nullopt;
    const CmIdHandle id(raw);
    CmAddress bound = address;
    if (rdma_bind_addr(id.get(), bound.data()) != 0 || id->verbs == nullptr) return std::nullopt;
    for (const DevicePort& at : ports_)
      if (at.device->context() == id->verbs && at.port.number == id->port_num)
        return at.source(address, at.first_gid, -1);
    return std::nullopt;
  }

  const std::vector<DevicePort>& ports_;
  EventChannelHandle channel_;
};

// One source for each IP address of an interface.
Result<std::vector<Source>> ip_sources(const std::vector<DevicePort>& all, const Parameters& parameters) {
  static InterfaceWatch watch;
  const auto interfaces = watch.interfaces();
  if (!interfaces) return failure(interfaces.error());
  Locator locator(all);
  if (Status status = locator.open(); !status.ok()) return failure(status);
  std::vector<Source> found;
  for (const Interface& interface : *interfaces) {
    if (!selected(parameters.interfaces, interface.name)) continue;
    auto source = locator.find(interface.address);
    if (!source || !selected(parameters.devices, source->device->name())) continue;
    if (!source->port.active()) {
      FI_INFO(&provider(), FI_LOG_FABRIC, "%s (%s) is left out: port %d of %s is down\n",
              interface.address.host_string().c_str(), interface.name.c_str(), source->port.number,
              source->device->name());
      continue;
    }
    if (parameters.gid_index >= 0 && source->gid_index != parameters.gid_index) continue;
    source->interface = interface.name;
    source->routable = !interface.address.is_link_local();
    found.push_back(std::move(*source));
  }
  std::ranges::stable_sort(found, [](const Source& a, const Source& b) { return a.routable && !b.routable; });
  return found;
}

CmAddress native_address(const ibv_gid& gid, std::uint16_t pkey) noexcept {
  sockaddr_ib name{};
  name.sib_family = AF_IB;
  name.sib_pkey = pkey;
  std::memcpy(&name.sib_addr, &gid, sizeof gid);
  return CmAddress::from(reinterpret_cast<const sockaddr*>(&name));
}

bool is_zero(const ibv_gid& gid) noexcept {
  return gid.global.subnet_prefix == 0 && gid.global.interface_id == 0;
}

bool is_usable(const Parameters& parameters, const DevicePort& at) noexcept {
  return selected(parameters.devices, at.device->name()) && at.port.active();
}

// One source for each GID and partition of an InfiniBand port.
void add_native_sources(const Parameters& parameters, const std::vector<DevicePort>& ports,
                        std::vector<Source>& found) {
  for (const DevicePort& at : ports) {
    const Device::Port& port = at.port;
    if (!is_usable(parameters, at) || port.transport != Transport::kInfiniBand) continue;
    for (int index = 0; index < port.attr.gid_tbl_len; ++index) {
      if (parameters.gid_index >= 0 && index != parameters.gid_index) continue;
      const ibv_gid gid = at.gid_at(index);
      if (is_zero(gid)) continue;
      for (int key = 0; key < port.attr.pkey_tbl_len; ++key) {
        std::uint16_t pkey = 0;
        if (ibv_query_pkey(at.device->context(), port.number, key, &pkey) != 0 || pkey == 0) continue;
        found.push_back(at.source(native_address(gid, pkey), gid, index));
      }
    }
  }
}

std::vector<Source> datagram_sources(const Parameters& parameters, const std::vector<DevicePort>& ports) {
  std::vector<Source> found;
  const int index = std::max(parameters.gid_index, 0);
  for (const DevicePort& at : ports) {
    if (!is_usable(parameters, at) || at.port.transport == Transport::kIwarp) continue;
    if (const ibv_gid gid = at.gid_at(index); !is_zero(gid)) found.push_back(at.source(CmAddress(), gid, index));
  }
  return found;
}

}  // namespace

Result<Sources> discover(const Parameters& parameters, std::string& why) {
  const auto devices = open_devices(why);
  if (!devices) return failure(devices.error());
  static std::atomic<bool> connects{false};  // the node of librdmacm could be opened
  if (!connects) {
    const EventChannelHandle channel(rdma_create_event_channel());
    const int error = errno;
    if (channel == nullptr) {
      why = fmt::format("/dev/infiniband/rdma_cm cannot be opened: {}", fi_strerror(error));
      return failure(error);
    }
    connects = true;
  }
  const std::vector<DevicePort> ports = ports_of(*devices);
  auto found = ip_sources(ports, parameters);
  if (!found) {
    why = fmt::format("the host's addresses cannot be read: {}", fi_strerror(found.error().error()));
    return failure(found.error());
  }
  if (parameters.interfaces.empty()) add_native_sources(parameters, ports, *found);
  if (found->empty()) {
    if (lacks_descriptors(why)) return failure(FI_EMFILE);
    why = fmt::format("none of this host's addresses belongs to an active port of {}: give its interface an address{}",
                      devices->front()->name(),
                      parameters.interfaces.empty() && parameters.devices.empty() && parameters.gid_index < 0
                          ? ""
                          : ", or widen FI_VERBS_IFACE, FI_VERBS_DEVICE_NAME and FI_VERBS_GID_IDX");
    return failure(FI_ENODATA);
  }
  return Sources{std::move(*found), datagram_sources(parameters, ports)};
}

std::string fabric_name(Transport transport, const ibv_gid& first_gid) {
  if (transport == Transport::kIwarp) return "Ethernet-iWARP";
  return fmt::format("IB-0x{:x}", be64toh(first_gid.global.subnet_prefix));
}

}  // namespace weft::verbs
