// SPDX-License-Identifier: BSD-2-Clause
// Reading structures of earlier releases; fabric(7) ABI CHANGES.
#include "core/abi_layout.h"

#include <cstring>

namespace weft::core {
namespace {

// Copies the `size` bytes of an older T behind `pointer` to `current` and redirects `pointer` there.
template <class T>
void upgrade(T*& pointer, T& current, std::size_t size) noexcept {
  if (pointer == nullptr) return;
  std::memset(&current, 0, sizeof current);  // padding included: providers may copy or compare whole structures
  std::memcpy(&current, pointer, size);
  pointer = &current;
}

}  // namespace

UpgradedInfo::UpgradedInfo(const fi_info* old, const AbiLayout& layout) noexcept : present_(old != nullptr) {
  if (!present_) return;
  std::memcpy(&info_, old, layout.info);
  info_.next = nullptr;
  upgrade(info_.tx_attr, tx_, layout.tx);
  upgrade(info_.rx_attr, rx_, layout.rx);
  upgrade(info_.ep_attr, ep_, layout.ep);
  upgrade(info_.domain_attr, domain_, layout.domain);
  upgrade(info_.fabric_attr, fabric_, layout.fabric);
}

}  // namespace weft::core
