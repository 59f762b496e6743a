// SPDX-License-Identifier: BSD-2-Clause
// Messages as plain UDP datagrams: one sendto() or recvfrom() each, as in a program without a fabric; and membership in
// groups. See udp(7), ip(7).
#pragma once

#include <netinet/in.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "process/measurement.h"

namespace bench {

class Channel;

class DatagramLink {
 public:
  // The sides exchange their ports over the channel.
  DatagramLink(const Measurement& m, Channel& channel);
  ~DatagramLink();
  DatagramLink(const DatagramLink&) = delete;
  DatagramLink& operator=(const DatagramLink&) = delete;

  // The interface that message_workloads.h requires.
  void send(std::uint64_t word);
  void send_alone(std::uint64_t word) { send(word); }
  std::uint64_t receive();
  std::optional<std::uint64_t> try_receive();
  void release() {}
  void drain() {}

  // The interface of join_workload.h: a socket bound to the group's address.
  void join(const sockaddr_in& group);
  void leave_group();

 private:
  int fd_ = -1;
  int group_ = -1;
  sockaddr_in own_{};
  sockaddr_in peer_{};
  std::vector<char> outgoing_;
  std::vector<char> incoming_;
};

}  // namespace bench
