// SPDX-License-Identifier: BSD-2-Clause
// Event channels: rdma_create_event_channel(3), rdma_get_cm_event(3), rdma_ack_cm_event(3); and holding, delivering and
// injecting events.
#include <algorithm>
#include <cstring>
#include <utility>

#include "fake_cm_id.h"

namespace fake {

namespace {

CmEvent* make_event(Id& owner, rdma_cm_event_type type, int status) {
  auto* event = new CmEvent{};
  register_object(event->tag, Kind::kEvent, false);
  event->id = &owner;
  event->owner = &owner;
  event->event = type;
  event->status = status;
  return event;
}

void discard(CmEvent* event) {
  if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST && event->id != event->owner) {
    Id& incoming = *static_cast<Id*>(event->id);
    --event->owner->unread_requests;
    unmake_id(incoming);
  }
  destroy_object(event);
}

void enqueue(CmEvent* event) {
  auto& channel = *static_cast<Channel*>(event->owner->channel);
  channel.events.push_back(event);
  channel.ready.set(true);
  World::get().changed.notify_all();
}

bool is_held(const CmEvent& event) {
  const auto& rules = World::get().hold_rules;
  return std::any_of(rules.begin(), rules.end(), [&](const HoldRule& rule) {
    const bool becomes = rule.event == RDMA_CM_EVENT_ESTABLISHED && event.event == RDMA_CM_EVENT_CONNECT_RESPONSE;
    return (!rule.id || rule.id == event.owner) && (rule.event < 0 || rule.event == event.event || becomes);
  });
}

void submit(CmEvent* event) {
  if (is_held(*event))
    World::get().held.push_back(event);
  else
    enqueue(event);
}

void set_data(CmEvent& event, const void* data, size_t length, size_t padded) {
  if (length) std::memcpy(event.data, data, std::min(length, sizeof event.data));
  const size_t total = std::max(length, padded);
  event.param.conn.private_data = total ? event.data : nullptr;
  event.param.conn.private_data_len = static_cast<uint8_t>(total);
}

// Removes the events of an identifier from a queue.
template <class Queue>
std::vector<CmEvent*> extract(Queue& queue, const Id& id) {
  std::vector<CmEvent*> removed;
  for (auto it = queue.begin(); it != queue.end();) {
    if ((*it)->owner == &id) {
      removed.push_back(*it);
      it = queue.erase(it);
    } else {
      ++it;
    }
  }
  return removed;
}

// The work that librdmacm does when an event is read. False: the program does not get the event.
bool process(CmEvent& event) {
  Id& id = *event.owner;
  switch (event.event) {
    case RDMA_CM_EVENT_CONNECT_REQUEST: {
      if (event.id == event.owner) return true;  // injected at an identifier that does not listen
      --id.unread_requests;
      Id& incoming = *static_cast<Id*>(event.id);
      incoming.tag.counted = true;
      ++World::get().live[static_cast<int>(Kind::kId)];
      return true;
    }
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
      if (!has_qp(id)) return true;
      if (id.state == CmState::kReplyReceived && !cm_connect_qp(id)) {
        event.event = RDMA_CM_EVENT_ESTABLISHED;
        id.state = CmState::kEstablished;
        handle_acknowledged_reply(id);
        return true;
      }
      enter_error(qp_of(id));
      event.event = RDMA_CM_EVENT_CONNECT_ERROR;
      event.status = -1;
      id.connect_error = true;
      return true;
    case RDMA_CM_EVENT_REJECTED:
      if (id.connect_error) return false;
      if (has_qp(id)) enter_error(qp_of(id));
      return true;
    case RDMA_CM_EVENT_DISCONNECTED:
      return !id.connect_error;
    case RDMA_CM_EVENT_MULTICAST_JOIN:
      if (event.attach && has_qp(id)) join_group(qp_of(id), event.param.ud.ah_attr.grh.dgid);
      return true;
    default:
      return true;
  }
}

CmEvent* next_event(Channel& channel) {
  while (!channel.events.empty()) {
    CmEvent* event = channel.events.front();
    channel.events.pop_front();
    channel.ready.set(!channel.events.empty());
    if (!process(*event)) {
      destroy_object(event);
      continue;
    }
    ++event->owner->unacked;
    event->tag.counted = true;
    ++World::get().live[static_cast<int>(Kind::kEvent)];
    return event;
  }
  return nullptr;
}

}  // namespace

void push_event(Id& id, rdma_cm_event_type type, int status, const void* data, size_t length, size_t padded) {
  CmEvent* event = make_event(id, type, status);
  event->param.conn = id.theirs;
  set_data(*event, data, length, padded);
  submit(event);
}

