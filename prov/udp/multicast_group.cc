// SPDX-License-Identifier: BSD-2-Clause
// Memberships; see multicast_group.h.
#include "udp/multicast_group.h"

#include <fmt/format.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include <memory>
#include <utility>

#include "udp/socket.h"

namespace weft::udp {

MulticastGroup::MulticastGroup(Endpoint& endpoint, const Address& group, JoinRole role, void* context) noexcept
    : endpoint_(endpoint), address_(group), role_(role) {
  abi.fid = {FI_CLASS_MC, context, ops_of<MulticastGroup>};
  abi.fi_addr = FI_ADDR_NOTAVAIL;
}

fid_mc* MulticastGroup::join(Endpoint& endpoint, const Address& group, JoinRole role, fi_addr_t name, void* context) {
  std::unique_ptr<MulticastGroup> member(new MulticastGroup(endpoint, group, role, context));
  EventQueueCore::Reserved event = EventQueueCore::reserve_result();
  if (event == nullptr) return nullptr;
  std::string step;
  endpoint.share_port(member.get());
  const Status status = role.receives ? member->open_socket(step) : Status();
  member->joined_ = status.ok();
  if (status.ok()) member->abi.fi_addr = name;
  member->report(std::move(event), status, step);
  return &member.release()->abi;
}

Status MulticastGroup::open_socket(std::string& step) {
  step = "opening a socket";
  const int fd = net::open_datagram(address_.family());
  if (fd < 0) return Status(fd);
  UniqueFd socket(fd);
  step = "sharing the group's address";  // several members on one host
  if (int code = net::share_address(fd, true); code < 0) return Status(code);
  endpoint_->tune(fd);
  step = "binding to the group's address";
  const unsigned interface = endpoint_->interface();
  if (int code = net::bind_group(fd, address_.data(), address_.size(), interface); code < 0) return Status(code);
  step = "joining";
  if (int code = net::join_group(fd, address_.data(), interface); code < 0) return Status(code);
  socket_.emplace(endpoint_->receiver(), true);
  step = "watching the socket";
  return socket_->open(std::move(socket), endpoint_->coalesces_datagrams());
}

void MulticastGroup::report(EventQueueCore::Reserved event, Status status, const std::string& step) {
  EventQueueCore& events = endpoint_->events();
  if (status.ok()) return events.post(std::move(event), FI_JOIN_COMPLETE, {&abi.fid, abi.fid.context, 0});
  EqError error(abi.fid, status.error(), 0,
                fmt::format("joining the group {} from {} failed while {}: {}", address_.to_string(),
                            endpoint_->local_text(), step, fi_strerror(status.error())));
  events.post_error(std::move(error), std::move(event));
}

int MulticastGroup::close() {
  Endpoint& endpoint = *endpoint_;
  {
    Lock lock(endpoint.engine().mutex());
    endpoint.remove_group(*this);
    if (socket_) endpoint.receiver().drop_kept(&*socket_);
    socket_.reset();
  }
  endpoint.events().remove(&abi.fid);
  delete this;
  return 0;
}

}  // namespace weft::udp
