// SPDX-License-Identifier: BSD-2-Clause
// An endpoint's membership in a multicast group: fi_join, fi_close and fi_mc_addr; fi_cm(3).
//
// A receiving member has a socket bound to the group's address and port and joined on the endpoint's interface, because
// a socket that is bound to a local address receives no group's datagrams, and the group's port may differ from the
// endpoint's. Sends use the endpoint's own socket, so that receivers see its address.
#pragma once

#include <rdma/fi_cm.h>

#include <optional>
#include <string>

#include "abi/bridge.h"
#include "base/ref.h"
#include "objects/datagram_bindings.h"
#include "udp/datagram_socket.h"
#include "udp/endpoint.h"

namespace weft::udp {

// Owner: its C handle. The endpoint's close answers -FI_EBUSY while it exists.
class MulticastGroup final : public Object<fid_mc> {
 public:
  // Becomes a member and posts the result to the endpoint's event queue. With the engine's mutex held. Null: no memory.
  static fid_mc* join(Endpoint& endpoint, const Address& group, JoinRole role, fi_addr_t name, void* context);

  // Slot of fi_ops: leaves the group.
  int close();

  const Address& address() const noexcept { return address_; }
  bool may_send() const noexcept { return joined_ && role_.sends; }
  bool receives() const noexcept { return joined_ && role_.receives; }
  // With the engine's mutex held.
  void receive_posted() noexcept {
    if (socket_ && socket_->readable) endpoint_->engine().make_ready(*socket_);
  }

 private:
  MulticastGroup(Endpoint& endpoint, const Address& group, JoinRole role, void* context) noexcept;
  Status open_socket(std::string& step);
  void report(EventQueueCore::Reserved event, Status status, const std::string& step);

  const Ref<Endpoint> endpoint_;
  const Address address_;  // with the port in use
  const JoinRole role_;
  bool joined_ = false;
  std::optional<DatagramSocket> socket_;
};

}  // namespace weft::udp
