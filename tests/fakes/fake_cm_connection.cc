// SPDX-License-Identifier: BSD-2-Clause
// Connections: rdma_listen(3), rdma_connect(3), rdma_accept(3), rdma_reject(3), rdma_disconnect(3) and the messages
// between them. Rejection reasons and sizes of private data are those of InfiniBand.
#include <infiniband/ib.h>

#include <algorithm>
#include <cstring>

#include "fake_cm_id.h"

namespace fake {

namespace {

constexpr size_t kRequestData = 56, kReplyData = 196, kRejectData = 148;
constexpr size_t kNativeRequestData = 92;               // the kernel adds no header here
constexpr size_t kLookupData = 180, kAnswerData = 136;  // limits of the datagram service
constexpr int kLookupWithoutEndpoint = 1, kLookupRejected = 2;
constexpr int kRejectTimeout = 4, kRejectNoListener = 8, kRejectConsumer = 28;

size_t padding(const Id& id, size_t size) {
  return id.device && id.device->config.iwarp ? 0 : size;
}

void fail_after(Id& id, CmState state, int milliseconds, rdma_cm_event_type type, int status) {
  World::get().after(milliseconds, &id, [&id, state, type, status] {
    if (id.state != state) return;
    if (state == CmState::kDisconnectSent) {
      enter_timewait(id);
      if (id.disconnect_reported) return;
      id.disconnect_reported = true;
    } else {
      id.state = CmState::kFailed;
    }
    push_event(id, type, status);
  });
}

void receive_reject(Id& id, int reason, const void* data, size_t length) {
  if (id.ps == RDMA_PS_UDP) {
    if (id.state != CmState::kRequestSent) return;
    id.state = CmState::kFailed;
    return push_event(id, RDMA_CM_EVENT_UNREACHABLE,
                      reason == kRejectNoListener ? kLookupWithoutEndpoint : kLookupRejected);
  }
  switch (id.state) {
    case CmState::kRequestSent:
    case CmState::kRequestReceived:
    case CmState::kReplySent:
      id.state = CmState::kFailed;
      break;
    case CmState::kReplyReceived:
    case CmState::kEstablished:  // two disconnects crossed
      enter_timewait(id);
      break;
    default:
      return;
  }
  push_event(id, RDMA_CM_EVENT_REJECTED, reason, data, length, padding(id, kRejectData));
}

void receive_disconnect(Id& id) {
  if (id.state != CmState::kEstablished && id.state != CmState::kReplySent && id.state != CmState::kDisconnectSent)
    return;
  id.state = CmState::kDisconnectReceived;
  if (id.disconnect_reported) return;
  id.disconnect_reported = true;
  push_event(id, RDMA_CM_EVENT_DISCONNECTED, 0);
}

void send_disconnect(Id& id) {
  if (World::get().drops(Message::kDisconnect)) return;
  if (Id* peer = id_with_serial(id.peer)) receive_disconnect(*peer);
}

void send_disconnect_reply(Id& id) {
  if (World::get().drops(Message::kDisconnectReply)) return;
  Id* peer = id_with_serial(id.peer);
  if (!peer || (peer->state != CmState::kDisconnectSent && peer->state != CmState::kDisconnectReceived)) return;
  enter_timewait(*peer);
  if (peer->disconnect_reported) return;
  peer->disconnect_reported = true;
  push_event(*peer, RDMA_CM_EVENT_DISCONNECTED, 0);
}

size_t request_room(const Id& active) {
  if (active.ps == RDMA_PS_UDP) return kLookupData;
  return active.route.addr.src_addr.sa_family == AF_IB ? kNativeRequestData : kRequestData;
}

// The resources that one side requests are those that the other must provide.
rdma_conn_param seen_by_peer(const Id& id) {
  rdma_conn_param param = id.mine;
  std::swap(param.responder_resources, param.initiator_depth);
  return param;
}

Id* make_incoming(Id& listener, Id& active) {
  Id* incoming = make_id(listener.channel, listener.context, listener.ps, false);
  incoming->device = device_with_address(&active.route.addr.dst_addr);
  incoming->verbs = &cm_context_of(*incoming->device)->context;
  incoming->port_num = port_with_address(*incoming->device, &active.route.addr.dst_addr)->number;
  incoming->route.addr.src_storage = active.route.addr.dst_storage;
  incoming->route.addr.dst_storage = active.route.addr.src_storage;
  if (sockaddr& peer = incoming->route.addr.dst_addr; peer.sa_family == AF_IB)  // a request does not carry it
    reinterpret_cast<sockaddr_ib&>(peer).sib_sid = 0;
  incoming->route.addr.addr.ibaddr.sgid = gid_of(&incoming->route.addr.src_addr);
  incoming->route.addr.addr.ibaddr.dgid = gid_of(&incoming->route.addr.dst_addr);
  incoming->bound = true;
  incoming->role = Role::kPassive;
  incoming->state = CmState::kRequestReceived;
  incoming->theirs = seen_by_peer(active);
  incoming->peer = active.tag.serial;
  active.peer = incoming->tag.serial;
  return incoming;
}

void deliver_request(Id& active, const std::string& data) {
  if (active.state != CmState::kRequestSent) return;
  Id* listener = listener_for(active);
  if (!listener)
    return receive_reject(active, active.device->config.iwarp ? -ECONNREFUSED : kRejectNoListener, nullptr, 0);
  if (listener->unread_requests >= listener->backlog) {  // dropped without an answer, and sent again later
    World& world = World::get();
    world.after(world.timing.request_retry, &active, [&active, data] { deliver_request(active, data); });
    return;
  }
  push_request(*listener, *make_incoming(*listener, active), data.data(), data.size(),
               padding(active, request_room(active)));
}

uint8_t depth(uint8_t asked, int limit) {
  return asked == RDMA_MAX_RESP_RES ? static_cast<uint8_t>(std::min(limit, 255)) : asked;
}

// 0xff means as much as possible; more than the device has is refused.
int set_depths(Id& id, const rdma_conn_param& param, int responder_limit, int initiator_limit) {
  id.mine = param;
  id.mine.private_data = nullptr;
  id.mine.private_data_len = 0;
  id.mine.responder_resources = depth(param.responder_resources, responder_limit);
  id.mine.initiator_depth = depth(param.initiator_depth, initiator_limit);
  id.mine.retry_count &= 7;
  id.mine.rnr_retry_count &= 7;
  if (has_qp(id)) {
    id.mine.qp_num = qp_of(id).qp_num;
    id.mine.srq = qp_of(id).srq != nullptr;
  }
  return id.mine.initiator_depth > initiator_limit ? EINVAL : 0;
}

int accept_with(Id& id, const rdma_conn_param& param) {
  const DeviceConfig& config = id.device->config;
  if (param.responder_resources != RDMA_MAX_RESP_RES && param.responder_resources > config.max_qp_rd_atom)
    return EINVAL;
  const int initiator = std::min<int>(config.max_qp_init_rd_atom, id.theirs.initiator_depth);
  const int responder = std::min<int>(config.max_qp_rd_atom, id.theirs.responder_resources);
  if (const int error = set_depths(id, param, responder, initiator)) return error;
  id.accepted = true;
  if (has_qp(id))
    if (const int error = cm_connect_qp(id)) return error;
  return 0;
}

// The datagram service: one request and one answer; neither side has a connection afterwards.
void answer_lookup(Id& id, const rdma_conn_param& param) {
  id.state = CmState::kFailed;
  Id* active = id_with_serial(id.peer);
  if (!active || active->state != CmState::kRequestSent || World::get().drops(Message::kReply)) return;
  active->state = CmState::kFailed;
  rdma_ud_param found = {};
  found.qp_num = has_qp(id) ? qp_of(id).qp_num : param.qp_num;
  found.qkey = RDMA_UDP_QKEY;
  found.ah_attr.is_global = 1;
  found.ah_attr.port_num = active->port_num;
  found.ah_attr.grh.dgid = gid_of(&active->route.addr.dst_addr);
  found.ah_attr.grh.sgid_index = source_index(*active);
  found.ah_attr.grh.hop_limit = 64;
  std::string data(kAnswerData, '\0');
  if (param.private_data_len) std::memcpy(data.data(), param.private_data, param.private_data_len);
  push_datagram_event(*active, RDMA_CM_EVENT_ESTABLISHED, 0, found, false, data);
}

void send_reply(Id& id, const void* data, size_t length) {
  World& world = World::get();
  id.state = CmState::kReplySent;
  fail_after(id, CmState::kReplySent, world.timing.request_timeout, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
  if (world.drops(Message::kReply)) return;
  Id* active = id_with_serial(id.peer);
  if (!active || active->state != CmState::kRequestSent) return;
  active->theirs = seen_by_peer(id);
  if (id.device->config.iwarp) {  // the kernel connects both ends' queue pairs
    for (Id* end : {active, &id}) {
      end->state = CmState::kEstablished;
      cm_establish(*end);
    }
    push_event(*active, RDMA_CM_EVENT_ESTABLISHED, 0, data, length);
    return push_event(id, RDMA_CM_EVENT_ESTABLISHED, 0);
  }
  active->state = CmState::kReplyReceived;
  push_event(*active, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, data, length, padding(id, kReplyData));
}

bool covers(const Id& listener, const Id& active) {
  const sockaddr* own = &listener.route.addr.src_addr;
  const sockaddr* wanted = &active.route.addr.dst_addr;
  if (own->sa_family == wanted->sa_family) return is_any(own) || same_host(own, wanted);
  return own->sa_family == AF_INET6 && wanted->sa_family == AF_INET && is_any(own) && !listener.af_only;
}

}  // namespace

void enter_timewait(Id& id) {
  id.state = CmState::kTimewait;
  World& world = World::get();
  world.after(world.timing.timewait, &id, [&id] {
    if (id.state == CmState::kTimewait) push_event(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
  });
}

void handle_acknowledged_reply(Id& id) {
  if (World::get().drops(Message::kReadyToUse)) return;
  Id* passive = id_with_serial(id.peer);
  if (!passive || passive->state != CmState::kReplySent) return;
  passive->state = CmState::kEstablished;
  push_event(*passive, RDMA_CM_EVENT_ESTABLISHED, 0);
}

void send_reject(Id& id, int reason, const void* data, size_t length) {
  if (World::get().drops(Message::kReject)) return;
  if (Id* peer = id_with_serial(id.peer)) receive_reject(*peer, reason, data, length);
}

void notify_of_destruction(Id& id) {
  const int consumer = id.device && id.device->config.iwarp ? -ECONNREFUSED : kRejectConsumer;
  switch (id.state) {
    case CmState::kRequestSent:
      return send_reject(id, kRejectTimeout, nullptr, 0);
    case CmState::kRequestReceived:
    case CmState::kReplySent:
    case CmState::kReplyReceived:
      return send_reject(id, consumer, nullptr, 0);
    case CmState::kEstablished:
      return send_disconnect(id);
    case CmState::kDisconnectReceived:
      return send_disconnect_reply(id);
    default:
      return;
  }
}

Id* listener_for(const Id& active) {
  Id* wildcard = nullptr;
  for (auto& [serial, id] : World::get().ids) {
    if (id->state != CmState::kListening || id->ps != active.ps || !covers(*id, active)) continue;
    if (rdma_get_src_port(id) != rdma_get_dst_port(const_cast<Id*>(&active))) continue;
    if (same_host(&id->route.addr.src_addr, &active.route.addr.dst_addr)) return id;
    wildcard = id;
  }
  return wildcard;
}

}  // namespace fake

using namespace fake;

extern "C" {

int rdma_listen(rdma_cm_id* id, int backlog) {
  Entry entry(Call::rdma_listen);
  Id& own = id_of(id, entry.name());
  if (entry.error()) return cm_error(entry.error());
  constexpr int kLargest = 1024;
  int error = 0;
  sockaddr_in any = {};
  any.sin_family = AF_INET;
  if (own.state == CmState::kIdle && !bind_address(own, reinterpret_cast<sockaddr*>(&any), &error))
    return cm_error(error);
  if (own.state != CmState::kBound) return cm_error(EINVAL);
  for (auto& [serial, other] : entry.world.ids)
    if (other->state == CmState::kListening && other->ps == own.ps &&
        rdma_get_src_port(other) == rdma_get_src_port(id) &&
        same_host(&other->route.addr.src_addr, &id->route.addr.src_addr))
      return cm_error(EADDRINUSE);
  own.backlog = backlog <= 0 || backlog > kLargest ? kLargest : backlog;
  own.role = Role::kListener;
  own.state = CmState::kListening;
  return 0;
}

int rdma_connect(rdma_cm_id* id, rdma_conn_param* param) {
  Entry entry(Call::rdma_connect);
  Id& own = id_of(id, entry.name());
  World& world = entry.world;
  if (entry.error()) return cm_error(entry.error());
  if (own.state != CmState::kRouteResolved) return cm_error(EINVAL);
  if (own.device->removed) return cm_error(ENODEV);
  rdma_conn_param none = {};
  none.responder_resources = none.initiator_depth = RDMA_MAX_RESP_RES;
  const rdma_conn_param& asked = param ? *param : none;
  const DeviceConfig& config = own.device->config;
  if (asked.private_data_len > request_room(own)) return cm_error(EINVAL);
  if (asked.responder_resources != RDMA_MAX_RESP_RES && asked.responder_resources > config.max_qp_rd_atom)
    return cm_error(EINVAL);
  if (const int error = set_depths(own, asked, config.max_qp_rd_atom, config.max_qp_init_rd_atom))
    return cm_error(error);
  own.state = CmState::kRequestSent;
  fail_after(own, CmState::kRequestSent, world.timing.request_timeout, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
  if (own.reachable && !world.drops(Message::kRequest))
    deliver_request(own, std::string(static_cast<const char*>(asked.private_data_len ? asked.private_data : ""),
                                     asked.private_data_len));
  return own.sync ? wait_for_event(entry, own) : 0;
}

int rdma_establish(rdma_cm_id* id) {
  Entry entry(Call::rdma_establish);
  Id& own = id_of(id, entry.name());
  if (entry.error()) return cm_error(entry.error());
  if (has_qp(own) || own.state != CmState::kReplyReceived) return cm_error(EINVAL);
  own.state = CmState::kEstablished;
  handle_acknowledged_reply(own);
  return 0;
}

int rdma_accept(rdma_cm_id* id, rdma_conn_param* param) {
  Entry entry(Call::rdma_accept);
  Id& own = id_of(id, entry.name());
  if (entry.error()) return cm_error(entry.error());
  if (own.state != CmState::kRequestReceived) return cm_error(EINVAL);
  if (own.device->removed) return cm_error(ENODEV);
  const rdma_conn_param& asked = param ? *param : own.theirs;
  if (asked.private_data_len > (own.ps == RDMA_PS_UDP ? kAnswerData : kReplyData)) return cm_error(EINVAL);
  if (own.ps == RDMA_PS_UDP) {
    answer_lookup(own, asked);
    return 0;
  }
  if (const int error = accept_with(own, asked)) return cm_error(error);
  send_reply(own, asked.private_data, asked.private_data_len);
  return 0;
}

int rdma_reject(rdma_cm_id* id, const void* data, uint8_t length) {
  Entry entry(Call::rdma_reject);
  Id& own = id_of(id, entry.name());
  if (entry.error()) return cm_error(entry.error());
  if (length > kRejectData) return cm_error(EINVAL);
  if (own.state != CmState::kRequestReceived && own.state != CmState::kReplySent) return cm_error(EINVAL);
  own.state = CmState::kFailed;
  send_reject(own, own.device->config.iwarp ? -ECONNREFUSED : kRejectConsumer, data, length);
  return 0;
}

int rdma_reject_ece(rdma_cm_id* id, const void* data, uint8_t length) {
  return rdma_reject(id, data, length);
}

int rdma_notify(rdma_cm_id* id, ibv_event_type event) {
  Entry entry(Call::rdma_notify);
  Id& own = id_of(id, entry.name());
  if (entry.error()) return cm_error(entry.error());
  if (event != IBV_EVENT_COMM_EST || own.state != CmState::kReplySent) return cm_error(EINVAL);
  own.state = CmState::kEstablished;
  push_event(own, RDMA_CM_EVENT_ESTABLISHED, 0);
  return 0;
}

int rdma_disconnect(rdma_cm_id* id) {
  Entry entry(Call::rdma_disconnect);
  Id& own = id_of(id, entry.name());
  if (entry.error()) return cm_error(entry.error());
  if (own.state < CmState::kRequestSent) return cm_error(EINVAL);
  if (has_qp(own) && qp_of(own).state != IBV_QPS_ERR) {
    if (const int error = count_inner_call(Call::cm_modify_qp)) return cm_error(error);
    enter_error(qp_of(own));
  }
  if (own.state == CmState::kEstablished) {
    own.state = CmState::kDisconnectSent;
    fail_after(own, CmState::kDisconnectSent, entry.world.timing.disconnect_timeout, RDMA_CM_EVENT_DISCONNECTED,
               -ETIMEDOUT);
    send_disconnect(own);
  } else if (own.state == CmState::kDisconnectReceived) {
    send_disconnect_reply(own);
    enter_timewait(own);
  }
  return 0;
}

int rdma_get_request(rdma_cm_id*, rdma_cm_id**) {
  Entry entry(Call::rdma_get_request);
  return cm_error(ENOSYS);  // synchronous servers are not supported here
}

}  // extern "C"
