// SPDX-License-Identifier: BSD-2-Clause
// Passive endpoints: fi_passive_ep and fi_pep_bind of fi_endpoint(3), fi_listen, fi_reject and names of fi_cm(3).
// Owner: its C handle. Thread-safe.
#pragma once

#include <memory>
#include <mutex>

#include "base/unique_fd.h"
#include "objects/endpoint_names.h"
#include "objects/passive_endpoint_base.h"
#include "tcp/connection/listener.h"
#include "tcp/fabric.h"
#include "tcp/names.h"

namespace weft::tcp {

// The types that PassiveEndpointBase is instantiated with.
struct PassiveTypes {
  using Fabric = tcp::Fabric;
  using Address = weft::Address;
  using Engine = tcp::Engine;
  using ConnectRequest = tcp::ConnectRequest;
  using Bound = UniqueFd;
  static constexpr std::size_t kCmDataSize = tcp::kCmDataSize;
  static constexpr auto read_name = [](auto... name) { return weft::read_name(name...); };
};

class PassiveEndpoint final : public PassiveEndpointBase<PassiveEndpoint, PassiveTypes> {
 public:
  // Slots of fi_ops and fi_ops_cm, beside those of PassiveEndpointBase.
  int close();
  int listen();

 private:
  friend PassiveEndpointBase;
  using PassiveEndpointBase::PassiveEndpointBase;
  static Result<Address> source(const fi_info& info) noexcept { return source_name(info); }
  static Status attach(Events& queue) { return queue.open_own_engine(); }
  static void detach(Events&) noexcept {}
  static void release(ConnectRequest& request) noexcept { EventListener::release(request); }
  std::unique_lock<std::mutex> guard() { return std::unique_lock(mutex_); }
  Result<UniqueFd> open_bound() noexcept { return tcp::open_bound(local_, fabric_->parameters, true); }
  bool announced(const ConnectRequest& request) const noexcept {
    return listener_ != nullptr && request.keep_listener == listener_;
  }
  void on_backlog() noexcept;

  std::mutex mutex_;  // guards the base's members and the rest; taken before the engine's
  std::shared_ptr<EventListener> listener_;
};

}  // namespace weft::tcp
