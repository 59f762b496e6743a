// SPDX-License-Identifier: BSD-2-Clause
// A connection request of a peer; see connect_request.h.
#include "verbs/connection/connect_request.h"

#include "abi/ops.h"
#include "verbs/cm/private_data.h"

namespace weft::verbs {

ConnectRequest::ConnectRequest(CmEngine& engine, const RdmaEvent& event, PassiveEndpoint& owner) noexcept
    : listener(&owner), engine_(engine), id_(event.id), event_(event) {
  abi = {FI_CLASS_CONNREQ, nullptr, ops_of<ConnectRequest>};
  id_->context = static_cast<CmHandler*>(this);
}

ConnectRequest::~ConnectRequest() {
  if (id_ != nullptr) reject(nullptr, 0);
  engine_.forget(*this);
}

void ConnectRequest::reject(const void* data, std::size_t len) noexcept {
  PrivateData refusal;
  refusal.compose(data, len);
  // A request that the peer withdrew needs no answer.
  if (!gone_) rdma_reject(id_.get(), refusal.bytes(), refusal.size());
  id_.reset();
}

// The kernel reports no port with a native InfiniBand address; the request's header has it.
CmAddress ConnectRequest::peer() const noexcept {
  CmAddress peer = CmAddress::from(rdma_get_peer_addr(id_.get()));
  if (peer.is_ib() && peer.port() == 0) peer.set_port(requester_port(event_.data()));
  return peer;
}

void ConnectRequest::on_cm_event(const RdmaEvent& event) noexcept {
  gone_ = Gone{event.type, event.status};
}

}  // namespace weft::verbs
