// SPDX-License-Identifier: BSD-2-Clause
// A shared transmit context: fi_endpoint(3), fi_stx_context. Operations are posted to the endpoints and complete at
// their queues; queues are lists in memory, so endpoints share only the number of operations that a queue accepts.
#pragma once

#include <rdma/fi_endpoint.h>

#include <cstddef>

#include "abi/ops.h"
#include "base/ref.h"
#include "objects/info.h"

namespace weft {

// Owner: its C handle; close answers -FI_EBUSY while endpoints are bound. Thread-safe: it does not change.
class SharedTransmit final : public Object<fid_stx>, public RefCounted {
 public:
  static int open(RefCounted& domain, const fi_tx_attr* attr, fid_stx** stx, void* context) {
    if (stx == nullptr) return -FI_EINVAL;
    *stx = &(new SharedTransmit(domain, attr, context))->abi;
    return 0;
  }

  const RefCounted& domain() const noexcept { return *domain_; }
  // Operations that each queue accepts; `usual` if the application requested no size.
  std::size_t size(std::size_t usual) const noexcept { return size_ != 0 ? size_ : usual; }

  // Slot of fi_ops.
  int close() {
    if (in_use()) return -FI_EBUSY;
    delete this;
    return 0;
  }

 private:
  SharedTransmit(RefCounted& domain, const fi_tx_attr* attr, void* context) noexcept
      : domain_(domain), size_(or_none(attr).size) {
    identify<SharedTransmit>(abi, FI_CLASS_STX_CTX, context);
  }
  ~SharedTransmit() = default;

  const Ref<RefCounted> domain_;
  const std::size_t size_;
};

}  // namespace weft
