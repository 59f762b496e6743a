// SPDX-License-Identifier: BSD-2-Clause
// Identifiers up to a resolved route: rdma_create_id(3), rdma_bind_addr(3), rdma_resolve_addr(3),
// rdma_resolve_route(3), rdma_set_option(3), rdma_migrate_id(3), rdma_destroy_id(3).
#include "fake_cm_id.h"

#include <arpa/inet.h>
#include <endian.h>
#include <infiniband/ib.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

namespace fake {

namespace {

// The service id of AF_IB has the port space in front of the port.
in_port_t port_of(const sockaddr_storage& address) {
  if (address.ss_family == AF_IB)
    return htons(static_cast<uint16_t>(be64toh(reinterpret_cast<const sockaddr_ib&>(address).sib_sid)));
  return address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                       : reinterpret_cast<const sockaddr_in&>(address).sin_port;
}

void set_port(sockaddr_storage& address, in_port_t port) {
  if (address.ss_family == AF_IB) {
    auto& native = reinterpret_cast<sockaddr_ib&>(address);
    native.sib_sid = htobe64(uint64_t{RDMA_PS_IB} << 16 | ntohs(port));
    native.sib_sid_mask = htobe64(UINT64_MAX);
  } else if (address.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(address).sin6_port = port;
  } else {
    reinterpret_cast<sockaddr_in&>(address).sin_port = port;
  }
}

size_t size_of(const sockaddr* address) {
  if (address->sa_family == AF_IB) return sizeof(sockaddr_ib);
  return address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

std::string text_of(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  const ibv_gid gid = gid_of(address);
  if (address->sa_family == AF_INET)
    inet_ntop(AF_INET, gid.raw + 12, text, sizeof text);
  else
    inet_ntop(AF_INET6, gid.raw, text, sizeof text);
  return text;
}

bool port_conflict(const Id& id, const sockaddr* address, in_port_t port) {
  for (auto& [serial, other] : World::get().ids) {
    if (other == &id || !other->bound || other->ps != id.ps || other->role == Role::kPassive) continue;
    if (port_of(other->route.addr.src_storage) != port) continue;
    const sockaddr* theirs = &other->route.addr.src_addr;
    if (!is_any(address) && !is_any(theirs) && !same_host(address, theirs)) continue;
    if (address->sa_family != theirs->sa_family && (id.af_only || other->af_only)) continue;
    if (id.reuse_address && other->reuse_address && other->state != CmState::kListening) continue;
    return true;
  }
  return false;
}

in_port_t free_port(const Id& id, const sockaddr* address) {
  static uint16_t next = 0;  // deterministic, for tests
  for (int tries = 0; tries < 28000; ++tries) {
    const in_port_t port = htons(static_cast<uint16_t>(32768 + next++ % 28000));
    if (!port_conflict(id, address, port)) return port;
  }
  return 0;
}

void bind_to_device(Id& id, Device& device) {
  id.device = &device;
  id.verbs = &cm_context_of(device)->context;
  const Port* port = port_with_address(device, &id.route.addr.src_addr);
  id.port_num = port ? port->number : 1;
}

}  // namespace

Id* id_with_serial(uint64_t serial) {
  const auto found = World::get().ids.find(serial);
  return found == World::get().ids.end() ? nullptr : found->second;
}

Id* make_id(rdma_event_channel* channel, void* context, rdma_port_space space, bool counted) {
  auto* id = new Id{};
  register_object(id->tag, Kind::kId, counted);
  id->channel = channel;
  id->context = context;
  id->ps = space;
  id->qp_type = space == RDMA_PS_UDP || space == RDMA_PS_IPOIB ? IBV_QPT_UD : IBV_QPT_RC;
  ++static_cast<Channel*>(channel)->tag.users;
  World::get().ids[id->tag.serial] = id;
  return id;
}

void unmake_id(Id& id) {
  drop_events_of(id);
  notify_of_destruction(id);
  World::get().ids.erase(id.tag.serial);
  --static_cast<Channel*>(id.channel)->tag.users;
  delete id.route.path_rec;
  id.route.path_rec = nullptr;
  destroy_object(&id);
}

bool bind_address(Id& id, const sockaddr* address, int* error) {
  *error = EINVAL;
  if (id.bound) return false;
  *error = EAFNOSUPPORT;
  if (address->sa_family != AF_INET && address->sa_family != AF_INET6 && address->sa_family != AF_IB) return false;
  Device* device = nullptr;
  *error = ENODEV;
  if (!is_any(address)) {
    device = device_with_address(address);
    if (!device) {
      *error = EADDRNOTAVAIL;
      return false;
    }
  }
  sockaddr_storage storage = {};
  std::memcpy(&storage, address, size_of(address));
  in_port_t port = port_of(storage);
  *error = EADDRINUSE;
  if (port && port_conflict(id, address, port)) return false;
  if (!port) port = free_port(id, address);
  if (!port) return false;
  set_port(storage, port);
  id.route.addr.src_storage = storage;
  id.bound = true;
  id.state = CmState::kBound;
  if (device) bind_to_device(id, *device);
  return true;
}

namespace {

// The address that the routing table would choose towards `to`.
bool choose_source(Id& id, const sockaddr* to, int* error) {
  sockaddr_storage source = {};
  Device* device = id.device ? id.device : device_with_address(to);
  if (device && same_host(reinterpret_cast<const sockaddr*>(to), to) && device_with_address(to)) {
    std::memcpy(&source, to, size_of(to));
  } else {
    device = default_device(to->sa_family);
    if (!device) {
      *error = ENODEV;
      return false;
    }
    source = *address_of_family(*device, to->sa_family);
  }
  set_port(source, 0);
  return bind_address(id, reinterpret_cast<const sockaddr*>(&source), error);
}

Reach reach_of(const sockaddr* to) {
  const auto& table = World::get().reach;
  const auto found = table.find(text_of(to));
  return found == table.end() ? Reach::kSilent : found->second;
}

void resolve_address(Id& id, int timeout_ms) {
  World& world = World::get();
  id.state = CmState::kAddressQuery;
  if (id.device && id.device->removed) return push_event(id, RDMA_CM_EVENT_ADDR_ERROR, -ENODEV);
  if (!id.reachable && id.reach == Reach::kNoRoute) {
    id.state = CmState::kBound;
    return push_event(id, RDMA_CM_EVENT_ADDR_ERROR, -ENETUNREACH);
  }
  if (!id.reachable && id.reach == Reach::kNoNeighbour) {
    world.after(timeout_ms, &id, [&id] {
      if (id.state != CmState::kAddressQuery) return;
      id.state = CmState::kBound;
      push_event(id, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT);
    });
    return;
  }
  id.state = CmState::kAddressResolved;
  push_event(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
}

void fill_path(Id& id) {
  if (!id.route.path_rec) id.route.path_rec = new ibv_sa_path_rec{};
  ibv_sa_path_rec& path = *id.route.path_rec;
  path.sgid = id.route.addr.addr.ibaddr.sgid = gid_of(&id.route.addr.src_addr);
  path.dgid = id.route.addr.addr.ibaddr.dgid = gid_of(&id.route.addr.dst_addr);
  path.hop_limit = 64;
  path.pkey = id.route.addr.addr.ibaddr.pkey = 0xffff;
  path.mtu = static_cast<uint8_t>(id.device->config.mtu);
  path.traffic_class = id.tos;
  id.route.num_paths = 1;
}

int set_byte(uint8_t* to, const void* value, size_t size) {
  if (size != 1) return EINVAL;
  std::memcpy(to, value, 1);
  return 0;
}

int set_int(int* to, const void* value, size_t size) {
  if (size != sizeof(int)) return EINVAL;
  std::memcpy(to, value, sizeof(int));
  return 0;
}

}  // namespace

std::vector<IdState> ids() {
  constexpr const char* kNames[] = {
      "idle",           "bound",       "address query",   "address resolved",    "route query",
      "route resolved", "listening",   "request sent",    "request received",    "reply sent",
      "reply received", "established", "disconnect sent", "disconnect received", "timewait",
      "failed"};
  World& world = World::get();
  Guard guard(world.mutex);
  std::vector<IdState> result;
  for (auto& [serial, id] : world.ids)
    if (!id->tag.excused)
      result.push_back({id, serial, id->role, kNames[static_cast<int>(id->state)], ntohs(rdma_get_src_port(id)),
                        ntohs(rdma_get_dst_port(id))});
  return result;
}

ConnectionState connection(const rdma_cm_id* id) {
  World& world = World::get();
  Guard guard(world.mutex);
  const Id& own = id_of(id, "fake::connection");
  return {own.mine, own.tos, own.ack_timeout};
}

}  // namespace fake

using namespace fake;

extern "C" {

int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** result, void* context, rdma_port_space space) {
  Entry entry(Call::rdma_create_id);
  if (entry.error()) return cm_error(entry.error());
  if (space != RDMA_PS_TCP && space != RDMA_PS_UDP && space != RDMA_PS_IB && space != RDMA_PS_IPOIB)
    return cm_error(EPROTONOSUPPORT);
  ensure_devices();
  const bool sync = !channel;
  if (sync) {
    auto* own = new Channel{};
    register_object(own->tag, Kind::kChannel, false);
    own->fd = own->ready.fd();
    channel = own;
  }
  checked<Channel>(channel, Kind::kChannel, entry.name());
  Id* id = make_id(channel, context, space, true);
  id->sync = sync;
  *result = id;
  return 0;
}

int rdma_destroy_id(rdma_cm_id* id) {
  Entry entry(Call::rdma_destroy_id);
  Id& own = id_of(id, entry.name());
  if (entry.error()) {
    excuse(own.tag);
    excuse(static_cast<Channel*>(id->channel)->tag);
    return cm_error(entry.error());
  }
  if (own.sync && id->event) {
    rdma_cm_event* event = id->event;
    id->event = nullptr;
    entry.lock.unlock();
    rdma_ack_cm_event(event);
    entry.lock.lock();
  }
  // Another thread may have read an event and be about to acknowledge it.
  for (int tries = 0; own.unacked && tries < 1000; ++tries) {
    entry.lock.unlock();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    entry.lock.lock();
  }
  if (own.unacked)
    fatal(entry.name(), "would block: " + std::to_string(own.unacked) + " events of the id are not acknowledged");
  if (has_qp(own) && !entry.world.destruction_failed)
    fatal(entry.name(), "the id still has a queue pair, which must be destroyed before");
  auto* channel = static_cast<Channel*>(id->channel);
  const bool sync = own.sync;
  unmake_id(own);
  if (sync) {
    channel->ready.close();
    destroy_object(channel);
  }
  return 0;
}

int rdma_bind_addr(rdma_cm_id* id, sockaddr* address) {
  Entry entry(Call::rdma_bind_addr);
  Id& own = id_of(id, entry.name());
  if (entry.error()) return cm_error(entry.error());
  int error = 0;
  return bind_address(own, address, &error) ? 0 : cm_error(error);
}

int rdma_resolve_addr(rdma_cm_id* id, sockaddr* from, sockaddr* to, int timeout_ms) {
  Entry entry(Call::rdma_resolve_addr);
  Id& own = id_of(id, entry.name());
  if (entry.error()) return cm_error(entry.error());
  if (own.state != CmState::kIdle && own.state != CmState::kBound) return cm_error(EINVAL);
  int error = 0;
  if (from && from->sa_family && from->sa_family != to->sa_family) return cm_error(EINVAL);
  if (from && !is_any(from) && !own.bound && !bind_address(own, from, &error)) return cm_error(error);
  if (!own.bound && !choose_source(own, to, &error)) return cm_error(error);
  if (own.route.addr.src_addr.sa_family != to->sa_family) return cm_error(EINVAL);
  if (!own.device) {  // bound to a port only
    Device* device = device_with_address(to);
    if (!device) device = default_device(to->sa_family);
    if (!device) return cm_error(ENODEV);
    const in_port_t port = port_of(own.route.addr.src_storage);
    const sockaddr_storage* source = address_of_family(*device, to->sa_family);
    own.route.addr.src_storage = source ? *source : device->ports.front().addresses.front();
    set_port(own.route.addr.src_storage, port);
    bind_to_device(own, *device);
  }
  std::memcpy(&own.route.addr.dst_storage, to, size_of(to));
  own.reachable = device_with_address(to) != nullptr || own.ps == RDMA_PS_UDP;
  own.reach = reach_of(to);
  own.role = Role::kActive;
  resolve_address(own, timeout_ms);
  return own.sync ? wait_for_event(entry, own) : 0;
}

int rdma_resolve_route(rdma_cm_id* id, int timeout_ms) {
  Entry entry(Call::rdma_resolve_route);
  Id& own = id_of(id, entry.name());
  if (entry.error()) return cm_error(entry.error());
  if (own.state != CmState::kAddressResolved) return cm_error(EINVAL);
  own.state = CmState::kRouteQuery;
  if (own.device->removed) {
    own.state = CmState::kAddressResolved;
    push_event(own, RDMA_CM_EVENT_ROUTE_ERROR, -ENODEV);
  } else if (!own.reachable && own.reach == Reach::kNoPath) {
    entry.world.after(timeout_ms, &own, [&own] {
      if (own.state != CmState::kRouteQuery) return;
      own.state = CmState::kAddressResolved;
      push_event(own, RDMA_CM_EVENT_ROUTE_ERROR, -ETIMEDOUT);
    });
  } else {
    fill_path(own);
    own.state = CmState::kRouteResolved;
    push_event(own, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
  }
  return own.sync ? wait_for_event(entry, own) : 0;
}

int rdma_set_option(rdma_cm_id* id, int level, int option, void* value, size_t size) {
  Entry entry(Call::rdma_set_option);
  Id& own = id_of(id, entry.name());
  if (entry.error()) return cm_error(entry.error());
  if (level != RDMA_OPTION_ID) return cm_error(ENOSYS);
  switch (option) {
    case RDMA_OPTION_ID_TOS:
      return cm_error(set_byte(&own.tos, value, size));
    case RDMA_OPTION_ID_ACK_TIMEOUT:
      return cm_error(set_byte(&own.ack_timeout, value, size));
    case RDMA_OPTION_ID_REUSEADDR:
      return cm_error(set_int(&own.reuse_address, value, size));
    case RDMA_OPTION_ID_AFONLY:
      return cm_error(own.bound ? EINVAL : set_int(&own.af_only, value, size));
    default:
      return cm_error(ENOSYS);
  }
}

int rdma_migrate_id(rdma_cm_id* id, rdma_event_channel* channel) {
  Entry entry(Call::rdma_migrate_id);
  Id& own = id_of(id, entry.name());
  if (entry.error()) return cm_error(entry.error());
  if (!channel) return cm_error(EOPNOTSUPP);  // migration to synchronous operation is not supported here
  Channel& to = checked<Channel>(channel, Kind::kChannel, entry.name());
  if (own.sync) {
    while (rdma_cm_event* last = std::exchange(id->event, nullptr)) {
      entry.lock.unlock();
      rdma_ack_cm_event(last);
      entry.lock.lock();
    }
  }
  if (own.unacked) fatal(entry.name(), "would block: events of the id are not acknowledged");
  auto* from = static_cast<Channel*>(id->channel);
  --from->tag.users;
  ++to.tag.users;
  move_events(own, to);
  id->channel = channel;
  if (std::exchange(own.sync, false)) {
    from->ready.close();
    destroy_object(from);
  }
  return 0;
}

__be16 rdma_get_src_port(rdma_cm_id* id) {
  return port_of(id->route.addr.src_storage);
}

__be16 rdma_get_dst_port(rdma_cm_id* id) {
  return port_of(id->route.addr.dst_storage);
}

}  // extern "C"
