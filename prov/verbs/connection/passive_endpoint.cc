// SPDX-License-Identifier: BSD-2-Clause
// Passive endpoints; see passive_endpoint.h.
#include "verbs/connection/passive_endpoint.h"

#include <rdma/providers/fi_log.h>

#include <algorithm>
#include <climits>

#include "objects/info.h"
#include "objects/sentence.h"
#include "verbs/cm/cm_errors.h"
#include "verbs/device/logging.h"
#include "verbs/discovery/discovery.h"

namespace weft::verbs {
namespace {

// Requests stored beyond the backlog; further ones are rejected.
constexpr std::size_t kMostWaiting = 4096;

}  // namespace

// ---- Requests ----

ConnectRequest::ConnectRequest(CmEngine& engine, const RdmaEvent& event, PassiveEndpoint& owner,
                               const ConnectionProperties& properties) noexcept
    : listener(&owner), engine_(&engine), id_(event.id), event_(event), properties_(properties) {
  abi = {FI_CLASS_CONNREQ, nullptr, ops_of<ConnectRequest>};
  id_->context = static_cast<CmHandler*>(this);
}

ConnectRequest::~ConnectRequest() {
  if (id_ != nullptr) reject(nullptr, 0);
  engine_->forget(*this);
}

void ConnectRequest::reject(const void* data, std::size_t len) noexcept {
  PrivateData refusal;
  refusal.compose(data, len);
  // A request that the peer withdrew needs no answer.
  if (!gone_) rdma_reject(id_.get(), refusal.bytes(), refusal.size());
  id_.reset();
}

Status ConnectRequest::move_to(CmEngine& engine) noexcept {
  const Status status = engine.adopt(*id_);
  if (status.ok()) engine_ = &engine;
  return status;
}

// The kernel reports no port with a native InfiniBand address; the request's header has it.
CmAddress ConnectRequest::peer() const noexcept {
  CmAddress peer = CmAddress::from(rdma_get_peer_addr(id_.get()));
  if (peer.is_ib() && peer.port() == 0) peer.set_port(requester_port(event_.data()));
  return peer;
}

// ---- Listening ----

// A listener with automatic progress accepts connections without calls of the application.
Status PassiveEndpoint::prepare(FabricServices& fabric, const fi_info& info) {
  const bool automatic = or_none(info.domain_attr).progress == FI_PROGRESS_AUTO;
  return automatic ? fabric.engine().start_service_thread() : Status();
}

int PassiveEndpoint::close() {
  fabric_->passive().endpoints.remove(&abi.fid);
  {
    Lock lock(engine().mutex());
    while (!waiting_.empty()) delete &waiting_.pop_front();
    const InfoPtr unread = events_ ? events_->remove(&abi.fid) : nullptr;
    for (const fi_info* info = unread.get(); info != nullptr; info = info->next)
      if (fabric_->passive().requests.remove(info->handle)) delete &object<ConnectRequest>(info->handle);
    // The others are left to the application, which may still open endpoints for them, and to the fabric.
    while (!pending_.empty()) pending_.pop_front().listener = nullptr;
    bound_.reset();
    engine().forget(*this);
  }
  if (events_) detach(*events_);
  delete this;
  return 0;
}

int PassiveEndpoint::getopt(int level, int option, void* value, size_t* len) {
  if (level != FI_OPT_ENDPOINT || !ConnectionProperties::has(option))
    return PassiveEndpointBase::getopt(level, option, value, len);
  Lock lock(engine().mutex());
  return properties_.get(option, value, len);
}

int PassiveEndpoint::setopt(int level, int option, const void* value, size_t len) {
  if (level != FI_OPT_ENDPOINT || !ConnectionProperties::has(option)) return -FI_ENOPROTOOPT;
  Lock lock(engine().mutex());
  return properties_.set(option, value, len);
}

int PassiveEndpoint::listen() {
  Lock lock(engine().mutex());
  if (Status status = prepare_to_listen(); !status.ok()) return status.code();
  if (!failures_.reserve()) return -FI_ENOMEM;
  // The kernel's backlog counts requests that have not been read from the event channel, so it is at least
  // kMostWaiting.
  if (rdma_listen(bound_.get(), static_cast<int>(std::min<std::size_t>(std::max(backlog_, kMostWaiting), INT_MAX))) !=
      0)
    return Status::last_errno().code();
  local_ = CmAddress::from(rdma_get_local_addr(bound_.get()));
  listening_ = true;
  return 0;
}

void PassiveEndpoint::release(ConnectRequest& request) noexcept {
  PassiveEndpoint* listener = std::exchange(request.listener, nullptr);
  request.ListHook<ConnectRequest>::unlink();
  if (listener == nullptr) return;
  --listener->pending_count_;
  listener->announce_waiting();
}

// ---- Events ----

void PassiveEndpoint::on_cm_event(const RdmaEvent& event) noexcept {
  switch (event.type) {
    case RDMA_CM_EVENT_CONNECT_REQUEST:
      return take_request(event);
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
    case RDMA_CM_EVENT_ADDR_CHANGE:
      return report_failure(event);
    default:
      return;
  }
}

void PassiveEndpoint::take_request(const RdmaEvent& event) noexcept {
  auto* request = new (std::nothrow) ConnectRequest(engine(), event, *this, properties_);
  if (request == nullptr) {
    const CmIdHandle dropped(event.id);  // destroying it rejects the peer
    return;
  }
  if (waiting_count_ == kMostWaiting) {
    delete request;
    return;
  }
  waiting_.push_back(*request);
  ++waiting_count_;
  announce_waiting();
}

void PassiveEndpoint::announce_waiting() noexcept {
  while (pending_count_ < backlog_ && !waiting_.empty()) {
    ConnectRequest& request = waiting_.pop_front();
    --waiting_count_;
    if (request.gone() != nullptr || !announce(request)) {
      delete &request;
      continue;
    }
    pending_.push_back(request);
    ++pending_count_;
  }
}

bool PassiveEndpoint::announce(ConnectRequest& request) noexcept {
  const bool headed = request.local().is_ib();
  const auto data =
      headed ? application_data_behind_header(request.event().data()) : application_data(request.event().data());
  try {
    InfoPtr info = request_info(*info_, *request.id(), request.peer());
    auto event = EventQueueCore::reserve(data.size());
    if (info == nullptr || event == nullptr) return false;
    fabric_->passive().requests.insert(&request.abi, fabric_.get());
    info->handle = &request.abi;
    events_->post_cm(std::move(event), FI_CONNREQ, &abi.fid, info.release(), data.data(), data.size());
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

// The listener receives no requests from now on: an error of the listener, not of a connection.
void PassiveEndpoint::report_failure(const RdmaEvent& event) noexcept {
  const CmFailure why = explain(CmPhase::kListen, event.type, event.status);
  EqError failure(abi.fid, why.error, why.native);
  failure.sentence = sentence("{} while {} on {}", why.reason, phase_name(CmPhase::kListen), local_.to_string());
  FI_WARN(&provider(), FI_LOG_EP_CTRL, "%s\n", failure.sentence.c_str());
  if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL) bound_.reset();
  if (events_) failures_.post(*events_, std::move(failure));
}

}  // namespace weft::verbs
