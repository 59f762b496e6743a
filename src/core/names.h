// SPDX-License-Identifier: BSD-2-Clause
// Names of enumerators and bits, as fi_tostr prints them; fi_fabric(3) fi_tostr. The order of bits and the words for
// unknown values are libfabric's, because programs parse them.
#pragma once

#include <rdma/fi_atomic.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_trigger.h>
#include <rdma/providers/fi_log.h>

#include <algorithm>
#include <span>
#include <string>

#include "objects/bit_names.h"

namespace weft::core {

namespace names {
using namespace weft::names;
inline constexpr Name kEpType[] = {WEFT_NAME(FI_EP_UNSPEC), WEFT_NAME(FI_EP_MSG), WEFT_NAME(FI_EP_DGRAM),
                                   WEFT_NAME(FI_EP_RDM)};
inline constexpr Name kAddressFormat[] = {
    WEFT_NAME(FI_FORMAT_UNSPEC), WEFT_NAME(FI_SOCKADDR),   WEFT_NAME(FI_SOCKADDR_IN), WEFT_NAME(FI_SOCKADDR_IN6),
    WEFT_NAME(FI_SOCKADDR_IB),   WEFT_NAME(FI_ADDR_PSMX),  WEFT_NAME(FI_ADDR_GNI),    WEFT_NAME(FI_ADDR_BGQ),
    WEFT_NAME(FI_ADDR_MLX),      WEFT_NAME(FI_ADDR_STR),   WEFT_NAME(FI_ADDR_PSMX2),  WEFT_NAME(FI_ADDR_IB_UD),
    WEFT_NAME(FI_ADDR_EFA),      WEFT_NAME(FI_ADDR_PSMX3), WEFT_NAME(FI_ADDR_OPX),    WEFT_NAME(FI_ADDR_CXI),
    WEFT_NAME(FI_ADDR_UCX),      WEFT_NAME(FI_SOCKADDR_IP)};
inline constexpr Name kThreading[] = {WEFT_NAME(FI_THREAD_UNSPEC),     WEFT_NAME(FI_THREAD_SAFE),
                                      WEFT_NAME(FI_THREAD_FID),        WEFT_NAME(FI_THREAD_DOMAIN),
                                      WEFT_NAME(FI_THREAD_COMPLETION), WEFT_NAME(FI_THREAD_ENDPOINT)};
inline constexpr Name kProgress[] = {WEFT_NAME(FI_PROGRESS_UNSPEC), WEFT_NAME(FI_PROGRESS_AUTO),
                                     WEFT_NAME(FI_PROGRESS_MANUAL), WEFT_NAME(FI_PROGRESS_CONTROL_UNIFIED)};
inline constexpr Name kResourceMgmt[] = {WEFT_NAME(FI_RM_UNSPEC), WEFT_NAME(FI_RM_DISABLED), WEFT_NAME(FI_RM_ENABLED)};
inline constexpr Name kProtocol[] = {WEFT_NAME(FI_PROTO_UNSPEC),
                                     WEFT_NAME(FI_PROTO_RDMA_CM_IB_RC),
                                     WEFT_NAME(FI_PROTO_IWARP),
                                     WEFT_NAME(FI_PROTO_IB_UD),
                                     WEFT_NAME(FI_PROTO_PSMX),
                                     WEFT_NAME(FI_PROTO_UDP),
                                     WEFT_NAME(FI_PROTO_SOCK_TCP),
                                     WEFT_NAME(FI_PROTO_IWARP_RDM),
                                     WEFT_NAME(FI_PROTO_IB_RDM),
                                     WEFT_NAME(FI_PROTO_GNI),
                                     WEFT_NAME(FI_PROTO_RXM),
                                     WEFT_NAME(FI_PROTO_RXD),
                                     WEFT_NAME(FI_PROTO_MLX),
                                     WEFT_NAME(FI_PROTO_NETWORKDIRECT),
                                     WEFT_NAME(FI_PROTO_PSMX2),
                                     WEFT_NAME(FI_PROTO_SHM),
                                     WEFT_NAME(FI_PROTO_MRAIL),
                                     WEFT_NAME(FI_PROTO_RSTREAM),
                                     WEFT_NAME(FI_PROTO_RDMA_CM_IB_XRC),
                                     WEFT_NAME(FI_PROTO_EFA),
                                     WEFT_NAME(FI_PROTO_PSMX3),
                                     WEFT_NAME(FI_PROTO_RXM_TCP),
                                     WEFT_NAME(FI_PROTO_OPX),
                                     WEFT_NAME(FI_PROTO_CXI),
                                     WEFT_NAME(FI_PROTO_XNET),
                                     WEFT_NAME(FI_PROTO_COLL),
                                     WEFT_NAME(FI_PROTO_UCX),
                                     WEFT_NAME(FI_PROTO_SM2),
                                     WEFT_NAME(FI_PROTO_CXI_RNR),
                                     WEFT_NAME(FI_PROTO_LPP),
                                     WEFT_NAME(FI_PROTO_LNX)};
inline constexpr Name kAvType[] = {WEFT_NAME(FI_AV_UNSPEC), WEFT_NAME(FI_AV_MAP), WEFT_NAME(FI_AV_TABLE)};
inline constexpr Name kAtomicType[] = {WEFT_NAME(FI_INT8),          WEFT_NAME(FI_UINT8),
                                       WEFT_NAME(FI_INT16),         WEFT_NAME(FI_UINT16),
                                       WEFT_NAME(FI_INT32),         WEFT_NAME(FI_UINT32),
                                       WEFT_NAME(FI_INT64),         WEFT_NAME(FI_UINT64),
                                       WEFT_NAME(FI_FLOAT),         WEFT_NAME(FI_DOUBLE),
                                       WEFT_NAME(FI_FLOAT_COMPLEX), WEFT_NAME(FI_DOUBLE_COMPLEX),
                                       WEFT_NAME(FI_LONG_DOUBLE),   WEFT_NAME(FI_LONG_DOUBLE_COMPLEX),
                                       WEFT_NAME(FI_INT128),        WEFT_NAME(FI_UINT128),
                                       WEFT_NAME(FI_FLOAT16),       WEFT_NAME(FI_BFLOAT16),
                                       WEFT_NAME(FI_FLOAT8_E4M3),   WEFT_NAME(FI_FLOAT8_E5M2),
                                       WEFT_NAME(FI_VOID)};
inline constexpr Name kAtomicOp[] = {WEFT_NAME(FI_MIN),      WEFT_NAME(FI_MAX),         WEFT_NAME(FI_SUM),
                                     WEFT_NAME(FI_PROD),     WEFT_NAME(FI_LOR),         WEFT_NAME(FI_LAND),
                                     WEFT_NAME(FI_BOR),      WEFT_NAME(FI_BAND),        WEFT_NAME(FI_LXOR),
                                     WEFT_NAME(FI_BXOR),     WEFT_NAME(FI_ATOMIC_READ), WEFT_NAME(FI_ATOMIC_WRITE),
                                     WEFT_NAME(FI_CSWAP),    WEFT_NAME(FI_CSWAP_NE),    WEFT_NAME(FI_CSWAP_LE),
                                     WEFT_NAME(FI_CSWAP_LT), WEFT_NAME(FI_CSWAP_GE),    WEFT_NAME(FI_CSWAP_GT),
                                     WEFT_NAME(FI_MSWAP),    WEFT_NAME(FI_DIFF),        WEFT_NAME(FI_NOOP)};
inline constexpr Name kEqEvent[] = {WEFT_NAME(FI_NOTIFY),       WEFT_NAME(FI_CONNREQ),     WEFT_NAME(FI_CONNECTED),
                                    WEFT_NAME(FI_SHUTDOWN),     WEFT_NAME(FI_MR_COMPLETE), WEFT_NAME(FI_AV_COMPLETE),
                                    WEFT_NAME(FI_JOIN_COMPLETE)};
inline constexpr Name kOpType[] = {
    WEFT_NAME(FI_OP_RECV),           WEFT_NAME(FI_OP_SEND),     WEFT_NAME(FI_OP_TRECV),   WEFT_NAME(FI_OP_TSEND),
    WEFT_NAME(FI_OP_READ),           WEFT_NAME(FI_OP_WRITE),    WEFT_NAME(FI_OP_ATOMIC),  WEFT_NAME(FI_OP_FETCH_ATOMIC),
    WEFT_NAME(FI_OP_COMPARE_ATOMIC), WEFT_NAME(FI_OP_CNTR_SET), WEFT_NAME(FI_OP_CNTR_ADD)};
inline constexpr Name kCollectiveOp[] = {WEFT_NAME(FI_BARRIER),   WEFT_NAME(FI_BROADCAST), WEFT_NAME(FI_ALLTOALL),
                                         WEFT_NAME(FI_ALLREDUCE), WEFT_NAME(FI_ALLGATHER), WEFT_NAME(FI_REDUCE_SCATTER),
                                         WEFT_NAME(FI_REDUCE),    WEFT_NAME(FI_SCATTER),   WEFT_NAME(FI_GATHER)};
inline constexpr Name kHmemIface[] = {WEFT_NAME(FI_HMEM_SYSTEM), WEFT_NAME(FI_HMEM_CUDA),
                                      WEFT_NAME(FI_HMEM_ROCR),   WEFT_NAME(FI_HMEM_ZE),
                                      WEFT_NAME(FI_HMEM_NEURON), WEFT_NAME(FI_HMEM_SYNAPSEAI)};
inline constexpr Name kCqFormat[] = {WEFT_NAME(FI_CQ_FORMAT_UNSPEC), WEFT_NAME(FI_CQ_FORMAT_CONTEXT),
                                     WEFT_NAME(FI_CQ_FORMAT_MSG), WEFT_NAME(FI_CQ_FORMAT_DATA),
                                     WEFT_NAME(FI_CQ_FORMAT_TAGGED)};
inline constexpr Name kWaitObj[] = {WEFT_NAME(FI_WAIT_NONE),  WEFT_NAME(FI_WAIT_UNSPEC),     WEFT_NAME(FI_WAIT_SET),
                                    WEFT_NAME(FI_WAIT_FD),    WEFT_NAME(FI_WAIT_MUTEX_COND), WEFT_NAME(FI_WAIT_YIELD),
                                    WEFT_NAME(FI_WAIT_POLLFD)};
inline constexpr Name kCqWaitCond[] = {WEFT_NAME(FI_CQ_COND_NONE), WEFT_NAME(FI_CQ_COND_THRESHOLD)};
inline constexpr Name kCntrEvents[] = {WEFT_NAME(FI_CNTR_EVENTS_COMP), WEFT_NAME(FI_CNTR_EVENTS_BYTES)};
inline constexpr Name kLogLevel[] = {
    {FI_LOG_WARN, "warn"}, {FI_LOG_TRACE, "trace"}, {FI_LOG_INFO, "info"}, {FI_LOG_DEBUG, "debug"}};
inline constexpr Name kLogSubsys[] = {
    {FI_LOG_CORE, "core"},       {FI_LOG_FABRIC, "fabric"}, {FI_LOG_DOMAIN, "domain"}, {FI_LOG_EP_CTRL, "ep_ctrl"},
    {FI_LOG_EP_DATA, "ep_data"}, {FI_LOG_AV, "av"},         {FI_LOG_CQ, "cq"},         {FI_LOG_EQ, "eq"},
    {FI_LOG_MR, "mr"},           {FI_LOG_CNTR, "cntr"}};
inline constexpr Name kBusType[] = {WEFT_NAME(FI_BUS_UNKNOWN), WEFT_NAME(FI_BUS_PCI)};
inline constexpr Name kLinkState[] = {WEFT_NAME(FI_LINK_UNKNOWN), WEFT_NAME(FI_LINK_DOWN), WEFT_NAME(FI_LINK_UP)};
inline constexpr Name kCqEventFlags[] = {WEFT_NAME(FI_SEND),
                                         WEFT_NAME(FI_RECV),
                                         WEFT_NAME(FI_RMA),
                                         WEFT_NAME(FI_ATOMIC),
                                         WEFT_NAME(FI_MSG),
                                         WEFT_NAME(FI_TAGGED),
                                         WEFT_NAME(FI_READ),
                                         WEFT_NAME(FI_WRITE),
                                         WEFT_NAME(FI_REMOTE_READ),
                                         WEFT_NAME(FI_REMOTE_WRITE),
                                         WEFT_NAME(FI_REMOTE_CQ_DATA),
                                         WEFT_NAME(FI_MULTI_RECV),
                                         WEFT_NAME(FI_MORE),
                                         WEFT_NAME(FI_CLAIM)};
}  // namespace names

// "Unknown" for a value without a name, "Provider specific" for one with FI_PROV_SPECIFIC where that is allowed.
inline const char* name_of(std::span<const Name> enumerators, uint64_t value) noexcept {
  const auto found = std::ranges::find(enumerators, value, &Name::value);
  if (found != enumerators.end()) return found->text;
  const bool may_be_private = enumerators.data() == names::kProtocol || enumerators.data() == names::kAddressFormat;
  return may_be_private && (value & FI_PROV_SPECIFIC) != 0 ? "Provider specific" : "Unknown";
}

// "A, B": the bits that have a name, in the table's order.
inline std::string names_of(std::span<const Name> bits, uint64_t value) {
  std::string text;
  for (const Name& bit : bits)
    if ((value & bit.value) != 0) text += (text.empty() ? "" : ", ") + std::string(bit.text);
  return text;
}

// The text of an address in `format`; "(null)" for NULL, empty for a format without a text. Reads at most `size` bytes
// and returns "(truncated)" if the format needs more.
std::string address_text(uint32_t format, const void* address, std::size_t size);

}  // namespace weft::core
