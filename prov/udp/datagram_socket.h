// SPDX-License-Identifier: BSD-2-Clause
// A socket that an endpoint receives from: its own, or the socket of a group that it is a member of. Single datagrams
// of its own socket are read directly into the posted receive. Batches, and datagrams of groups, are read into the
// engine's slots and copied to the posted receives, so that none is lost for lack of a receive. udp(7).
//
// Datagrams are read one by one, with the call that costs least when there is none, until several were waiting in a
// row; from then on in batches, in which the kernel may coalesce datagrams of one sender (UDP_GRO), until they arrive
// one by one again.
#pragma once

#include "base/status.h"
#include "base/unique_fd.h"
#include "objects/address.h"
#include "udp/engine.h"

namespace weft::udp {

class Receiver;

// Owner: the endpoint or the group. Guarded by the engine's mutex.
class DatagramSocket final : public Watch {
 public:
  // `is_group`: datagrams that the endpoint sent itself are dropped, unless the application turned loopback on.
  DatagramSocket(Receiver& receiver, bool is_group) noexcept
      : Watch([](Watch& watch) noexcept { return static_cast<DatagramSocket&>(watch).read(); }),
        receiver_(receiver),
        is_group_(is_group) {}
  DatagramSocket(const DatagramSocket&) = delete;
  DatagramSocket& operator=(const DatagramSocket&) = delete;
  ~DatagramSocket();

  // Takes ownership of a bound socket and starts to watch it. `coalesces`: the kernel may coalesce datagrams.
  Status open(UniqueFd socket, bool coalesces);
  int socket() const noexcept { return socket_.get(); }

 private:
  bool read() noexcept;
  bool read_one() noexcept;
  bool read_batch(std::size_t most) noexcept;
  bool on_error(int error) noexcept;
  void start_batches() noexcept;
  void end_batches() noexcept;
  bool accept(std::byte* bytes, std::size_t len, std::size_t segment, const Address& source) noexcept;

  Receiver& receiver_;
  const bool is_group_;
  UniqueFd socket_;
  bool coalesces_ = false;
  bool batches_ = false;
  std::size_t in_a_row_ = 0;  // consecutive reads that found a datagram, or batches of one
  std::size_t window_ = 1;    // datagrams to read at once; grows while batches are full
};

}  // namespace weft::udp
