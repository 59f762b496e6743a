// SPDX-License-Identifier: BSD-2-Clause
// A connection request of a peer: the handle in the fi_info of FI_CONNREQ; fi_cm(3), fi_eq(3).
//
// Owner: the call that removes its handle from the fabric's live requests: fi_endpoint, fi_reject, or fi_close of the
// passive endpoint. A request that is destroyed without answer() is rejected. The engine's mutex guards it.
#pragma once

#include <optional>

#include "abi/bridge.h"
#include "base/list.h"
#include "verbs/cm/cm_address.h"
#include "verbs/cm/cm_engine.h"

namespace weft::verbs {

class PassiveEndpoint;

class ConnectRequest final : public Object<::fid>, public CmHandler, public ListHook<ConnectRequest> {
 public:
  ConnectRequest(CmEngine& engine, const RdmaEvent& event, PassiveEndpoint& listener) noexcept;
  ~ConnectRequest();

  void reject(const void* data, std::size_t len) noexcept;
  // Hands the id over to the endpoint that accepts.
  CmIdHandle answer() noexcept { return std::move(id_); }

  const RdmaEvent& event() const noexcept { return event_; }
  rdma_cm_id* id() const noexcept { return id_.get(); }
  struct Gone {
    rdma_cm_event_type type;
    int status;
  };
  // The event by which the peer withdrew its request; null: it still stands.
  const Gone* gone() const noexcept { return gone_ ? &*gone_ : nullptr; }
  CmAddress local() const noexcept { return CmAddress::from(rdma_get_local_addr(id_.get())); }
  CmAddress peer() const noexcept;

  // Null once the application has decided, or the listener has closed.
  PassiveEndpoint* listener = nullptr;
  bool announced = false;

  void on_cm_event(const RdmaEvent& event) noexcept override;

 private:
  CmEngine& engine_;
  CmIdHandle id_;
  const RdmaEvent event_;
  std::optional<Gone> gone_;
};

}  // namespace weft::verbs
