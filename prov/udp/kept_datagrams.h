// SPDX-License-Identifier: BSD-2-Clause
// The few datagrams that were read together with others and found no receive; fi_msg(3).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "objects/address.h"

namespace weft::udp {

// Datagrams in one buffer, oldest first. What one reading can bring bounds it; it grows to that once. Guarded by the
// engine's mutex.
class KeptDatagrams {
 public:
  // `origin`: the socket it came from. Out of memory: it is lost, like datagrams are.
  void push(std::span<const std::byte> datagram, const Address& source, const void* origin) noexcept;
  bool empty() const noexcept { return next_ == bytes_.size(); }
  struct Kept {
    std::span<const std::byte> datagram;
    Address source;
  };
  // The oldest one; good until the next call of any kind but drop_first().
  Kept first() const noexcept;
  void drop_first() noexcept;
  // Forgets what came from a socket that goes away.
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
