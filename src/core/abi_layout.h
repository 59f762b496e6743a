// SPDX-License-Identifier: BSD-2-Clause
// The sizes of fi_info and its attribute structures in earlier releases, and reading such a structure as a current one;
// fabric(7) ABI CHANGES. Structures only ever grew at their end, so a layout is a row of byte counts.
#pragma once

#include <rdma/fabric.h>

#include <cstddef>
#include <cstdint>

namespace weft::core {

// Bytes of each structure that carry members; padding at the end does not count, as later members may lie in it.
struct AbiLayout {
  std::size_t info, tx, rx, ep, domain, fabric;
  friend constexpr bool operator==(const AbiLayout&, const AbiLayout&) = default;
};

#define WEFT_THROUGH(type, member) (offsetof(type, member) + sizeof(type::member))

// One row per symbol version at which fi_getinfo changed; the number in the comment is its first release.
inline constexpr AbiLayout kAbi1_0{.info = WEFT_THROUGH(fi_info, fabric_attr),  // 1.0
                                   .tx = WEFT_THROUGH(fi_tx_attr, rma_iov_limit),
                                   .rx = WEFT_THROUGH(fi_rx_attr, iov_limit),
                                   .ep = WEFT_THROUGH(fi_ep_attr, rx_ctx_cnt),
                                   .domain = WEFT_THROUGH(fi_domain_attr, max_ep_srx_ctx),
                                   .fabric = WEFT_THROUGH(fi_fabric_attr, prov_version)};
inline constexpr AbiLayout kAbi1_1 = [] {  // 1.5
  AbiLayout layout = kAbi1_0;
  layout.ep = WEFT_THROUGH(fi_ep_attr, auth_key);
  layout.domain = WEFT_THROUGH(fi_domain_attr, mr_cnt);
  layout.fabric = WEFT_THROUGH(fi_fabric_attr, api_version);
  return layout;
}();
inline constexpr AbiLayout kAbi1_2 = [] {  // 1.7
  AbiLayout layout = kAbi1_1;
  layout.info = WEFT_THROUGH(fi_info, nic);
  return layout;
}();
inline constexpr AbiLayout kAbi1_3 = [] {  // 1.9
  AbiLayout layout = kAbi1_2;
  layout.tx = WEFT_THROUGH(fi_tx_attr, tclass);
  layout.domain = WEFT_THROUGH(fi_domain_attr, tclass);
  return layout;
}();
inline constexpr AbiLayout kAbi1_7 = [] {  // 1.20
  AbiLayout layout = kAbi1_3;
  layout.domain = WEFT_THROUGH(fi_domain_attr, max_ep_auth_key);
  return layout;
}();
inline constexpr AbiLayout kAbi1_8 = [] {  // 2.0
  AbiLayout layout = kAbi1_7;
  layout.domain = WEFT_THROUGH(fi_domain_attr, max_group_id);
  return layout;
}();
inline constexpr AbiLayout kAbi1_9 = [] {  // 2.5
  AbiLayout layout = kAbi1_8;
  layout.domain = WEFT_THROUGH(fi_domain_attr, max_err_cntr_value);
  return layout;
}();
inline constexpr AbiLayout kAbi1_10 = [] {  // 2.7
  AbiLayout layout = kAbi1_9;
  layout.ep = WEFT_THROUGH(fi_ep_attr, xpu_ctx);
  layout.domain = WEFT_THROUGH(fi_domain_attr, max_xpu_ctx_cnt);
  return layout;
}();
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
  UpgradedInfo(const fi_info* old, const AbiLayout& layout) noexcept;
  UpgradedInfo(const UpgradedInfo&) = delete;
  UpgradedInfo& operator=(const UpgradedInfo&) = delete;

  // nullptr when the original was nullptr.
  const fi_info* get() const noexcept { return present_ ? &info_ : nullptr; }

 private:
  bool present_;
  fi_info info_{};
  fi_tx_attr tx_{};
  fi_rx_attr rx_{};
  fi_ep_attr ep_{};
  fi_domain_attr domain_{};
  fi_fabric_attr fabric_{};
};

}  // namespace weft::core
