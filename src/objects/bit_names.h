// SPDX-License-Identifier: BSD-2-Clause
// Names of bits in the order of fi_tostr, which is libfabric's, because programs parse its text; fi_fabric(3).
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <cstdint>

namespace weft {

struct Name {
  uint64_t value;
  const char* text;
};

#define WEFT_NAME(name) \
  { static_cast<uint64_t>(name), #name }

namespace names {
inline constexpr Name kCaps[] = {WEFT_NAME(FI_MSG),
                                 WEFT_NAME(FI_RMA),
                                 WEFT_NAME(FI_TAGGED),
                                 WEFT_NAME(FI_ATOMIC),
                                 WEFT_NAME(FI_MULTICAST),
                                 WEFT_NAME(FI_COLLECTIVE),
                                 WEFT_NAME(FI_READ),
                                 WEFT_NAME(FI_WRITE),
                                 WEFT_NAME(FI_RECV),
                                 WEFT_NAME(FI_SEND),
                                 WEFT_NAME(FI_REMOTE_READ),
                                 WEFT_NAME(FI_REMOTE_WRITE),
                                 WEFT_NAME(FI_MULTI_RECV),
                                 WEFT_NAME(FI_REMOTE_CQ_DATA),
                                 WEFT_NAME(FI_TRIGGER),
                                 WEFT_NAME(FI_FENCE),
                                 WEFT_NAME(FI_EXACT_DIRECTED_RECV),
                                 WEFT_NAME(FI_RMA_PMEM),
                                 WEFT_NAME(FI_SOURCE_ERR),
                                 WEFT_NAME(FI_LOCAL_COMM),
                                 WEFT_NAME(FI_REMOTE_COMM),
                                 WEFT_NAME(FI_SHARED_AV),
                                 WEFT_NAME(FI_RMA_EVENT),
                                 WEFT_NAME(FI_SOURCE),
                                 WEFT_NAME(FI_NAMED_RX_CTX),
                                 WEFT_NAME(FI_DIRECTED_RECV),
                                 WEFT_NAME(FI_HMEM),
                                 WEFT_NAME(FI_AV_USER_ID),
                                 WEFT_NAME(FI_PEER),
                                 WEFT_NAME(FI_TAGGED_DIRECTED_RECV),
                                 WEFT_NAME(FI_TAGGED_MULTI_RECV),
                                 WEFT_NAME(FI_XPU)};
inline constexpr Name kOpFlags[] = {WEFT_NAME(FI_MULTICAST),
                                    WEFT_NAME(FI_MULTI_RECV),
                                    WEFT_NAME(FI_REMOTE_CQ_DATA),
                                    WEFT_NAME(FI_MORE),
                                    WEFT_NAME(FI_PEEK),
                                    WEFT_NAME(FI_TRIGGER),
                                    WEFT_NAME(FI_FENCE),
                                    WEFT_NAME(FI_COMPLETION),
                                    WEFT_NAME(FI_INJECT),
                                    WEFT_NAME(FI_INJECT_COMPLETE),
                                    WEFT_NAME(FI_TRANSMIT_COMPLETE),
                                    WEFT_NAME(FI_DELIVERY_COMPLETE),
                                    WEFT_NAME(FI_MATCH_COMPLETE),
                                    WEFT_NAME(FI_AFFINITY),
                                    WEFT_NAME(FI_CLAIM),
                                    WEFT_NAME(FI_DISCARD),
                                    WEFT_NAME(FI_COMMIT_COMPLETE),
                                    WEFT_NAME(FI_PEER_TRANSFER)};
inline constexpr Name kMsgOrder[] = {
    WEFT_NAME(FI_ORDER_RAR),        WEFT_NAME(FI_ORDER_RAW),        WEFT_NAME(FI_ORDER_RAS),
    WEFT_NAME(FI_ORDER_WAR),        WEFT_NAME(FI_ORDER_WAW),        WEFT_NAME(FI_ORDER_WAS),
    WEFT_NAME(FI_ORDER_SAR),        WEFT_NAME(FI_ORDER_SAW),        WEFT_NAME(FI_ORDER_SAS),
    WEFT_NAME(FI_ORDER_RMA_RAR),    WEFT_NAME(FI_ORDER_RMA_RAW),    WEFT_NAME(FI_ORDER_RMA_WAR),
    WEFT_NAME(FI_ORDER_RMA_WAW),    WEFT_NAME(FI_ORDER_ATOMIC_RAR), WEFT_NAME(FI_ORDER_ATOMIC_RAW),
    WEFT_NAME(FI_ORDER_ATOMIC_WAR), WEFT_NAME(FI_ORDER_ATOMIC_WAW)};
inline constexpr Name kMode[] = {WEFT_NAME(FI_CONTEXT),      WEFT_NAME(FI_MSG_PREFIX), WEFT_NAME(FI_ASYNC_IOV),
                                 WEFT_NAME(FI_RX_CQ_DATA),   WEFT_NAME(FI_LOCAL_MR),   WEFT_NAME(FI_CONTEXT2),
                                 WEFT_NAME(FI_BUFFERED_RECV)};
inline constexpr Name kMrMode[] = {WEFT_NAME(FI_MR_BASIC),    WEFT_NAME(FI_MR_SCALABLE),   WEFT_NAME(FI_MR_LOCAL),
                                   WEFT_NAME(FI_MR_RAW),      WEFT_NAME(FI_MR_VIRT_ADDR),  WEFT_NAME(FI_MR_ALLOCATED),
                                   WEFT_NAME(FI_MR_PROV_KEY), WEFT_NAME(FI_MR_MMU_NOTIFY), WEFT_NAME(FI_MR_RMA_EVENT),
                                   WEFT_NAME(FI_MR_ENDPOINT), WEFT_NAME(FI_MR_HMEM),       WEFT_NAME(FI_MR_COLLECTIVE),
                                   WEFT_NAME(FI_MR_XPU_DESC)};
}  // namespace names

}  // namespace weft
