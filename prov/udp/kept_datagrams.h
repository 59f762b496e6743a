// SPDX-License-Identifier: BSD-2-Clause
// Datagrams that were read in a batch and found no posted receive; fi_msg(3).
#pragma once

#include <cstddef>
#include <new>
#include <span>
#include <vector>

#include "objects/address.h"

namespace weft::udp {

// Datagrams in one buffer, oldest first. At most one batch of them is stored; the buffer grows to that size once.
// Guarded by the engine's mutex.
class KeptDatagrams {
 public:
  // `origin`: the socket that it was read from. If memory runs out the datagram is lost.
  void push(std::span<const std::byte> datagram, const Address& source, const void* origin) noexcept try {
    kept_.reserve(kept_.size() + 1);
    bytes_.insert(bytes_.end(), datagram.begin(), datagram.end());
    kept_.push_back({source, origin, bytes_.size() - datagram.size(), datagram.size()});
  } catch (const std::bad_alloc&) {
  }
  bool empty() const noexcept { return next_ == kept_.size(); }
  struct Kept {
    std::span<const std::byte> datagram;
    Address source;
  };
  // The oldest one; valid until the next call except drop_first().
  Kept first() const noexcept {
    const Place& place = kept_[next_];
    return {{bytes_.data() + place.at, place.len}, place.source};
  }
  void drop_first() noexcept {
    ++next_;
    clear_if_empty();
  }
  // Drops the datagrams of a socket that is being closed.
  void drop_from(const void* origin) noexcept {
    kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(next_));
    next_ = 0;
    std::erase_if(kept_, [&](const Place& place) { return place.origin == origin; });
    clear_if_empty();
  }

 private:
  struct Place {
    Address source;
    const void* origin;
    std::size_t at, len;  // where its bytes are
  };
  // The memory stays for the next time.
  void clear_if_empty() noexcept {
    if (!empty()) return;
    bytes_.clear();
    kept_.clear();
    next_ = 0;
  }

  std::vector<std::byte> bytes_;
  std::vector<Place> kept_;
  std::size_t next_ = 0;  // the oldest one
};

}  // namespace weft::udp
