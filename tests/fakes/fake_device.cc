// SPDX-License-Identifier: BSD-2-Clause
// Devices: their addresses, ibv_get_device_list(3), ibv_open_device(3), rdma_get_devices(3).
#include "fake_device.h"
#include "fake_iwarp.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <infiniband/ib.h>
#include <net/if.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace fake {

namespace {

void add_gid(Port& port, const sockaddr* address, uint32_t ifindex) {
  port.gids.push_back({gid_of(address), ifindex});
}

// A port's InfiniBand address is its GID.
void add_native_address(const Device& device, Port& port, const sockaddr* gid) {
  sockaddr_storage storage = {};
  auto& native = reinterpret_cast<sockaddr_ib&>(storage);
  native.sib_family = AF_IB;
  native.sib_pkey = htobe16(device.config.pkeys.front());
  std::memcpy(&native.sib_addr, gid_of(gid).raw, sizeof native.sib_addr);
  port.addresses.push_back(storage);
}

void add_address(const Device& device, Port& port, const sockaddr* address, uint32_t ifindex) {
  sockaddr_storage storage = {};
  const bool four = address->sa_family == AF_INET;
  std::memcpy(&storage, address, four ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
  if (four)
    reinterpret_cast<sockaddr_in*>(&storage)->sin_port = 0;
  else
    reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port = 0;
  port.addresses.push_back(storage);
  if (!device.config.infiniband) add_gid(port, address, ifindex);
}

void add_host_addresses(Device& device) {
  Port& port = device.ports.back();
  ifaddrs* list = nullptr;
  if (getifaddrs(&list)) return;
  for (ifaddrs* entry = list; entry; entry = entry->ifa_next) {
    if (!entry->ifa_addr || !(entry->ifa_flags & IFF_UP)) continue;
    if (entry->ifa_addr->sa_family == AF_INET || entry->ifa_addr->sa_family == AF_INET6)
      add_address(device, port, entry->ifa_addr, if_nametoindex(entry->ifa_name));
  }
  freeifaddrs(list);
}

// `link_local` is always the first entry of the port's table.
Port& add_port(Device& device, const std::vector<std::string>& addresses, const std::string& link_local) {
  Port& port = device.ports.emplace_back(Port{.number = static_cast<uint8_t>(device.ports.size() + 1)});
  sockaddr_storage address;
  parse_address(link_local, &address);
  add_gid(port, reinterpret_cast<sockaddr*>(&address), port.number);
  if (device.config.infiniband) add_native_address(device, port, reinterpret_cast<sockaddr*>(&address));
  for (const std::string& text : addresses) {
    if (!parse_address(text, &address)) fatal("fake::add_device", "not a numeric address: " + text);
    add_address(device, port, reinterpret_cast<sockaddr*>(&address), port.number);
  }
  return port;
}

Device* make_device(const DeviceConfig& config) {
  World& world = World::get();
  auto* device = new Device{};
  device->config = config;
  device->node_type = config.iwarp ? IBV_NODE_RNIC : IBV_NODE_CA;
  device->transport_type = config.iwarp ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
  if (config.own_transport) {
    device->node_type = IBV_NODE_UNSPECIFIED;
    device->transport_type = IBV_TRANSPORT_UNSPECIFIED;
  }
  std::snprintf(device->name, sizeof device->name, "%s", config.name.c_str());
  std::snprintf(device->dev_name, sizeof device->dev_name, "uverbs%zu", world.devices.size());
  std::snprintf(device->dev_path, sizeof device->dev_path, "/nonexistent/%s", device->dev_name);
  std::snprintf(device->ibdev_path, sizeof device->ibdev_path, "/nonexistent/%s", device->name);
  if (config.behind_a_dead_port) add_port(*device, {}, "fe80::200:ff:fe00:2").state = IBV_PORT_DOWN;
  add_port(*device, config.addresses, "fe80::200:ff:fe00:1");
  if (config.addresses.empty()) add_host_addresses(*device);
  if (!config.second.empty()) add_port(*device, config.second, "fe80::200:ff:fe00:2");
  world.devices.push_back(device);
  return device;
}

Context* make_context(Device& device, bool counted) {
  auto* context = new Context{};
  register_object(context->tag, Kind::kContext, counted);
  context->device_of = &device;
  context->sz = sizeof(verbs_context);
  context->context.device = &device;
  context->context.cmd_fd = -1;
  context->context.async_fd = context->async.fd();
  context->context.num_comp_vectors = 4;
  context->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  pthread_mutex_init(&context->context.mutex, nullptr);
  set_query_ops(*context);
  set_completion_ops(*context);
  set_posting_ops(*context);
  set_shared_receive_ops(*context);
  device.contexts.push_back(context);
  return context;
}

}  // namespace

DeviceConfig iwarp_device() {
  DeviceConfig config;
  config.iwarp = true;
  config.atomic_cap = IBV_ATOMIC_NONE;
  config.max_sge_rd = 1;
  return config;
}

void ensure_devices() {
  if (!World::get().devices.empty()) return;
  const char* port = std::getenv("FAKE_RDMA_PORT");
  DeviceConfig config;
  config.behind_a_dead_port = port && std::string_view(port) == "2";
  if (const char* kind = std::getenv("FAKE_RDMA_DEVICE"); kind && std::string_view(kind) == "iwarp")
    config = iwarp_device();
  make_device(config);
}

Context* cm_context_of(Device& device) {
  if (!device.cm_context) device.cm_context = make_context(device, false);
  return device.cm_context;
}

bool parse_address(const std::string& text, sockaddr_storage* address) {
  *address = {};
  auto* four = reinterpret_cast<sockaddr_in*>(address);
  auto* six = reinterpret_cast<sockaddr_in6*>(address);
  if (inet_pton(AF_INET, text.c_str(), &four->sin_addr) == 1) {
    four->sin_family = AF_INET;
    return true;
  }
  *address = {};
  six->sin6_family = AF_INET6;
  return inet_pton(AF_INET6, text.c_str(), &six->sin6_addr) == 1;
}

bool same_host(const sockaddr* a, const sockaddr* b) {
  return a->sa_family == b->sa_family && !std::memcmp(gid_of(a).raw, gid_of(b).raw, sizeof(ibv_gid));
}

bool is_any(const sockaddr* address) {
  const ibv_gid gid = gid_of(address);
  const auto* from = gid.raw + (address->sa_family == AF_INET ? 12 : 0);
  return std::all_of(from, gid.raw + sizeof gid, [](uint8_t byte) { return byte == 0; });
}

ibv_gid gid_of(const sockaddr* address) {
  ibv_gid gid = {};
  if (address->sa_family == AF_INET) {
    gid.raw[10] = gid.raw[11] = 0xff;
    std::memcpy(gid.raw + 12, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, 4);
  } else if (address->sa_family == AF_IB) {
    std::memcpy(gid.raw, &reinterpret_cast<const sockaddr_ib*>(address)->sib_addr, 16);
  } else {
    std::memcpy(gid.raw, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, 16);
  }
  return gid;
}

Port* port_of(Device& device, uint32_t number) {
  return number == 0 || number > device.ports.size() ? nullptr : &device.ports[number - 1];
}

Port* port_with_address(Device& device, const sockaddr* address) {
  for (Port& port : device.ports)
    for (const sockaddr_storage& own : port.addresses)
      if (same_host(reinterpret_cast<const sockaddr*>(&own), address)) return &port;
  return nullptr;
}

const sockaddr_storage* address_of_family(Device& device, int family) {
  for (const Port& port : device.ports)
    for (auto own = port.addresses.rbegin(); own != port.addresses.rend(); ++own)
      if (own->ss_family == family) return &*own;
  return nullptr;
}

Device* device_with_address(const sockaddr* address) {
  ensure_devices();
  for (Device* device : World::get().devices)
    if (!device->removed && port_with_address(*device, address)) return device;
  return nullptr;
}

Device* device_with_gid(const ibv_gid& gid) {
  for (Device* device : World::get().devices)
    for (const Port& port : device->ports)
      for (const GidEntry& own : port.gids)
        if (!device->removed && !std::memcmp(own.gid.raw, gid.raw, sizeof gid.raw)) return device;
  return nullptr;
}

Device* default_device(int family) {
  ensure_devices();
  for (Device* device : World::get().devices)
    if (!device->removed && address_of_family(*device, family)) return device;
  return nullptr;
}

void add_device(const DeviceConfig& config) {
  World& world = World::get();
  Guard guard(world.mutex);
  make_device(config);
}

void remove_device(const std::string& name) {
  World& world = World::get();
  Guard guard(world.mutex);
  for (Device* device : world.devices) {
    if (device->config.name != name || device->removed) continue;
    device->removed = true;
    fail_queues_of(*device);
    for (Context* context : device->contexts)
      push_async_event(*context, {.element = {.port_num = 0}, .event_type = IBV_EVENT_DEVICE_FATAL}, nullptr);
    remove_ids_of(*device);
  }
}

void set_port_state(const std::string& name, ibv_port_state state, uint8_t number) {
  World& world = World::get();
  Guard guard(world.mutex);
  for (Device* device : world.devices) {
    if (device->config.name != name) continue;
    Port* port = port_of(*device, number);
    if (!port) fatal("fake::set_port_state", "no such port");
    port->state = state;
    const ibv_event_type type = state == IBV_PORT_ACTIVE ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR;
    for (Context* context : device->contexts)
      push_async_event(*context, {.element = {.port_num = number}, .event_type = type}, nullptr);
  }
}

void raise_device(const std::string& name, ibv_event_type event) {
  World& world = World::get();
  Guard guard(world.mutex);
  for (Device* device : world.devices) {
    if (device->config.name != name) continue;
    if (event == IBV_EVENT_DEVICE_FATAL) fail_queues_of(*device);
    for (Context* context : device->contexts)
      push_async_event(*context, {.element = {.port_num = 1}, .event_type = event}, nullptr);
  }
}

void restore_device(const std::string& name) {
  World& world = World::get();
  Guard guard(world.mutex);
  for (Device* device : world.devices) {
    if (device->config.name != name) continue;
    device->removed = false;
    for (Context* context : device->contexts) context->async.set(!context->async_events.empty());
  }
}

void reset() {
  deliver_all();
  deliver_data();
  World& world = World::get();
  Guard guard(world.mutex);
  world.forget_scripts();
}

void retire_devices() {
  World& world = World::get();
  Guard guard(world.mutex);
  // Programs may still hold their contexts, so devices are set aside and not destroyed.
  world.retired_devices.insert(world.retired_devices.end(), world.devices.begin(), world.devices.end());
  world.devices.clear();
}

}  // namespace fake

