// SPDX-License-Identifier: BSD-2-Clause
// Tickets that name the announced messages of one sender until they are sent; see data_header.h.
#pragma once

#include <bitset>
#include <cstdint>

#include "tcp/stream/data_header.h"

namespace weft::tcp {

class Tickets {
 public:
  bool any_left() const noexcept { return left_ != 0; }
  // Never 0. At least one is left.
  std::uint8_t take() noexcept {
    do {
      if (++last_ == 0) last_ = 1;
    } while (in_use_[last_]);
    in_use_.set(last_);
    --left_;
    return last_;
  }
  void give_back(std::uint8_t ticket) noexcept {
    in_use_.reset(ticket);
    ++left_;
  }

 private:
  std::bitset<kTickets> in_use_;
  std::uint8_t last_ = 0;
  std::uint16_t left_ = kTickets - 1;
};

}  // namespace weft::tcp
