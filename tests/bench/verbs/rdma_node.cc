// SPDX-License-Identifier: BSD-2-Clause
// One side of a measurement over raw verbs; see rdma_node.h.
#include "verbs/rdma_node.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>

namespace bench {
namespace {

constexpr int kBacklog = 4096;
constexpr int kResolveMs = 10000;
constexpr std::size_t kConnectsAtOnce = 256;  // while setting up; workloads that time connects have their own
constexpr std::uint8_t kRetries = 7;
constexpr std::uint8_t kRetriesForever = 7;  // for rnr_retry_count: a late receiver is waited for

std::uint8_t count_of(int most) {
  return static_cast<std::uint8_t>(std::clamp(most, 0, 255));
}

}  // namespace

RdmaNode::RdmaNode(const Measurement& m, Role role, Channel& channel) : DeviceNode(m, RDMA_PS_TCP), role_(role) {
  ids_.reserve(m.connections);
  ibv_device_attr device{};
  check_verbs("ibv_query_device", ibv_query_device(bound_->verbs, &device));
  reads_to_peer_ = count_of(device.max_qp_init_rd_atom);
  reads_from_peer_ = count_of(device.max_qp_rd_atom);
  if (role == Role::kServer) {
    check("rdma_listen", rdma_listen(bound_, kBacklog));
    channel.put(ntohs(rdma_get_src_port(bound_)));
  } else {
    address_.sin_port = htons(static_cast<in_port_t>(channel.get()));
  }
}

RdmaNode::~RdmaNode() {
  for (rdma_cm_id* id : ids_) close(id);
}

void RdmaNode::create_qp(rdma_cm_id* id) {
  ibv_qp_init_attr attr = queue_pair_attributes(IBV_QPT_RC);
  check("rdma_create_qp", rdma_create_qp(id, pd_, &attr));
}

rdma_conn_param RdmaNode::connection_parameters() const {
  rdma_conn_param param{};
  param.initiator_depth = reads_to_peer_;
  param.responder_resources = reads_from_peer_;
  param.retry_count = kRetries;
  param.rnr_retry_count = kRetriesForever;
  return param;
}

rdma_cm_id* RdmaNode::start_connect() {
  rdma_cm_id* id = nullptr;
  check("rdma_create_id", rdma_create_id(events_, &id, nullptr, RDMA_PS_TCP));
  check("rdma_resolve_addr", rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&address_), kResolveMs));
  return id;
}

void RdmaNode::go_on_connecting(const Event& event) {
  if (event.type == RDMA_CM_EVENT_ADDR_RESOLVED) check("rdma_resolve_route", rdma_resolve_route(event.id, kResolveMs));
  if (event.type == RDMA_CM_EVENT_ROUTE_RESOLVED) {
    // Only now: the request leaves at once, and with many connects the peer starts after the first of them.
    create_qp(event.id);
    rdma_conn_param param = connection_parameters();
    check("rdma_connect", rdma_connect(event.id, &param));
  }
}

void RdmaNode::accept_request(rdma_cm_id* id) {
  create_qp(id);
  rdma_conn_param param = connection_parameters();
  check("rdma_accept", rdma_accept(id, &param));
}

void RdmaNode::accept(std::size_t count) {
  for (std::size_t connected = 0; connected < count;) {
    const Event event = next_event();
    if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
      accept_request(event.id);
      ids_.push_back(event.id);
    }
    if (event.type == RDMA_CM_EVENT_ESTABLISHED) ++connected;
  }
}

void RdmaNode::connect(std::size_t count, std::size_t outstanding) {
  std::size_t started = 0;
  for (std::size_t connected = 0; connected < count;) {
    for (; started < count && started - connected < outstanding; ++started) ids_.push_back(start_connect());
    const Event event = next_event();
    go_on_connecting(event);
    if (event.type == RDMA_CM_EVENT_ESTABLISHED) ++connected;
  }
}

void RdmaNode::establish(std::size_t count) {
  const auto make = [this](std::size_t n) { role_ == Role::kServer ? accept(n) : connect(n, kConnectsAtOnce); };
  make(1);
  make(count - 1);
}

void RdmaNode::leave(Channel& channel) {
  channel.put(0);
  channel.get();
  for (rdma_cm_id* id : ids_) close(id);
  ids_.clear();
}

// Destroying the id of a connection notifies the peer; nothing is posted, so nothing needs a flush before.
void RdmaNode::close(rdma_cm_id* id) {
  if (id->qp != nullptr) rdma_destroy_qp(id);
  check("rdma_destroy_id", rdma_destroy_id(id));
}

void RdmaNode::serve_short_connections(std::size_t count) {
  for (std::size_t closed = 0; closed < count;) {
    const Event event = next_event();
    if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) accept_request(event.id);
    if (event.type == RDMA_CM_EVENT_DISCONNECTED) {
      close(event.id);
      ++closed;
    }
  }
}

void RdmaNode::connect_and_close() {
  rdma_cm_id* id = start_connect();
  for (Event event{}; event.type != RDMA_CM_EVENT_ESTABLISHED;) {
    event = next_event();
    go_on_connecting(event);
  }
  close(id);
}

}  // namespace bench
