// SPDX-License-Identifier: BSD-2-Clause
// A peer's connection request; see connect_request.h.
#include "tcp/connection/connect_request.h"

#include "tcp/names.h"
#include "tcp/socket.h"

namespace weft::tcp {

ConnectRequest::ConnectRequest(Watch::Handler ready, Watch::Handler deadline_passed, UniqueFd socket,
                               const Address& peer, Listener& listener) noexcept
    : Watch(ready, deadline_passed), listener_(listener), peer_(peer), socket_(std::move(socket)) {
  abi = {FI_CLASS_CONNREQ, nullptr, ops_of<ConnectRequest>};
}

ConnectRequest::~ConnectRequest() {
  if (socket_) reject(nullptr, 0);
}

Result<bool> ConnectRequest::receive() noexcept {
  for (;;) {
    const auto room = message_.room();
    const ssize_t count = net::recv(socket_.get(), room.data(), room.size());
    if (count == -EAGAIN) {
      readable = false;
      return false;
    }
    if (count <= 0) return failure(FI_ECONNABORTED);
    message_.advance(static_cast<std::size_t>(count));
    const auto complete = message_.complete();
    if (!complete) return complete;
    if (!*complete) continue;
    if (message_.type() != CmType::kRequest) return failure(FI_EREMOTEIO);
    whole_ = true;
    return true;
  }
}

bool ConnectRequest::ended() const noexcept {
  std::byte next;
  return net::recv(socket_.get(), &next, sizeof next) != -EAGAIN;
}

void ConnectRequest::reject(const void* data, std::size_t len) noexcept {
  if (!whole_) return socket_.reset();
  CmMessage refusal;
  refusal.compose(CmType::kReject, data, len);
  // The socket's buffer is empty: the kernel takes the whole message, or the connection is broken anyway.
  (void)net::send(socket_.get(), refusal.unsent().data(), refusal.unsent().size());
  close_gently(socket_);
}

}  // namespace weft::tcp
