// SPDX-License-Identifier: BSD-2-Clause
// Messages over one plain TCP connection, as an expert would write them for speed: a 16-byte header before each payload
// in one row of slots, so that any number of frames goes out in one send() and comes in with one recv(), without a
// copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sockets/socket_node.h"

namespace bench {

struct FrameHeader {
  std::uint64_t size;  // header and payload
  std::uint64_t kind;  // the place of a protocol's fields
};

class SocketLink {
 public:
  // `size` is the payload, `depth` the number of slots in each direction.
  SocketLink(const SocketNode& node, std::size_t size, std::size_t depth);

  // The interface that message_workloads.h requires.
  void send(std::uint64_t word);
  void send_alone(std::uint64_t word) {
    send(word);
    drain();
  }
  std::uint64_t receive();
  void release() {}
  void drain();

 private:
  void fill();

  int fd_;
  int flags_;
  int readiness_;
  std::size_t frame_;           // bytes of header and payload
  std::vector<char> outgoing_;  // depth slots; frames from unsent_ to written_ wait for send()
  std::vector<char> incoming_;  // depth slots; bytes from read_ to filled_ wait for the caller
  std::size_t unsent_ = 0;
  std::size_t written_ = 0;
  std::size_t read_ = 0;
  std::size_t filled_ = 0;
};

}  // namespace bench
