// SPDX-License-Identifier: BSD-2-Clause
// Passive endpoints and their connection requests: fi_passive_ep and fi_pep_bind of fi_endpoint(3), fi_listen,
// fi_reject and names of fi_cm(3).
#pragma once

#include <optional>

#include "base/list.h"
#include "base/mutex.h"
#include "objects/passive_endpoint_base.h"
#include "verbs/cm/cm_engine.h"
#include "verbs/cm/private_data.h"
#include "verbs/connection/connection_properties.h"
#include "verbs/device/logging.h"

namespace weft::verbs {

class PassiveEndpoint;

// A connection request of a peer: the handle in the fi_info of FI_CONNREQ; fi_cm(3), fi_eq(3).
//
// Owner: the call that removes its handle from the fabric's live requests: fi_endpoint, fi_reject, fi_close of the
// passive endpoint if the application has not read FI_CONNREQ, or fi_close of the fabric. A request that is destroyed
// without answer() is rejected. The engine's mutex guards it.
class ConnectRequest final : public Object<::fid>, public CmHandler, public ListHook<ConnectRequest> {
 public:
  ConnectRequest(CmEngine& engine, const RdmaEvent& event, PassiveEndpoint& listener,
                 const ConnectionProperties& properties) noexcept;
  ~ConnectRequest();

  void reject(const void* data, std::size_t len) noexcept;
  // Its listener's, or since move_to() the accepting endpoint's.
  CmEngine& engine() const noexcept { return *engine_; }
  // Needs the mutex of its present engine.
  Status move_to(CmEngine& engine) noexcept;
  // Hands the id over to the endpoint that accepts.
  CmIdHandle answer() noexcept { return std::move(id_); }

  const RdmaEvent& event() const noexcept { return event_; }
  rdma_cm_id* id() const noexcept { return id_.get(); }
  // The listener's when the request arrived.
  const ConnectionProperties& properties() const noexcept { return properties_; }
  struct Gone {
    rdma_cm_event_type type;
    int status;
  };
  // The event by which the peer withdrew its request; null: it is still valid.
  const Gone* gone() const noexcept { return gone_ ? &*gone_ : nullptr; }
  CmAddress local() const noexcept { return CmAddress::from(rdma_get_local_addr(id_.get())); }
  CmAddress peer() const noexcept;

  // Null once the application has decided, or the listener has closed.
  PassiveEndpoint* listener = nullptr;
  bool announced = false;

  void on_cm_event(const RdmaEvent& event) noexcept override { gone_ = Gone{event.type, event.status}; }

 private:
  CmEngine* engine_;
  CmIdHandle id_;
  const RdmaEvent event_;
  const ConnectionProperties properties_;
  std::optional<Gone> gone_;
};

// The types that PassiveEndpointBase is instantiated with.
struct PassiveTypes {
  using Fabric = FabricServices;
  using Address = CmAddress;
  using Engine = CmEngine;
  using ConnectRequest = verbs::ConnectRequest;
  using Bound = CmIdHandle;
  static constexpr std::size_t kCmDataSize = verbs::kCmDataSize;
  static fi_provider& provider() noexcept { return verbs::provider(); }
  static constexpr auto read_name = [](auto... name) { return CmAddress::from(name...); };
};

// The backlog limits the requests that are announced and not answered; later ones are stored, up to a limit, and
// announced as earlier ones are answered.
//
// Owner: its C handle. The mutex of the fabric's engine guards everything.
class PassiveEndpoint final : public PassiveEndpointBase<PassiveEndpoint, PassiveTypes>, private CmHandler {
 public:
  // With the engine's mutex held. Passes a request that the application has decided on to the caller.
  static void release(ConnectRequest& request) noexcept;

  // Slots of fi_ops, fi_ops_ep and fi_ops_cm, beside those of PassiveEndpointBase.
  int close();
  int getopt(int level, int option, void* value, size_t* len);
  int setopt(int level, int option, const void* value, size_t len);
  int listen();

 private:
  friend PassiveEndpointBase;
  using PassiveEndpointBase::PassiveEndpointBase;
  ~PassiveEndpoint() = default;
  static Result<CmAddress> source(const fi_info& info) noexcept { return CmAddress::source(info); }
  static Status prepare(FabricServices& fabric, const fi_info& info);
  CmEngine& engine() const noexcept { return fabric_->engine(); }
  Status attach(Events& queue) { return queue.attach(engine()); }
  void detach(Events& queue) noexcept { queue.detach(engine()); }
  UniqueLock guard() { return UniqueLock(engine().mutex()); }
  Result<CmIdHandle> open_bound() noexcept { return engine().create_bound_id(*this, local_); }
  bool announced(const ConnectRequest& request) const noexcept { return request.listener == this; }
  void on_backlog() noexcept { announce_waiting(); }

  void on_cm_event(const RdmaEvent& event) noexcept override;

  void take_request(const RdmaEvent& event) noexcept;
  void announce_waiting() noexcept;
  bool announce(ConnectRequest& request) noexcept;
  void report_failure(const RdmaEvent& event) noexcept;

  ConnectionProperties properties_{fabric_->parameters};
  FailureReports failures_;
  std::size_t pending_count_ = 0;
  std::size_t waiting_count_ = 0;
  List<ConnectRequest> pending_;  // announced
  List<ConnectRequest> waiting_;  // not announced, oldest first
};

}  // namespace weft::verbs
