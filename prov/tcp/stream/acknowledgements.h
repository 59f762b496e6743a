// SPDX-License-Identifier: BSD-2-Clause
// Acknowledgements that a receiver must send (FI_DELIVERY_COMPLETE). They are sent in the order of the messages, since
// the peer matches them first in, first out (docs/decisions/0003).
#pragma once

namespace weft::tcp {

// The place of one message in that order, from reserve() to deliver(). Owner: the message. Must not move.
struct Acknowledgement {
  Acknowledgement* earlier = nullptr;
  Acknowledgement* later = nullptr;
  unsigned held_back = 0;  // acknowledgements of delivered messages that follow this one at once
};

class Acknowledgements {
 public:
  bool empty() const noexcept { return newest_ == nullptr; }
  // A message has arrived that is to be acknowledged.
  void reserve(Acknowledgement& place) noexcept {
    place = {.earlier = newest_};
    if (newest_ != nullptr) newest_->later = &place;
    newest_ = &place;
  }
  // The message is delivered. Returns how many acknowledgements may be sent now.
  unsigned deliver(Acknowledgement& place) noexcept {
    const unsigned count = 1 + place.held_back;
    (place.later != nullptr ? place.later->earlier : newest_) = place.earlier;
    if (place.earlier == nullptr) return count;
    place.earlier->later = place.later;
    place.earlier->held_back += count;
    return 0;
  }

 private:
  Acknowledgement* newest_ = nullptr;
};

}  // namespace weft::tcp
