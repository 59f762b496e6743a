// SPDX-License-Identifier: BSD-2-Clause
// Devices and their contexts: the data behind ibv_get_device_list(3), ibv_open_device(3) and the queries. The context
// that librdmacm keeps for a device (rdma_cm_id::verbs) does not count as an object of the program.
#pragma once
#include <netinet/in.h>

#include <deque>

#include "fake_readiness.h"
#include "fake_world.h"

namespace fake {

struct Context;

struct GidEntry {
  ibv_gid gid;
  uint32_t ifindex;
};

struct Port {
  uint8_t number;
  ibv_port_state state = IBV_PORT_ACTIVE;
  std::vector<sockaddr_storage> addresses = {};
  std::vector<GidEntry> gids = {};
};

struct Device : ibv_device {
  DeviceConfig config;
  std::vector<Port> ports;
  std::vector<Context*> contexts;
  Context* cm_context = nullptr;
  bool removed = false;
  int live[static_cast<int>(Kind::kCount)] = {};  // against the limits of the device
  uint64_t locked_bytes = 0;
};

struct AsyncEvent {
  ibv_async_event event;
  Tag* tag;  // the object it concerns, or null
};

struct Context : verbs_context {
  Tag tag;
  Device* device_of = nullptr;
  Readiness async;
  std::deque<AsyncEvent> async_events;
};

inline Context& context_of(ibv_context* context, const char* call) {
  if (!context) fatal(call, "context is null");
  Context& object = *static_cast<Context*>(verbs_get_ctx(context));
  if (object.tag.magic != Tag::kAlive || object.tag.kind != Kind::kContext)
    object_fault(call, context, object.tag, Kind::kContext);
  return object;
}

Port* port_of(Device& device, uint32_t number);                         // null: no such port
Port* port_with_address(Device& device, const sockaddr* address);       // null: no port has it
const sockaddr_storage* address_of_family(Device& device, int family);  // an address of any port; null: none
void ensure_devices();  // creates the default device if no device exists
Context* cm_context_of(Device& device);
Device* device_with_address(const sockaddr* address);
Device* device_with_gid(const ibv_gid& gid);
Device* default_device(int family);
ibv_gid gid_of(const sockaddr* address);
bool parse_address(const std::string& text, sockaddr_storage* address);
bool same_host(const sockaddr* a, const sockaddr* b);
bool is_any(const sockaddr* address);
void push_async_event(Context& context, const ibv_async_event& event, Tag* tag);
void drop_async_events(Context& context, const Tag* tag);
void remove_ids_of(Device& device);               // fake_cm_events.cc: RDMA_CM_EVENT_DEVICE_REMOVAL
void fail_queues_of(Device& device);              // fake_queue_pair.cc: every queue pair goes to its error state
Tag* tag_of_event(const ibv_async_event& event);  // fake_queue_pair.cc: of the object it concerns, or null
void set_query_ops(Context& context);
void set_completion_ops(Context& context);
void set_posting_ops(Context& context);
void set_shared_receive_ops(Context& context);

}  // namespace fake
