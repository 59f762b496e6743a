// SPDX-License-Identifier: BSD-2-Clause
// Passive endpoints: fi_passive_ep and fi_pep_bind of fi_endpoint(3), fi_listen, fi_reject and names of fi_cm(3).
// The backlog limits the requests that are announced and not answered; later ones are stored, up to a limit, and
// announced as earlier ones are answered.
//
// Owner: its C handle. The mutex of the fabric's engine guards everything.
#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>

#include "abi/bridge.h"
#include "base/list.h"
#include "objects/passive_endpoint_base.h"
#include "verbs/cm/fabric_services.h"
#include "verbs/cm/private_data.h"
#include "verbs/connection/connect_request.h"
#include "verbs/transfer/queues.h"

namespace weft::verbs {

class PassiveEndpoint final : public PassiveEndpointBase<PassiveEndpoint, FabricServices, CmAddress>,
                              private CmHandler {
 public:
  // With the engine's mutex held. Hands the bound id to an active endpoint that inherits the address (fi_info.handle);
  // afterwards this object can only be closed. -FI_EOPBADSTATE: listening.
  Result<CmIdHandle> give_away() noexcept;
  // With the engine's mutex held. Passes a request that the application has decided on to the caller.
  static void release(ConnectRequest& request) noexcept;

  // Slots of fi_ops. `control`: FI_BACKLOG.
  int close();
  int bind(::fid* object, uint64_t flags);
  int control(int command, void* argument);

  // Slots of fi_ops_cm.
  int setname(void* name, size_t len);
  int getname(void* name, size_t* len);
  int listen();
  int reject(::fid* handle, const void* data, size_t len);

 private:
  friend PassiveEndpointBase;
  static constexpr std::size_t kDataSize = kCmDataSize;
  static Result<CmAddress> source(const fi_info& info) noexcept { return CmAddress::source(info); }
  static Status prepare(FabricServices& fabric, const fi_info& info);
  PassiveEndpoint(FabricServices& fabric, InfoPtr info, const CmAddress& local, void* context);
  ~PassiveEndpoint() = default;
  CmEngine& engine() const noexcept { return fabric_->engine(); }

  void on_cm_event(const RdmaEvent& event) noexcept override;
  void on_deadline() noexcept override {}
  void on_note() noexcept override {}
  void on_device_event(ibv_event_type, int) noexcept override {}
  void on_qp_event(ibv_event_type) noexcept override {}

  Status bind_id() noexcept;
  void take_request(const RdmaEvent& event) noexcept;
  void announce_waiting() noexcept;
  bool announce(ConnectRequest& request) noexcept;
  void report_failure(const RdmaEvent& event) noexcept;

  CmIdHandle id_;
  bool given_away_ = false;
  bool listening_ = false;
  std::size_t backlog_;
  std::size_t pending_count_ = 0;
  std::size_t waiting_count_ = 0;
  List<ConnectRequest> pending_;  // announced
  List<ConnectRequest> waiting_;  // not announced, oldest first
  Ref<EventQueue> events_;
};

}  // namespace weft::verbs
