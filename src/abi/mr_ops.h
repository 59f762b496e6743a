// SPDX-License-Identifier: BSD-2-Clause
// The ops table of memory registration; fi_mr(3) governs the calls.
#pragma once

#include <rdma/fi_domain.h>

#include "abi/bridge.h"

namespace weft {

// The arguments of `regv` in the form of `regattr`.
inline fi_mr_attr describe_region(const iovec* iov, size_t count, uint64_t access, uint64_t offset,
                                  uint64_t requested_key, void* context) noexcept {
  fi_mr_attr attr{};
  attr.mr_iov = iov;
  attr.iov_count = count;
  attr.access = access;
  attr.offset = offset;
  attr.requested_key = requested_key;
  attr.context = context;
  return attr;
}

template <class T, int Missing = FI_ENOSYS>
constexpr fi_ops_mr make_mr_ops() noexcept {
  fi_ops_mr table{};
  table.size = sizeof table;
  WEFT_SLOT(reg);
  WEFT_SLOT(regv);
  WEFT_SLOT(regattr);
  return table;
}

}  // namespace weft
