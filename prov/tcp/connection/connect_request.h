// SPDX-License-Identifier: BSD-2-Clause
// A peer's connection request, from the accepted socket to the application's decision: the handle in the fi_info of
// FI_CONNREQ; fi_cm(3), fi_eq(3).
//
// Owner: the listener while the request arrives, then the call that removes its handle from Fabric::requests:
// fi_endpoint, fi_reject, the listener's close if the application has not read FI_CONNREQ, or the fabric's close. A
// request that is destroyed without answer() is rejected.
#pragma once

#include <memory>

#include "abi/bridge.h"
#include "base/list.h"
#include "base/unique_fd.h"
#include "objects/address.h"
#include "tcp/connection/cm_message.h"
#include "tcp/engine.h"

namespace weft::tcp {

class EventListener;
class Listener;
struct RequestTag;

class ConnectRequest final : public Object<::fid>, public Watch, public ListHook<RequestTag> {
 public:
  ConnectRequest(Watch::Handler ready, Watch::Handler deadline_passed, UniqueFd socket, const Address& peer,
                 Listener& listener) noexcept;
  ~ConnectRequest();

  // Reads the socket. true: the request is complete. false: more bytes are needed. -FI_ECONNABORTED: the peer closed;
  // other errors: the bytes are not a connection request.
  Result<bool> receive() noexcept;

  // Closes the connection; sends a rejection first if the request is complete.
  void reject(const void* data, std::size_t len) noexcept;

  // Gives the connected socket to the accepting endpoint.
  UniqueFd answer() noexcept { return std::move(socket_); }

  // The peer has closed the connection. It sends nothing before the answer.
  bool ended() const noexcept;

  int socket() const noexcept { return socket_.get(); }
  const CmMessage& message() const noexcept { return message_; }
  const Address& peer() const noexcept { return peer_; }
  Listener& listener() const noexcept { return listener_; }

  // From FI_CONNREQ to the end of the listener: keeps its engine alive for release().
  std::shared_ptr<EventListener> keep_listener;
  Clock::time_point arrived_at;
  Address local;

 private:
  Listener& listener_;
  const Address peer_;
  UniqueFd socket_;
  bool whole_ = false;
  CmMessage message_;
};

}  // namespace weft::tcp
