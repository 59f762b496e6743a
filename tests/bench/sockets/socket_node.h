// SPDX-License-Identifier: BSD-2-Clause
// One side of a measurement over plain TCP sockets: a listener or its address, and connected sockets. A connection
// counts as made when a hello has gone both ways, as a fabric's connection request and response do. See tcp(7),
// epoll(7).
#pragma once

#include <netinet/in.h>

#include <vector>

#include "process/measurement.h"

namespace bench {

class SocketNode {
 public:
  // The server listens on a free port and sends its number over the channel.
  SocketNode(Role role, Wait wait, Channel& channel);
  ~SocketNode();
  SocketNode(const SocketNode&) = delete;
  SocketNode& operator=(const SocketNode&) = delete;

  // Makes `count` connections from both sides, at most `outstanding` at once. The first socket of either side is the
  // same connection.
  void establish(std::size_t count, std::size_t outstanding);

  // Server: accepts `count` connections one by one and closes each when its peer leaves.
  void serve_short_connections(std::size_t count);
  // Client: connects, exchanges hellos and closes.
  void connect_and_close();

  int socket(std::size_t index) const { return sockets_[index]; }
  Role role() const { return role_; }
  // Descriptor of an epoll set with every socket when there are several, for readers that do not know the active one.
  int readiness() const { return sockets_.size() > 1 ? epoll_ : -1; }
  // For recv and send: MSG_DONTWAIT on a side that spins, nothing on one that sleeps.
  int flags() const { return wait_ == Wait::kSpin ? MSG_DONTWAIT : 0; }

 private:
  void accept(std::size_t count);
  void connect(std::size_t count, std::size_t outstanding);
  int start_connect();
  void watch(int fd);

  Role role_;
  Wait wait_;
  int epoll_ = -1;
  int listener_ = -1;
  sockaddr_in address_{};
  std::vector<int> sockets_;
};

}  // namespace bench