void push_request(Id& listener, Id& incoming, const void* data, size_t length, size_t padded) {
  CmEvent* event = make_event(listener, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
  event->id = &incoming;
  event->listen_id = &listener;
  event->param.conn = incoming.theirs;
  set_data(*event, data, length, padded);
  ++listener.unread_requests;
  submit(event);
}

void push_datagram_event(Id& id, rdma_cm_event_type type, int status, const rdma_ud_param& param, bool attach,
                         const std::string& data) {
  CmEvent* event = make_event(id, type, status);
  event->param.ud = param;
  if (!data.empty()) set_data(*event, data.data(), data.size(), 0);
  event->attach = attach;
  submit(event);
}

void drop_events_of(Id& id) {
  auto& channel = *static_cast<Channel*>(id.channel);
  for (CmEvent* event : extract(channel.events, id)) discard(event);
  for (CmEvent* event : extract(World::get().held, id)) discard(event);
  channel.ready.set(!channel.events.empty());
}

void move_events(Id& id, Channel& to) {
  auto& from = *static_cast<Channel*>(id.channel);
  for (CmEvent* event : extract(from.events, id)) to.events.push_back(event);
  from.ready.set(!from.events.empty());
  to.ready.set(!to.events.empty());
  World::get().changed.notify_all();
}

int wait_for_event(Entry& entry, Id& id) {
  auto& channel = *static_cast<Channel*>(id.channel);
  if (rdma_cm_event* last = id.event) {
    id.event = nullptr;
    entry.lock.unlock();
    rdma_ack_cm_event(last);
    entry.lock.lock();
  }
  CmEvent* event;
  while (!(event = next_event(channel))) entry.world.changed.wait(entry.lock);
  id.event = event;
  return cm_error(event->status < 0 ? -event->status : event->status ? ECONNREFUSED : 0);
}

void remove_ids_of(Device& device) {
  for (auto& [serial, id] : World::get().ids) {
    if (id->device != &device || id->removal_reported || !id->tag.counted) continue;
    id->removal_reported = true;
    push_event(*id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
  }
}

namespace {

void inject_request(Id& own, const std::string& data) {
  Id* incoming = make_id(own.channel, own.context, own.ps, false);
  incoming->route.addr = own.route.addr;
  incoming->route.addr.dst_storage = own.route.addr.src_storage;
  incoming->role = Role::kPassive;
  incoming->state = CmState::kRequestReceived;
  incoming->bound = true;
  incoming->device = own.device ? own.device : default_device(AF_INET);
  incoming->verbs = &cm_context_of(*incoming->device)->context;
  incoming->port_num = 1;
  push_request(own, *incoming, data.data(), data.size(), 56);
}

}  // namespace

void inject_cm_event(const rdma_cm_id* id, rdma_cm_event_type type, int status, const std::string& data) {
  World& world = World::get();
  Guard guard(world.mutex);
  Id& own = id_of(id, "fake::inject_cm_event");
  const std::vector<HoldRule> rules = std::exchange(world.hold_rules, {});
  if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
    inject_request(own, data);
  else
    push_event(own, type, status, data.data(), data.size());
  world.hold_rules = rules;
}

void hold(const rdma_cm_id* id, int event) {
  World& world = World::get();
  Guard guard(world.mutex);
  world.hold_rules.push_back({id, event});
}
std::vector<HeldEvent> held() {
  World& world = World::get();
  Guard guard(world.mutex);
  std::vector<HeldEvent> result;
  for (const CmEvent* event : world.held) result.push_back({event->owner, event->event});
  return result;
}

void deliver(size_t index) {
  World& world = World::get();
  Guard guard(world.mutex);
  if (index >= world.held.size()) fatal("fake::deliver", "no such held event");
  CmEvent* event = world.held[index];
  world.held.erase(world.held.begin() + static_cast<std::ptrdiff_t>(index));
  enqueue(event);
}

void deliver_all() {
  World& world = World::get();
  Guard guard(world.mutex);
  world.hold_rules.clear();
  for (CmEvent* event : world.held) enqueue(event);
  world.held.clear();
}

}  // namespace fake

using namespace fake;

extern "C" {

rdma_event_channel* rdma_create_event_channel() {
  Entry entry(Call::rdma_create_event_channel);
  if (entry.error()) return null_error(entry.error());
  ensure_devices();
  auto* channel = new Channel{};
  register_object(channel->tag, Kind::kChannel);
  channel->fd = channel->ready.fd();
  return channel;
}

void rdma_destroy_event_channel(rdma_event_channel* channel) {
  World& world = World::get();
  Guard guard(world.mutex);
  Channel& own = checked<Channel>(channel, Kind::kChannel, "rdma_destroy_event_channel");
  if (own.tag.users && !world.destruction_failed)
    fatal("rdma_destroy_event_channel", std::to_string(own.tag.users) + " ids still use the channel");
  if (own.tag.users) return excuse(own.tag);
  own.ready.close();
  destroy_object(&own);
}

int rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** result) {
  Entry entry(Call::rdma_get_cm_event);
  Channel& own = checked<Channel>(channel, Kind::kChannel, entry.name());
  if (entry.error()) return cm_error(entry.error());
  CmEvent* event;
  while (!(event = next_event(own))) {
    if (own.ready.nonblocking()) return cm_error(EAGAIN);
    entry.world.changed.wait(entry.lock);
  }
  *result = event;
  return 0;
}

int rdma_ack_cm_event(rdma_cm_event* event) {
  World& world = World::get();
  Guard guard(world.mutex);
  CmEvent& own = checked<CmEvent>(event, Kind::kEvent, "rdma_ack_cm_event");
  --own.owner->unacked;
  destroy_object(&own);
  return 0;
}

}  // extern "C"
