// SPDX-License-Identifier: BSD-2-Clause
// Shared by the sides of all measurements over raw verbs; see device_node.h.
#include "verbs/device_node.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace bench {
namespace {

constexpr int kCompletionQueueSize = 1024;  // only the first connection is active, with a window of 256 at most

}  // namespace

void check_verbs(const char* what, int error) {
  if (error != 0) fail(fmt::format("{}: {}", what, std::strerror(error)));
}

DeviceNode::DeviceNode(const Measurement& m, rdma_port_space service) {
  events_ = check_object("rdma_create_event_channel", rdma_create_event_channel());
  if (!m.busy_kernel) check("fcntl", fcntl(events_->fd, F_SETFL, fcntl(events_->fd, F_GETFL) | O_NONBLOCK));
  address_.sin_family = AF_INET;
  if (inet_pton(AF_INET, m.address.c_str(), &address_.sin_addr) != 1) fail(m.address + " is no IPv4 address");

  check("rdma_create_id", rdma_create_id(events_, &bound_, nullptr, service));
  check("rdma_bind_addr", rdma_bind_addr(bound_, reinterpret_cast<sockaddr*>(&address_)));
  if (bound_->verbs == nullptr) fail(m.address + " is no address of an RDMA device");
  pd_ = check_object("ibv_alloc_pd", ibv_alloc_pd(bound_->verbs));
  cq_ = check_object("ibv_create_cq", ibv_create_cq(bound_->verbs, kCompletionQueueSize, nullptr, nullptr, 0));
}

DeviceNode::~DeviceNode() {
  ibv_destroy_cq(cq_);
  ibv_dealloc_pd(pd_);
  rdma_destroy_id(bound_);
  rdma_destroy_event_channel(events_);
}

DeviceNode::Event DeviceNode::next_event() {
  for (;;) {
    rdma_cm_event* event = nullptr;
    if (rdma_get_cm_event(events_, &event) != 0) {
      if (errno != EAGAIN) check("rdma_get_cm_event", -1);
      continue;
    }
    Event copy{event->event, event->id, {}};
    if (copy.type == RDMA_CM_EVENT_MULTICAST_JOIN) copy.ud = event->param.ud;
    const int status = event->status;
    rdma_ack_cm_event(event);
    switch (copy.type) {
      case RDMA_CM_EVENT_ADDR_RESOLVED:
      case RDMA_CM_EVENT_ROUTE_RESOLVED:
      case RDMA_CM_EVENT_CONNECT_REQUEST:
      case RDMA_CM_EVENT_ESTABLISHED:
      case RDMA_CM_EVENT_DISCONNECTED:
      case RDMA_CM_EVENT_MULTICAST_JOIN:
        return copy;
      case RDMA_CM_EVENT_TIMEWAIT_EXIT:
        continue;
      default:
        fail(fmt::format("{}, status {}", rdma_event_str(copy.type), status));
    }
  }
}

ibv_qp_init_attr DeviceNode::queue_pair_attributes(ibv_qp_type type) const {
  ibv_qp_init_attr attr{};
  attr.send_cq = attr.recv_cq = cq_;
  attr.cap.max_send_wr = attr.cap.max_recv_wr = kQueueDepth;
  attr.cap.max_send_sge = attr.cap.max_recv_sge = kPieces;
  attr.cap.max_inline_data = kInlineBytes;
  attr.qp_type = type;
  return attr;
}

}  // namespace bench
