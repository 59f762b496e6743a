// SPDX-License-Identifier: BSD-2-Clause
// A socket that an endpoint receives from: its own, or that of a group it is a member of. Where several may come at
// once or some are not wanted, datagrams are read into the engine's slots and copied from there to the posted receives,
// so that none is lost for want of a receive; else straight into the receive. udp(7).
//
// They are read one by one, by the call that costs the least when nothing is there, until several were waiting; from
// then on in batches, several at once if the kernel joined those of one sender (UDP_GRO), until they come one by one
// again.
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

  // Takes a bound socket over and starts to watch it. `joins`: the kernel may join datagrams.
  Status open(UniqueFd socket, bool joins);
  int socket() const noexcept { return socket_.get(); }

 private:
  bool read() noexcept;
  bool read_one() noexcept;
  bool read_batch(std::size_t most) noexcept;
  bool on_error(int error) noexcept;
  void start_batches() noexcept;
  void end_batches() noexcept;
  bool accept(std::byte* bytes, std::size_t len, std::size_t segment, const Address& source) noexcept;

  Endpoint& endpoint_;
  const bool of_group_;
  UniqueFd socket_;
  bool joins_ = false;
  bool batches_ = false;
  std::size_t in_a_row_ = 0;  // datagrams that were waiting, or batches of one
  std::size_t window_ = 1;    // datagrams to ask for: more while they come in numbers
};

}  // namespace weft::udp
