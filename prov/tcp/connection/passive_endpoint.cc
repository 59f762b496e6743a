// SPDX-License-Identifier: BSD-2-Clause
// Passive endpoints; see passive_endpoint.h.
#include "tcp/connection/passive_endpoint.h"

#include "tcp/names.h"
#include "tcp/socket.h"

namespace weft::tcp {

PassiveEndpoint::PassiveEndpoint(Fabric& fabric, InfoPtr info, const Address& local, void* context)
    : PassiveEndpointBase(fabric, std::move(info), local, context), backlog_(fabric.parameters.backlog) {}

int PassiveEndpoint::close() {
  fabric_->passive_endpoints.remove(&abi.fid);
  if (listener_ != nullptr) {
    listener_->close();
    events_->detach(listener_->engine());
    events_->remove(&abi.fid, free_info);
  }
  delete this;
  return 0;
}

int PassiveEndpoint::bind(::fid* object, uint64_t flags) {
  auto* queue = EventQueue::from(object);
  if (queue == nullptr) return -FI_EINVAL;
  if (flags != 0) return -FI_EBADFLAGS;
  std::lock_guard lock(mutex_);
  if (given_away_ || listener_ != nullptr) return -FI_EOPBADSTATE;
  if (events_) return -FI_EINVAL;
  events_ = Ref<EventQueue>(*queue);
  return 0;
}

int PassiveEndpoint::control(int command, void* argument) {
  if (command != FI_BACKLOG) return -FI_ENOSYS;
  if (argument == nullptr || *static_cast<const int*>(argument) <= 0) return -FI_EINVAL;
  std::lock_guard lock(mutex_);
  backlog_ = *static_cast<const int*>(argument);
  if (listener_ == nullptr) return 0;
  Lock driving(listener_->engine().mutex());
  listener_->set_backlog(backlog_);
  return 0;
}

int PassiveEndpoint::setname(void* name, size_t len) {
  auto wanted = read_name(info_->addr_format, name, len);
  if (!wanted) return wanted.error().code();
  std::lock_guard lock(mutex_);
  if (given_away_ || listener_ != nullptr) return -FI_EOPBADSTATE;
  // The port that was assigned before stays unless the new name has one.
  if (wanted->port() == 0) wanted->set_port(local_.port());
  socket_.reset();
  auto socket = open_bound(*wanted, fabric_->parameters, true);
  if (!socket) return socket.error().code();
  socket_ = std::move(*socket);
  local_ = *wanted;
  return 0;
}

Status PassiveEndpoint::bind_socket_locked() noexcept {
  if (socket_ || listener_ != nullptr) return Status();
  if (given_away_) return Status(-FI_EOPBADSTATE);
  auto socket = open_bound(local_, fabric_->parameters, true);
  if (!socket) return socket.error();
  socket_ = std::move(*socket);
  return Status();
}

int PassiveEndpoint::getname(void* name, size_t* len) {
  std::lock_guard lock(mutex_);
  if (Status status = bind_socket_locked(); !status.ok()) return status.code();
  return report_name(local_, name, len);
}

int PassiveEndpoint::listen() {
  std::lock_guard lock(mutex_);
  if (!events_) return -FI_ENOEQ;
  if (given_away_ || listener_ != nullptr) return -FI_EOPBADSTATE;
  if (Status status = bind_socket_locked(); !status.ok()) return status.code();
  InfoPtr prototype(duplicate_info(info_.get()));
  if (prototype == nullptr) return -FI_ENOMEM;
  auto engine = Engine::open();
  if (!engine) return engine.error().code();
  if (info_->domain_attr != nullptr && info_->domain_attr->progress == FI_PROGRESS_AUTO)
    if (Status status = (*engine)->start_service_thread(); !status.ok()) return status.code();
  prepare_listener(socket_.get(), fabric_->parameters);  // accepted sockets inherit the options
  auto listener = std::make_shared<EventListener>(std::move(*engine), *fabric_, &abi.fid, *events_,
                                                  std::move(prototype), std::move(socket_), local_, backlog_);
  if (Status status = events_->attach(listener->engine()); !status.ok()) return status.code();
  const auto started = [&] {
    Lock driving(listener->engine().mutex());
    return listener->start();
  };
  if (Status status = started(); !status.ok()) {
    listener->close();
    events_->detach(listener->engine());
    return status.code();
  }
  listener_ = std::move(listener);
  return 0;
}

int PassiveEndpoint::reject(::fid* handle, const void* data, size_t len) {
  if (data == nullptr && len != 0) return -FI_EINVAL;
  if (!fabric_->requests.contains(handle)) return -FI_EINVAL;
  auto& request = object<ConnectRequest>(handle);
  {
    std::lock_guard lock(mutex_);
    if (listener_ == nullptr || request.keep_listener != listener_) return -FI_EINVAL;
  }
  if (!fabric_->requests.remove(handle)) return -FI_EINVAL;
  EventListener::release(request);
  request.reject(data, len);
  delete &request;
  return 0;
}

Result<UniqueFd> PassiveEndpoint::give_away(Address& local) {
  std::lock_guard lock(mutex_);
  if (listener_ != nullptr) return failure(FI_EOPBADSTATE);
  if (Status status = bind_socket_locked(); !status.ok()) return failure(status);
  given_away_ = true;
  local = local_;
  return std::move(socket_);
}

}  // namespace weft::tcp
