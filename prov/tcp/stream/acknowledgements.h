// SPDX-License-Identifier: BSD-2-Clause
// Acknowledgements that a receiver must send (FI_DELIVERY_COMPLETE). They are sent in the order of the messages, since
// the peer matches them first in, first out (docs/decisions/0003).
#pragma once

#include <cstdint>

#include "base/ring.h"

namespace weft::tcp {

class Acknowledgements {
 public:
  bool empty() const noexcept { return delivered_.empty(); }
  // A message has arrived that is to be acknowledged. Returns its sequence number.
  std::uint64_t reserve() {
    delivered_.push_back(false);
    return newest();
  }
  // Sequence number of the last reserve().
  std::uint64_t newest() const noexcept { return first_ + delivered_.size() - 1; }
  // The message is delivered. Returns how many acknowledgements may be sent now.
  unsigned deliver(std::uint64_t sequence) noexcept {
    delivered_[sequence - first_] = true;
    unsigned count = 0;
    for (; !delivered_.empty() && delivered_.front(); ++count, ++first_) delivered_.pop_front();
    return count;
  }

 private:
  Ring<bool> delivered_;
  std::uint64_t first_ = 0;  // sequence number of delivered_[0]
};

}  // namespace weft::tcp
