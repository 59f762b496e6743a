// SPDX-License-Identifier: BSD-2-Clause
// The sizes of fi_info and its attribute structures in earlier releases, and reading such a structure as a current one;
// fabric(7) ABI CHANGES. Structures only ever grew at their end, so a layout is a row of byte counts.
#pragma once

#include <rdma/fabric.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace weft::core {

// Bytes of each structure that carry members; padding at the end does not count, as later members may lie in it.
struct AbiLayout {
  std::size_t info = 0, tx = 0, rx = 0, ep = 0, domain = 0, fabric = 0;
  friend constexpr bool operator==(const AbiLayout&, const AbiLayout&) = default;
};

#define WEFT_THROUGH(type, member) (offsetof(type, member) + sizeof(type::member))

// `from` with structures that have grown; 0: this one has not.
constexpr AbiLayout grown(const AbiLayout& from, const AbiLayout& to) noexcept {
  return {std::max(from.info, to.info), std::max(from.tx, to.tx),         std::max(from.rx, to.rx),
          std::max(from.ep, to.ep),     std::max(from.domain, to.domain), std::max(from.fabric, to.fabric)};
}

// One row per symbol version at which fi_getinfo changed; the number in the comment is its first release.
inline constexpr AbiLayout kAbi1_0{.info = WEFT_THROUGH(fi_info, fabric_attr),  // 1.0
                                   .tx = WEFT_THROUGH(fi_tx_attr, rma_iov_limit),
                                   .rx = WEFT_THROUGH(fi_rx_attr, iov_limit),
                                   .ep = WEFT_THROUGH(fi_ep_attr, rx_ctx_cnt),
                                   .domain = WEFT_THROUGH(fi_domain_attr, max_ep_srx_ctx),
                                   .fabric = WEFT_THROUGH(fi_fabric_attr, prov_version)};
inline constexpr AbiLayout kAbi1_1 = grown(kAbi1_0, {.ep = WEFT_THROUGH(fi_ep_attr, auth_key),
                                                     .domain = WEFT_THROUGH(fi_domain_attr, mr_cnt),
                                                     .fabric = WEFT_THROUGH(fi_fabric_attr, api_version)});  // 1.5
inline constexpr AbiLayout kAbi1_2 = grown(kAbi1_1, {.info = WEFT_THROUGH(fi_info, nic)});                   // 1.7
inline constexpr AbiLayout kAbi1_3 =
    grown(kAbi1_2, {.tx = WEFT_THROUGH(fi_tx_attr, tclass), .domain = WEFT_THROUGH(fi_domain_attr, tclass)});    // 1.9
inline constexpr AbiLayout kAbi1_7 = grown(kAbi1_3, {.domain = WEFT_THROUGH(fi_domain_attr, max_ep_auth_key)});  // 1.20
inline constexpr AbiLayout kAbi1_8 = grown(kAbi1_7, {.domain = WEFT_THROUGH(fi_domain_attr, max_group_id)});     // 2.0
inline constexpr AbiLayout kAbi1_9 =
    grown(kAbi1_8, {.domain = WEFT_THROUGH(fi_domain_attr, max_err_cntr_value)});  // 2.5
inline constexpr AbiLayout kAbi1_10 = grown(kAbi1_9, {.ep = WEFT_THROUGH(fi_ep_attr, xpu_ctx),
                                                      .domain = WEFT_THROUGH(fi_domain_attr, max_xpu_ctx_cnt)});  // 2.7
#undef WEFT_THROUGH

static_assert(kAbi1_0 == AbiLayout{112, 72, 64, 80, 120, 28});
static_assert(kAbi1_1 == AbiLayout{112, 72, 64, 96, 184, 32});
static_assert(kAbi1_2 == AbiLayout{120, 72, 64, 96, 184, 32});
static_assert(kAbi1_3 == AbiLayout{120, 76, 64, 96, 188, 32});
static_assert(kAbi1_7 == AbiLayout{120, 76, 64, 96, 200, 32});
static_assert(kAbi1_8 == AbiLayout{120, 76, 64, 96, 204, 32});
static_assert(kAbi1_9 == AbiLayout{120, 76, 64, 96, 224, 32});
static_assert(kAbi1_10 == AbiLayout{120, 76, 64, 104, 232, 32});
static_assert(sizeof(fi_info) == 120 && sizeof(fi_tx_attr) == 80 && sizeof(fi_rx_attr) == 64 &&
              sizeof(fi_ep_attr) == 104 && sizeof(fi_domain_attr) == 232 && sizeof(fi_fabric_attr) == 32);

// The layout that code written for this API version allocates.
constexpr const AbiLayout& layout_of_api(uint32_t version) noexcept {
  if (version < FI_VERSION(1, 5)) return kAbi1_0;
  if (version < FI_VERSION(1, 7)) return kAbi1_1;
  if (version < FI_VERSION(1, 9)) return kAbi1_2;
  if (version < FI_VERSION(1, 20)) return kAbi1_3;
  if (version < FI_VERSION(2, 0)) return kAbi1_7;
  if (version < FI_VERSION(2, 5)) return kAbi1_8;
  if (version < FI_VERSION(2, 7)) return kAbi1_9;
  return kAbi1_10;
}

// A current-layout view of an fi_info of an older layout: members that the old layout lacks are zero. Strings, keys and
// addresses stay the original's, so the view must not outlive the original; `next` is NULL.
class UpgradedInfo {
 public:
  UpgradedInfo(const fi_info* old, const AbiLayout& layout) noexcept : present_(old != nullptr) {
    if (!present_) return;
    std::memcpy(&info_, old, layout.info);
    info_.next = nullptr;
    upgrade(info_.tx_attr, tx_, layout.tx);
    upgrade(info_.rx_attr, rx_, layout.rx);
    upgrade(info_.ep_attr, ep_, layout.ep);
    upgrade(info_.domain_attr, domain_, layout.domain);
    upgrade(info_.fabric_attr, fabric_, layout.fabric);
  }
  UpgradedInfo(const UpgradedInfo&) = delete;
  UpgradedInfo& operator=(const UpgradedInfo&) = delete;

  // nullptr when the original was nullptr.
  const fi_info* get() const noexcept { return present_ ? &info_ : nullptr; }

 private:
  // Copies the `size` bytes of an older T behind `pointer` to `current` and redirects `pointer` there.
  template <class T>
  static void upgrade(T*& pointer, T& current, std::size_t size) noexcept {
    if (pointer == nullptr) return;
    std::memset(&current, 0, sizeof current);  // padding included: providers may copy or compare whole structures
    std::memcpy(&current, pointer, size);
    pointer = &current;
  }

  bool present_;
  fi_info info_{};
  fi_tx_attr tx_{};
  fi_rx_attr rx_{};
  fi_ep_attr ep_{};
  fi_domain_attr domain_{};
  fi_fabric_attr fabric_{};
};

}  // namespace weft::core
