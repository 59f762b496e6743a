// SPDX-License-Identifier: BSD-2-Clause
// Names of bits in the order of fi_tostr, which is libfabric's, because programs parse its text; fi_fabric(3).
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

namespace weft {

struct Name {
  uint64_t value;
  std::string_view text;
};

// `text` is the names of the values, as the preprocessor writes them: separated by ", ".
template <class... Values>
consteval std::array<Name, sizeof...(Values)> named(std::string_view text, Values... values) noexcept {
  std::array<Name, sizeof...(Values)> names{Name{static_cast<uint64_t>(values), {}}...};
  for (Name& name : names) {
    name.text = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), name.text.size() + 2));
  }
  return names;
}
#define WEFT_NAMES(...) ::weft::named(#__VA_ARGS__, __VA_ARGS__)

namespace names {
inline constexpr auto kCaps = WEFT_NAMES(
    FI_MSG, FI_RMA, FI_TAGGED, FI_ATOMIC, FI_MULTICAST, FI_COLLECTIVE, FI_READ, FI_WRITE, FI_RECV, FI_SEND,
    FI_REMOTE_READ, FI_REMOTE_WRITE, FI_MULTI_RECV, FI_REMOTE_CQ_DATA, FI_TRIGGER, FI_FENCE, FI_EXACT_DIRECTED_RECV,
    FI_RMA_PMEM, FI_SOURCE_ERR, FI_LOCAL_COMM, FI_REMOTE_COMM, FI_SHARED_AV, FI_RMA_EVENT, FI_SOURCE, FI_NAMED_RX_CTX,
    FI_DIRECTED_RECV, FI_AV_USER_ID, FI_PEER, FI_TAGGED_DIRECTED_RECV, FI_TAGGED_MULTI_RECV, FI_HMEM, FI_XPU);
inline constexpr auto kOpFlags =
    WEFT_NAMES(FI_MULTICAST, FI_MULTI_RECV, FI_REMOTE_CQ_DATA, FI_MORE, FI_PEEK, FI_TRIGGER, FI_FENCE, FI_COMPLETION,
               FI_INJECT, FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE, FI_DELIVERY_COMPLETE, FI_MATCH_COMPLETE,
               FI_AFFINITY, FI_CLAIM, FI_DISCARD, FI_COMMIT_COMPLETE, FI_PEER_TRANSFER);
inline constexpr auto kMsgOrder =
    WEFT_NAMES(FI_ORDER_RAR, FI_ORDER_RAW, FI_ORDER_RAS, FI_ORDER_WAR, FI_ORDER_WAW, FI_ORDER_WAS, FI_ORDER_SAR,
               FI_ORDER_SAW, FI_ORDER_SAS, FI_ORDER_RMA_RAR, FI_ORDER_RMA_RAW, FI_ORDER_RMA_WAR, FI_ORDER_RMA_WAW,
               FI_ORDER_ATOMIC_RAR, FI_ORDER_ATOMIC_RAW, FI_ORDER_ATOMIC_WAR, FI_ORDER_ATOMIC_WAW);
inline constexpr auto kMode =
    WEFT_NAMES(FI_CONTEXT, FI_MSG_PREFIX, FI_ASYNC_IOV, FI_RX_CQ_DATA, FI_LOCAL_MR, FI_CONTEXT2, FI_BUFFERED_RECV);
inline constexpr auto kMrMode =
    WEFT_NAMES(FI_MR_BASIC, FI_MR_SCALABLE, FI_MR_LOCAL, FI_MR_RAW, FI_MR_VIRT_ADDR, FI_MR_ALLOCATED, FI_MR_PROV_KEY,
               FI_MR_MMU_NOTIFY, FI_MR_RMA_EVENT, FI_MR_ENDPOINT, FI_MR_HMEM, FI_MR_COLLECTIVE, FI_MR_XPU_DESC);
}  // namespace names

}  // namespace weft
