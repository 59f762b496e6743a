// SPDX-License-Identifier: BSD-2-Clause
// The receiving half of a reliable-datagram endpoint; see receive_side.h.
#include "rdm/receive_side.h"

namespace weft::rdm {

void ReceiveSide::complete(const Delivery& delivery, const Envelope& envelope) noexcept {
  ReceiveSide& side = side_of(envelope);
  side.Base::complete(delivery, envelope, routes_at(side));
}

void ReceiveSide::fail(const Delivery& delivery, const Envelope& envelope, int error, int native) noexcept {
  ReceiveSide& side = side_of(envelope);
  side.Base::fail(delivery, envelope, error, native, routes_at(side));
}

void ReceiveSide::cancel_all() noexcept {
  if (shares_) return contexts_.front()->discard_all(protocol_);
  for (ReceiveSide* context : contexts_) context->cancel_all();
  Base::cancel_all(routes_);
  discard_all(nullptr);
}

}  // namespace weft::rdm
