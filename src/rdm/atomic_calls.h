// SPDX-License-Identifier: BSD-2-Clause
// The atomic calls of reliable-datagram endpoints, and the tables of their states; fi_atomic(3).
#pragma once

#include <rdma/fi_atomic.h>

#include <concepts>

#include "abi/ops.h"
#include "messages/atomic_calls.h"
#include "rdm/atomic_origin.h"
#include "rdm/endpoint_calls.h"

namespace weft::rdm {

template <class T>
concept AtomicTarget = TransferTarget<T> &&
    requires(T& target, const AtomicRequest& request, AtomicKind kind, fi_datatype datatype, fi_op operation) {
  { target.update(request) }
  noexcept->std::same_as<ssize_t>;
  // Elements per operation; 0: not supported.
  { target.atomic_count(kind, datatype, operation) }
  noexcept->std::same_as<std::size_t>;
};

// T: the AtomicTarget that derives from this.
template <class T>
class AtomicCalls : public messages::AtomicCalls<T, EndpointCalls<T>> {
 public:
  uint64_t default_flags() const noexcept { return this->transmit_flags_; }

 protected:
  AtomicCalls(const fi_info& info, ReceiveSide& receives, bool directs, std::size_t tx_size) noexcept
      : messages::AtomicCalls<T, EndpointCalls<T>>(info, receives, directs, tx_size) {
    static_assert(AtomicTarget<T>);
  }

  void refuse_transfers() noexcept {
    EndpointCalls<T>::refuse_transfers();
    this->abi.atomic = ops_of<NoCalls, FI_EOPBADSTATE>;
  }
  void take_transfers(uint64_t caps) noexcept {
    static constexpr fi_ops_atomic kAtomic = Triggers<T>::atomic();
    EndpointCalls<T>::take_transfers(caps);
    this->abi.atomic = slots((caps & FI_ATOMIC) != 0 || caps == 0 ? kAtomic : kOps<fi_ops_atomic, NoCalls>);
  }
};

}  // namespace weft::rdm
