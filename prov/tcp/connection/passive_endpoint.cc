// SPDX-License-Identifier: BSD-2-Clause
// Passive endpoints; see passive_endpoint.h.
#include "tcp/connection/passive_endpoint.h"

namespace weft::tcp {

int PassiveEndpoint::close() {
  fabric_->passive_endpoints.remove(&abi.fid);
  if (listener_ != nullptr) {
    listener_->close();
    events_->remove(&abi.fid, free_info);
  }
  delete this;
  return 0;
}

void PassiveEndpoint::on_backlog() noexcept {
  if (listener_ == nullptr) return;
  Lock driving(listener_->engine().mutex());
  listener_->set_backlog(backlog_);
}

int PassiveEndpoint::listen() {
  std::lock_guard lock(mutex_);
  if (Status status = prepare_to_listen(); !status.ok()) return status.code();
  Engine& engine = events_->own_engine();
  if (info_->domain_attr != nullptr && info_->domain_attr->progress == FI_PROGRESS_AUTO)
    if (Status status = engine.start_service_thread(); !status.ok()) return status.code();
  prepare_listener(bound_.get(), fabric_->parameters);  // accepted sockets inherit the options
  auto listener =
      std::make_shared<EventListener>(engine, *fabric_, abi.fid, *events_, *info_, std::move(bound_), local_, backlog_);
  const auto started = [&] {
    Lock driving(engine.mutex());
    return listener->start();
  };
  if (Status status = started(); !status.ok()) {
    listener->close();
    return status.code();
  }
  listener_ = std::move(listener);
  listening_ = true;
  return 0;
}

}  // namespace weft::tcp
