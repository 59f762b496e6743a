// SPDX-License-Identifier: BSD-2-Clause
// A peer's wish to connect, from the accepted socket to the application's decision: the handle in the fi_info of
// FI_CONNREQ. fi_cm(3) and fi_eq(3) govern.
//
// Owner: the listener while the request arrives, then whoever removes its handle from Fabric::requests: fi_endpoint,
// fi_reject, or the listener that closes. A request that is destroyed without answer() is rejected.
#pragma once

#include <memory>

#include "abi/bridge.h"
#include "base/list.h"
#include "base/unique_fd.h"
#include "objects/address.h"
#include "tcp/cm_message.h"
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

  // Reads what has come. true: the whole request is there. false: more is to come. -FI_ECONNABORTED: the peer went
  // away; other errors: it does not speak our language.
  Result<bool> receive() noexcept;

  // Sends the peer a refusal and closes. Only whole requests are told why.
  void reject(const void* data, std::size_t len) noexcept;

  // Gives the connected socket to an endpoint that accepts.
  UniqueFd answer() noexcept { return std::move(socket_); }

  int socket() const noexcept { return socket_.get(); }
  const CmMessage& message() const noexcept { return message_; }
  const Address& peer() const noexcept { return peer_; }
  Listener& listener() const noexcept { return listener_; }

  // Set once the application knows the request: keeps the listener's engine for release().
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
