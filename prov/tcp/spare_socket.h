// SPDX-License-Identifier: BSD-2-Clause
// A socket for the next connection, opened while the present one waits for its peer's answer: an application that makes
// many connections in turn does not wait for socket(). One that connects once never has a spare.
//
// Owner: the domain, whose engine's mutex guards it.
#pragma once

#include "base/unique_fd.h"
#include "tcp/socket.h"

namespace weft::tcp {

class SpareSocket {
 public:
  // A new socket, or -errno.
  int take(int family) noexcept {
    repeated_ = family_ == family;
    family_ = family;
    if (repeated_ && socket_) return socket_.release();
    socket_.reset();
    return net::open_stream(family);
  }
  void refill() noexcept {
    if (!repeated_ || socket_) return;
    if (const int fd = net::open_stream(family_); fd >= 0) socket_.reset(fd);
  }

 private:
  UniqueFd socket_;
  int family_ = 0;  // the last taken socket's
  bool repeated_ = false;
};

}  // namespace weft::tcp
