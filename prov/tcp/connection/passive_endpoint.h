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
#include "tcp/logging.h"
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
  static fi_provider& provider() noexcept { return tcp::provider(); }
  static constexpr auto read_name = [](auto... name) { return weft::read_name(name...); };
};

class PassiveEndpoint final : public PassiveEndpointBase<PassiveEndpoint, PassiveTypes> {
 public:
  // Slots of fi_ops and fi_ops_cm, beside those of PassiveEndpointBase.
  int close() {
    fabric_->passive().endpoints.remove(&abi.fid);
    if (listener_ != nullptr) {
      listener_->stop();
      listener_->reject(events_->remove(&abi.fid));
      listener_->leave_requests();
    }
    delete this;
    return 0;
  }
  int listen() {
    std::lock_guard lock(mutex_);
    if (Status status = prepare_to_listen(); !status.ok()) return status.code();
    Engine& engine = events_->own_engine();
    if (or_none(info_->domain_attr).progress == FI_PROGRESS_AUTO)
      if (Status status = engine.start_service_thread(); !status.ok()) return status.code();
    prepare_listener(bound_.get(), fabric_->parameters);  // accepted sockets inherit the options
    auto listener = std::make_shared<EventListener>(engine, *fabric_, abi.fid, *events_, *info_, std::move(bound_),
                                                    local_, backlog_);
    const auto started = [&] {
      Lock driving(engine.mutex());
      return listener->start();
    };
    if (Status status = started(); !status.ok()) {
      listener->stop();
      return status.code();
    }
    listener_ = std::move(listener);
    listening_ = true;
    return 0;
  }

 private:
  friend PassiveEndpointBase;
  using PassiveEndpointBase::PassiveEndpointBase;
  static Status prepare(Fabric& fabric, const fi_info& info) { return fabric.check(FI_EP_MSG, info); }
  static Result<Address> source(const fi_info& info) noexcept { return source_name(info); }
  static Status attach(Events& queue) { return queue.open_own_engine(); }
  static void detach(Events&) noexcept {}
  static void release(ConnectRequest& request) noexcept { EventListener::release(request); }
  std::unique_lock<std::mutex> guard() { return std::unique_lock(mutex_); }
  Result<UniqueFd> open_bound() noexcept { return tcp::open_bound(local_, fabric_->parameters, true); }
  bool announced(const ConnectRequest& request) const noexcept {
    return listener_ != nullptr && request.keep_listener == listener_;
  }
  void on_backlog() noexcept {
    if (listener_ == nullptr) return;
    Lock driving(listener_->engine().mutex());
    listener_->set_backlog(backlog_);
  }

  std::mutex mutex_;  // guards the base's members and the rest; taken before the engine's
  std::shared_ptr<EventListener> listener_;
};

}  // namespace weft::tcp
