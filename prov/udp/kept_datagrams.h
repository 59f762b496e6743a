// SPDX-License-Identifier: BSD-2-Clause
// Datagrams that were read in a batch and found no posted receive; fi_msg(3).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "objects/address.h"

namespace weft::udp {

// Datagrams in one buffer, oldest first. At most one batch of them is stored; the buffer grows to that size once.
// Guarded by the engine's mutex.
class KeptDatagrams {
 public:
  // `origin`: the socket that it was read from. If memory runs out the datagram is lost.
  void push(std::span<const std::byte> datagram, const Address& source, const void* origin) noexcept;
  bool empty() const noexcept { return next_ == bytes_.size(); }
  struct Kept {
    std::span<const std::byte> datagram;
    Address source;
  };
  // The oldest one; valid until the next call except drop_first().
  Kept first() const noexcept;
  void drop_first() noexcept;
  // Drops the datagrams of a socket that is being closed.
  void drop_from(const void* origin) noexcept;

 private:
  struct Header {
    Address source;
    const void* origin;
    std::size_t len;
  };
  Header header_at(std::size_t position) const noexcept;

  std::vector<std::byte> bytes_;
  std::size_t next_ = 0;  // position of the oldest one
};

}  // namespace weft::udp
