// SPDX-License-Identifier: BSD-2-Clause
// Identifiers, event channels and events of librdmacm, and the state machine of the InfiniBand connection manager
// beneath them. Messages between two identifiers are function calls, which a test can drop. Events are queued in a
// channel; rdma_get_cm_event handles them as librdmacm does (the active side moves its queue pair and answers "ready to
// use").
#pragma once
#include "fake_queue_pair.h"

namespace fake {

struct Channel;

struct CmEvent : rdma_cm_event {
  Tag tag;
  Id* owner = nullptr;  // the identifier whose queue it is in: the listener for a request
  bool attach = false;  // a multicast join as a full member
  uint8_t data[256];
};

enum class CmState {
  kIdle,
  kBound,
  kAddressQuery,
  kAddressResolved,
  kRouteQuery,
  kRouteResolved,
  kListening,
  kRequestSent,
  kRequestReceived,
  kReplySent,
  kReplyReceived,  // the program has not read the event yet
  kEstablished,
  kDisconnectSent,
  kDisconnectReceived,
  kTimewait,
  kFailed,  // rejected, timed out
};

struct Id : rdma_cm_id {
  Tag tag;
  Device* device = nullptr;
  CmState state = CmState::kIdle;
  Role role = Role::kNone;
  bool bound = false, disconnect_reported = false, removal_reported = false, connect_error = false;
  bool sync = false;  // has a channel of its own, and its calls wait
  int reuse_address = 0, af_only = 0;
  uint8_t tos = 0, ack_timeout = 0;
  int backlog = 0, unread_requests = 0;
  int unacked = 0;
  uint64_t peer = 0;  // serial of the other identifier
  Id* listener = nullptr;
  bool accepted = false;  // `mine` holds the parameters of rdma_accept
  Reach reach = Reach::kSilent;
  bool reachable = false;
  rdma_conn_param mine = {}, theirs = {};  // without data
  int resolve_timeout = 0;
  std::vector<ibv_gid> groups;
};

struct Channel : rdma_event_channel {
  Tag tag;
  Readiness ready;
  std::deque<CmEvent*> events;
};

inline Id& id_of(const rdma_cm_id* id, const char* call) {
  return checked<Id>(const_cast<rdma_cm_id*>(id), Kind::kId, call);
}
Id* id_with_serial(uint64_t serial);
uint8_t source_index(const Id& id);  // its GID's, in its device's table
Id* make_id(rdma_event_channel* channel, void* context, rdma_port_space space, bool counted);
void unmake_id(Id& id);

bool has_qp(const Id& id);
Qp& qp_of(const Id& id);
// Transitions that librdmacm makes, counted as "cm_modify_qp"; they can be made to fail. 0 or an error.
int cm_modify(Qp& qp, const ibv_qp_attr& attr, int mask);
int cm_initialize(Id& id);
int cm_connect_qp(Id& id);  // ready to receive, then ready to send
void cm_establish(Id& id);  // both at once, as the kernel does for iWARP

// fake_cm_events.cc
void push_event(Id& id, rdma_cm_event_type type, int status, const void* data = nullptr, size_t length = 0,
                size_t padded = 0);
void push_request(Id& listener, Id& incoming, const void* data, size_t length, size_t padded);
void push_datagram_event(Id& id, rdma_cm_event_type type, int status, const rdma_ud_param& param, bool attach,
                         const std::string& data = {});
void drop_events_of(Id& id);
void move_events(Id& id, Channel& to);
int wait_for_event(Entry& entry, Id& id);  // for a synchronous identifier: its status as errno, -1; or 0

// fake_cm_connection.cc
void handle_acknowledged_reply(Id& id);  // the passive side learns that the active side is ready
void send_reject(Id& id, int reason, const void* data, size_t length);
void notify_of_destruction(Id& id);  // sends the message that the kernel sends when an identifier is destroyed
bool bind_address(Id& id, const sockaddr* address, int* error);
Id* listener_for(const Id& active);
void release_listener(Id& id);
void enter_timewait(Id& id);

}  // namespace fake
