// SPDX-License-Identifier: BSD-2-Clause
// Local addresses and the devices behind them; see discovery.h.
#include "verbs/discovery/discovery.h"

#include <fmt/format.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_log.h>

#include <algorithm>
#include <cstring>

#include "objects/interface_watch.h"
#include "verbs/device/logging.h"
#include "verbs/device/verbs_handles.h"

namespace weft::verbs {
namespace {

bool selected(const std::vector<std::string>& prefixes, std::string_view name) noexcept {
  return prefixes.empty() ||
         std::ranges::any_of(prefixes, [&](const std::string& prefix) { return name.starts_with(prefix); });
}

// Fills in the device and port that the kernel chooses for the address. false: none. Binding waits for no event.
bool locate(rdma_event_channel* channel, Source& source) {
  rdma_cm_id* raw = nullptr;
  if (rdma_create_id(channel, &raw, nullptr, source.address.port_space()) != 0) return false;
  const CmIdHandle id(raw);
  if (rdma_bind_addr(id.get(), source.address.data()) != 0 || id->verbs == nullptr) return false;
  auto device = device_of(id->verbs);
  if (!device) return false;
  auto port = (*device)->port(id->port_num);
  if (!port) return false;
  source.device = std::move(*device);
  source.port = *port;
  return true;
}

struct DevicePort {
  Ref<Device> device;
  Device::Port port;
};

std::vector<DevicePort> ports_of(const std::vector<Ref<Device>>& devices) {
  std::vector<DevicePort> found;
  for (const Ref<Device>& device : devices)
    for (int number = 1; number <= device->port_count(); ++number)
      if (const auto port = device->port(static_cast<std::uint8_t>(number))) found.push_back({device, *port});
  return found;
}

// The ports that know the addresses of their interfaces, so that no call of librdmacm is needed for each address.
class RocePorts {
 public:
  explicit RocePorts(const std::vector<DevicePort>& ports) {
    for (const auto& [device, port] : ports)
      if (port.transport == Transport::kRoce)
        ports_.push_back({{device, port}, GidTable::of(*device, port)});
      else
        are_all_ = false;
  }
  // Fills in the device and port that have the source's address.
  bool locate(Source& source) const {
    for (const Entry& entry : ports_) {
      const auto index = entry.gids.index_of(gid_of(source.address.ip()));
      if (!index) continue;
      source.device = entry.device;
      source.port = entry.port;
      source.gid_index = static_cast<int>(*index);
      return true;
    }
    return false;
  }
  bool are_all() const noexcept { return are_all_; }

 private:
  struct Entry : DevicePort {
    GidTable gids;
  };
  std::vector<Entry> ports_;
  bool are_all_ = true;
};

// One source for each IP address of an interface.
std::vector<Source> ip_sources(rdma_event_channel* channel, const std::vector<DevicePort>& all,
                               const Parameters& parameters) {
  std::vector<Source> found;
  static InterfaceWatch watch;
  const auto interfaces = watch.interfaces();
  if (!interfaces) return found;
  const RocePorts ports(all);
  for (const Interface& interface : *interfaces) {
    if (!selected(parameters.interfaces, interface.name)) continue;
    Source source;
    source.address = interface.address;
    source.interface = interface.name;
    source.routable = !interface.address.is_link_local();
    if (!ports.locate(source) && (ports.are_all() || !locate(channel, source))) continue;
    if (!selected(parameters.devices, source.device->name())) continue;
    if (!source.port.active()) {
      FI_INFO(&provider(), FI_LOG_FABRIC, "%s (%s) is left out: port %d of %s is down\n",
              interface.address.host_string().c_str(), interface.name.c_str(), source.port.number,
              source.device->name());
      continue;
    }
    if (parameters.gid_index >= 0 && source.gid_index != parameters.gid_index) continue;
    found.push_back(std::move(source));
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

// The GID at this index of the port's table; zero: none.
ibv_gid gid_at(const Device& device, const Device::Port& port, int index) noexcept {
  ibv_gid gid{};
  return ibv_query_gid(device.context(), port.number, index, &gid) == 0 ? gid : ibv_gid{};
}

// One source for each GID and partition of an InfiniBand port.
void add_native_sources(const Parameters& parameters, const std::vector<DevicePort>& ports,
                        std::vector<Source>& found) {
  for (const DevicePort& at : ports) {
    const auto& [device, port] = at;
    if (!is_usable(parameters, at) || port.transport != Transport::kInfiniBand) continue;
    for (int index = 0; index < port.attr.gid_tbl_len; ++index) {
      if (parameters.gid_index >= 0 && index != parameters.gid_index) continue;
      const ibv_gid gid = gid_at(*device, port, index);
      if (is_zero(gid)) continue;
      for (int key = 0; key < port.attr.pkey_tbl_len; ++key) {
        std::uint16_t pkey = 0;
        if (ibv_query_pkey(device->context(), port.number, key, &pkey) != 0 || pkey == 0) continue;
        found.push_back({native_address(gid, pkey), "", device, port, index});
      }
    }
  }
}

}  // namespace

Result<std::vector<Source>> discover(const Parameters& parameters, std::string& why) {
  const auto devices = open_devices(&why);
  if (!devices) return failure(devices.error());
  const EventChannelHandle channel(rdma_create_event_channel());
  if (channel == nullptr) {
    const int error = errno;
    why = fmt::format("/dev/infiniband/rdma_cm cannot be opened: {}", fi_strerror(error));
    return failure(error);
  }
  const std::vector<DevicePort> ports = ports_of(*devices);
  std::vector<Source> found = ip_sources(channel.get(), ports, parameters);
  if (parameters.interfaces.empty()) add_native_sources(parameters, ports, found);
  if (found.empty()) {
    why = fmt::format("none of this host's addresses belongs to an active port of {}: give its interface an address{}",
                      devices->front()->name(),
                      parameters.interfaces.empty() && parameters.devices.empty() && parameters.gid_index < 0
                          ? ""
                          : ", or widen FI_VERBS_IFACE, FI_VERBS_DEVICE_NAME and FI_VERBS_GID_IDX");
    return failure(FI_ENODATA);
  }
  return found;
}

std::vector<Source> discover_native(const Parameters& parameters) {
  std::vector<Source> found;
  const auto devices = open_devices(nullptr);
  if (!devices) return found;
  const int index = std::max(parameters.gid_index, 0);
  for (const DevicePort& at : ports_of(*devices)) {
    const auto& [device, port] = at;
    if (!is_usable(parameters, at) || port.transport == Transport::kIwarp) continue;
    const ibv_gid gid = gid_at(*device, port, index);
    if (!is_zero(gid)) found.push_back({CmAddress(), "", device, port, index, true, gid});
  }
  return found;
}

std::string fabric_name(const Device& device, const Device::Port& port) {
  if (port.transport == Transport::kIwarp) return "Ethernet-iWARP";
  return fmt::format("IB-0x{:x}", be64toh(gid_at(device, port, 0).global.subnet_prefix));
}

}  // namespace weft::verbs