using namespace fake;

extern "C" {

ibv_device** ibv_get_device_list(int* count) {
  Entry entry(Call::ibv_get_device_list);
  if (entry.error()) return null_error(entry.error());
  ensure_devices();
  ++entry.world.live[static_cast<int>(Kind::kList)];
  auto** list = new ibv_device*[entry.world.devices.size() + 1];
  int used = 0;
  for (Device* device : entry.world.devices)
    if (!device->removed) list[used++] = device;
  list[used] = nullptr;
  if (count) *count = used;
  return list;
}

void ibv_free_device_list(ibv_device** list) {
  World& world = World::get();
  Guard guard(world.mutex);
  --world.live[static_cast<int>(Kind::kList)];
  delete[] list;
}

const char* ibv_get_device_name(ibv_device* device) {
  return device->name;
}

int ibv_get_device_index(ibv_device*) {
  return 0;
}

__be64 ibv_get_device_guid(ibv_device*) {
  return htobe64(0x0200000000000001);
}

ibv_context* ibv_open_device(ibv_device* device) {
  Entry entry(Call::ibv_open_device);
  if (entry.error()) return null_error(entry.error());
  auto* own = static_cast<Device*>(device);
  if (own->removed) return null_error(ENODEV);
  return &make_context(*own, true)->context;
}

int ibv_close_device(ibv_context* context) {
  Entry entry(Call::ibv_close_device);
  Context& own = context_of(context, entry.name());
  if (entry.error()) {
    excuse(own.tag);
    return entry.error();
  }
  if (&own == own.device_of->cm_context) fatal(entry.name(), "the context belongs to librdmacm");
  if (own.tag.users && entry.world.destruction_failed) return busy(own.tag);
  if (own.tag.users) fatal(entry.name(), std::to_string(own.tag.users) + " objects of the context still live");
  auto& contexts = own.device_of->contexts;
  contexts.erase(std::remove(contexts.begin(), contexts.end(), &own), contexts.end());
  own.async.close();
  destroy_object(&own);
  return 0;
}

ibv_context** rdma_get_devices(int* count) {
  Entry entry(Call::rdma_get_devices);
  if (entry.error()) return null_error(entry.error());
  ensure_devices();
  auto** list = new ibv_context*[entry.world.devices.size() + 1];
  int used = 0;
  for (Device* device : entry.world.devices)
    if (!device->removed) list[used++] = &cm_context_of(*device)->context;
  list[used] = nullptr;
  if (count) *count = used;
  ++entry.world.live[static_cast<int>(Kind::kList)];
  return list;
}

void rdma_free_devices(ibv_context** list) {
  World& world = World::get();
  Guard guard(world.mutex);
  --world.live[static_cast<int>(Kind::kList)];
  delete[] list;
}

int ibv_fork_init() {
  Entry entry(Call::ibv_fork_init);
  return entry.error();
}

ibv_fork_status ibv_is_fork_initialized() {
  return IBV_FORK_ENABLED;
}

}  // extern "C"
