// SPDX-License-Identifier: BSD-2-Clause
// A socket that an endpoint receives from: its own, or that of a group it is a member of. Datagrams are read in batches
// into the engine's slots, several at once if the kernel joined those of one sender (UDP_GRO), and copied from there to
// the posted receives: so a datagram that is too long for its receive is known in full, and none is lost for want of a
// receive. udp(7).
#pragma once

#include "base/status.h"
#include "base/unique_fd.h"
#include "objects/address.h"
#include "udp/engine.h"

namespace weft::udp {

class Endpoint;

// Owner: the endpoint or the group. Guarded by the engine's mutex.
class DatagramSocket final : public Watch {
 public:
  // `of_group`: what the endpoint sent itself is left out, unless it wants it.
  DatagramSocket(Endpoint& endpoint, bool of_group) noexcept
      : Watch([](Watch& watch) noexcept { return static_cast<DatagramSocket&>(watch).read(); }),
        endpoint_(endpoint),
        of_group_(of_group) {}
  DatagramSocket(const DatagramSocket&) = delete;
  DatagramSocket& operator=(const DatagramSocket&) = delete;
  ~DatagramSocket();

  // Takes a bound socket over and starts to watch it.
  Status open(UniqueFd socket);
  int socket() const noexcept { return socket_.get(); }

 private:
  bool read() noexcept;
  bool accept(std::byte* bytes, std::size_t len, std::size_t segment, const Address& source) noexcept;

  Endpoint& endpoint_;
  const bool of_group_;
  UniqueFd socket_;
  std::size_t window_ = 1;  // datagrams to ask for: more while they come in numbers
};

}  // namespace weft::udp
