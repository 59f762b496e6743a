// SPDX-License-Identifier: BSD-2-Clause
// Buffers for packets; see buffers.h.
#include "rxm/messages/buffers.h"

#include <new>

#include "rxm/domain.h"
#include "rxm/limits.h"

namespace weft::rxm {

bool Buffers::grow() noexcept {
  Slab slab;
  slab.bytes.reset(new (std::nothrow) std::byte[size_ * kBuffersPerSlab]);
  slab.buffers.reset(new (std::nothrow) Buffer[kBuffersPerSlab]);
  if (slab.bytes == nullptr || slab.buffers == nullptr) return false;
  void* desc = nullptr;
  if (domain_.registers_locally()) {
    auto region = domain_.register_memory(slab.bytes.get(), size_ * kBuffersPerSlab, FI_SEND | FI_RECV);
    if (!region) return false;
    slab.region = std::move(*region);
    desc = fi_mr_desc(slab.region.get());
  }
  for (std::size_t i = 0; i < kBuffersPerSlab; ++i) {
    slab.buffers[i].bytes = slab.bytes.get() + i * size_;
    slab.buffers[i].desc = desc;
  }
  try {
    slabs_.push_back(std::move(slab));
  } catch (const std::bad_alloc&) {
    return false;
  }
  for (std::size_t i = 0; i < kBuffersPerSlab; ++i) free_.push_back(slabs_.back().buffers[i]);
  return true;
}

}  // namespace weft::rxm
