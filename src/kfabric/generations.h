// SPDX-License-Identifier: BSD-2-Clause
// Both generations of kfabric's structures. Names without a suffix are API 1.7's. A client of API 1.1 passes pointers
// to its own structures through the same slots; is_1_1 of its fabric is set.
#pragma once

#define KFI_1_1(name) name##_1_1

#include <kfi/kfi_endpoint.h>
#include <kfi/kfi_layouts_1_1.h>
#include <kfi/kfi_rma.h>
#include <kfi/kfi_tagged.h>

// The calls that take structures of API 1.1.
extern "C" {
int kfi_getinfo_1_1(uint32_t version, kfi_info_1_1* hints, kfi_info_1_1** info);
void kfi_freeinfo_1_1(kfi_info_1_1* info);
kfi_info_1_1* kfi_allocinfo_1_1(void);
kfi_info_1_1* kfi_dupinfo_1_1(const kfi_info_1_1* info);
int kfi_fabric_1_1(kfi_fabric_attr_1_1* attr, kfid_fabric** fabric, void* context);
char* kfi_tostr_1_1(const void* data, kfi_type datatype);
}

namespace weft::kfabric {

template <class T>
struct In1_1;
#define WEFT_IN_1_1(name)    \
  template <>                \
  struct In1_1<name> {       \
    using Type = name##_1_1; \
  }
WEFT_IN_1_1(kfi_info);
WEFT_IN_1_1(kfi_tx_attr);
WEFT_IN_1_1(kfi_rx_attr);
WEFT_IN_1_1(kfi_mr_attr);
WEFT_IN_1_1(kfi_msg);
WEFT_IN_1_1(kfi_msg_rma);
WEFT_IN_1_1(kfi_msg_tagged);

// A client's structure of API 1.1, which a slot gives as 1.7's.
template <class T>
const auto& as_1_1(const T& structure) {
  return reinterpret_cast<const typename In1_1<T>::Type&>(structure);
}
template <class T>
auto& as_1_1(T& structure) {
  return reinterpret_cast<typename In1_1<T>::Type&>(structure);
}

// The members in front of the rest are alike, so that code for either may read them.
static_assert(offsetof(kfi_info, fabric_attr) == offsetof(kfi_info_1_1, fabric_attr));
static_assert(offsetof(kfi_domain_attr, max_ep_srx_ctx) == offsetof(kfi_domain_attr_1_1, max_ep_srx_ctx));

}  // namespace weft::kfabric
