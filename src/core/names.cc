// SPDX-License-Identifier: BSD-2-Clause
// Names of enumerators and bits; fi_fabric(3) fi_tostr.
#include "core/names.h"

#include <rdma/fi_atomic.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_trigger.h>
#include <rdma/providers/fi_log.h>

#include <algorithm>

namespace weft::core {
namespace {

#define N(name) \
  { static_cast<uint64_t>(name), #name }

constexpr Name kEpTypes[] = {N(FI_EP_UNSPEC), N(FI_EP_MSG), N(FI_EP_DGRAM), N(FI_EP_RDM)};
constexpr Name kAddressFormats[] = {
    N(FI_FORMAT_UNSPEC), N(FI_SOCKADDR),   N(FI_SOCKADDR_IN), N(FI_SOCKADDR_IN6), N(FI_SOCKADDR_IB), N(FI_ADDR_PSMX),
    N(FI_ADDR_GNI),      N(FI_ADDR_BGQ),   N(FI_ADDR_MLX),    N(FI_ADDR_STR),     N(FI_ADDR_PSMX2),  N(FI_ADDR_IB_UD),
    N(FI_ADDR_EFA),      N(FI_ADDR_PSMX3), N(FI_ADDR_OPX),    N(FI_ADDR_CXI),     N(FI_ADDR_UCX),    N(FI_SOCKADDR_IP)};
constexpr Name kThreadings[] = {N(FI_THREAD_UNSPEC), N(FI_THREAD_SAFE),       N(FI_THREAD_FID),
                                N(FI_THREAD_DOMAIN), N(FI_THREAD_COMPLETION), N(FI_THREAD_ENDPOINT)};
constexpr Name kProgresses[] = {N(FI_PROGRESS_UNSPEC), N(FI_PROGRESS_AUTO), N(FI_PROGRESS_MANUAL),
                                N(FI_PROGRESS_CONTROL_UNIFIED)};
constexpr Name kResourceMgmts[] = {N(FI_RM_UNSPEC), N(FI_RM_DISABLED), N(FI_RM_ENABLED)};
constexpr Name kProtocols[] = {N(FI_PROTO_UNSPEC),
                               N(FI_PROTO_RDMA_CM_IB_RC),
                               N(FI_PROTO_IWARP),
                               N(FI_PROTO_IB_UD),
                               N(FI_PROTO_PSMX),
                               N(FI_PROTO_UDP),
                               N(FI_PROTO_SOCK_TCP),
                               N(FI_PROTO_IWARP_RDM),
                               N(FI_PROTO_IB_RDM),
                               N(FI_PROTO_GNI),
                               N(FI_PROTO_RXM),
                               N(FI_PROTO_RXD),
                               N(FI_PROTO_MLX),
                               N(FI_PROTO_NETWORKDIRECT),
                               N(FI_PROTO_PSMX2),
                               N(FI_PROTO_SHM),
                               N(FI_PROTO_MRAIL),
                               N(FI_PROTO_RSTREAM),
                               N(FI_PROTO_RDMA_CM_IB_XRC),
                               N(FI_PROTO_EFA),
                               N(FI_PROTO_PSMX3),
                               N(FI_PROTO_RXM_TCP),
                               N(FI_PROTO_OPX),
                               N(FI_PROTO_CXI),
                               N(FI_PROTO_XNET),
                               N(FI_PROTO_COLL),
                               N(FI_PROTO_UCX),
                               N(FI_PROTO_SM2),
                               N(FI_PROTO_CXI_RNR),
                               N(FI_PROTO_LPP),
                               N(FI_PROTO_LNX)};
constexpr Name kAvTypes[] = {N(FI_AV_UNSPEC), N(FI_AV_MAP), N(FI_AV_TABLE)};
constexpr Name kAtomicTypes[] = {N(FI_INT8),          N(FI_UINT8),
                                 N(FI_INT16),         N(FI_UINT16),
                                 N(FI_INT32),         N(FI_UINT32),
                                 N(FI_INT64),         N(FI_UINT64),
                                 N(FI_FLOAT),         N(FI_DOUBLE),
                                 N(FI_FLOAT_COMPLEX), N(FI_DOUBLE_COMPLEX),
                                 N(FI_LONG_DOUBLE),   N(FI_LONG_DOUBLE_COMPLEX),
                                 N(FI_INT128),        N(FI_UINT128),
                                 N(FI_FLOAT16),       N(FI_BFLOAT16),
                                 N(FI_FLOAT8_E4M3),   N(FI_FLOAT8_E5M2),
                                 N(FI_VOID)};
constexpr Name kAtomicOps[] = {
    N(FI_MIN),      N(FI_MAX),      N(FI_SUM),      N(FI_PROD),        N(FI_LOR),          N(FI_LAND),  N(FI_BOR),
    N(FI_BAND),     N(FI_LXOR),     N(FI_BXOR),     N(FI_ATOMIC_READ), N(FI_ATOMIC_WRITE), N(FI_CSWAP), N(FI_CSWAP_NE),
    N(FI_CSWAP_LE), N(FI_CSWAP_LT), N(FI_CSWAP_GE), N(FI_CSWAP_GT),    N(FI_MSWAP),        N(FI_DIFF),  N(FI_NOOP)};
constexpr Name kEqEvents[] = {N(FI_NOTIFY),      N(FI_CONNREQ),     N(FI_CONNECTED),    N(FI_SHUTDOWN),
                              N(FI_MR_COMPLETE), N(FI_AV_COMPLETE), N(FI_JOIN_COMPLETE)};
constexpr Name kOpTypes[] = {N(FI_OP_RECV),           N(FI_OP_SEND),     N(FI_OP_TRECV),   N(FI_OP_TSEND),
                             N(FI_OP_READ),           N(FI_OP_WRITE),    N(FI_OP_ATOMIC),  N(FI_OP_FETCH_ATOMIC),
                             N(FI_OP_COMPARE_ATOMIC), N(FI_OP_CNTR_SET), N(FI_OP_CNTR_ADD)};
constexpr Name kCollectiveOps[] = {N(FI_BARRIER),   N(FI_BROADCAST), N(FI_ALLTOALL),
                                   N(FI_ALLREDUCE), N(FI_ALLGATHER), N(FI_REDUCE_SCATTER),
                                   N(FI_REDUCE),    N(FI_SCATTER),   N(FI_GATHER)};
constexpr Name kHmemIfaces[] = {N(FI_HMEM_SYSTEM), N(FI_HMEM_CUDA),   N(FI_HMEM_ROCR),
                                N(FI_HMEM_ZE),     N(FI_HMEM_NEURON), N(FI_HMEM_SYNAPSEAI)};
constexpr Name kCqFormats[] = {N(FI_CQ_FORMAT_UNSPEC), N(FI_CQ_FORMAT_CONTEXT), N(FI_CQ_FORMAT_MSG),
                               N(FI_CQ_FORMAT_DATA), N(FI_CQ_FORMAT_TAGGED)};
constexpr Name kWaitObjs[] = {N(FI_WAIT_NONE),       N(FI_WAIT_UNSPEC), N(FI_WAIT_SET),   N(FI_WAIT_FD),
                              N(FI_WAIT_MUTEX_COND), N(FI_WAIT_YIELD),  N(FI_WAIT_POLLFD)};
constexpr Name kCqWaitConds[] = {N(FI_CQ_COND_NONE), N(FI_CQ_COND_THRESHOLD)};
constexpr Name kCntrEventKinds[] = {N(FI_CNTR_EVENTS_COMP), N(FI_CNTR_EVENTS_BYTES)};
constexpr Name kLogLevels[] = {
    {FI_LOG_WARN, "warn"}, {FI_LOG_TRACE, "trace"}, {FI_LOG_INFO, "info"}, {FI_LOG_DEBUG, "debug"}};
constexpr Name kLogSubsystems[] = {{FI_LOG_CORE, "core"},       {FI_LOG_FABRIC, "fabric"},   {FI_LOG_DOMAIN, "domain"},
                                   {FI_LOG_EP_CTRL, "ep_ctrl"}, {FI_LOG_EP_DATA, "ep_data"}, {FI_LOG_AV, "av"},
                                   {FI_LOG_CQ, "cq"},           {FI_LOG_EQ, "eq"},           {FI_LOG_MR, "mr"},
                                   {FI_LOG_CNTR, "cntr"}};
constexpr Name kBusTypes[] = {N(FI_BUS_UNKNOWN), N(FI_BUS_PCI)};
constexpr Name kLinkStates[] = {N(FI_LINK_UNKNOWN), N(FI_LINK_DOWN), N(FI_LINK_UP)};

constexpr Name kCapBits[] = {N(FI_MSG),
                             N(FI_RMA),
                             N(FI_TAGGED),
                             N(FI_ATOMIC),
                             N(FI_MULTICAST),
                             N(FI_COLLECTIVE),
                             N(FI_READ),
                             N(FI_WRITE),
                             N(FI_RECV),
                             N(FI_SEND),
                             N(FI_REMOTE_READ),
                             N(FI_REMOTE_WRITE),
                             N(FI_MULTI_RECV),
                             N(FI_REMOTE_CQ_DATA),
                             N(FI_TRIGGER),
                             N(FI_FENCE),
                             N(FI_EXACT_DIRECTED_RECV),
                             N(FI_RMA_PMEM),
                             N(FI_SOURCE_ERR),
                             N(FI_LOCAL_COMM),
                             N(FI_REMOTE_COMM),
                             N(FI_SHARED_AV),
                             N(FI_RMA_EVENT),
                             N(FI_SOURCE),
                             N(FI_NAMED_RX_CTX),
                             N(FI_DIRECTED_RECV),
                             N(FI_HMEM),
                             N(FI_AV_USER_ID),
                             N(FI_PEER),
                             N(FI_TAGGED_DIRECTED_RECV),
                             N(FI_TAGGED_MULTI_RECV)};
constexpr Name kOpFlagBits[] = {N(FI_MULTICAST),
                                N(FI_MULTI_RECV),
                                N(FI_REMOTE_CQ_DATA),
                                N(FI_MORE),
                                N(FI_PEEK),
                                N(FI_TRIGGER),
                                N(FI_FENCE),
                                N(FI_COMPLETION),
                                N(FI_INJECT),
                                N(FI_INJECT_COMPLETE),
                                N(FI_TRANSMIT_COMPLETE),
                                N(FI_DELIVERY_COMPLETE),
                                N(FI_MATCH_COMPLETE),
                                N(FI_AFFINITY),
                                N(FI_CLAIM),
                                N(FI_DISCARD),
                                N(FI_COMMIT_COMPLETE),
                                N(FI_PEER_TRANSFER)};
constexpr Name kMsgOrderBits[] = {
    N(FI_ORDER_RAR),        N(FI_ORDER_RAW),       N(FI_ORDER_RAS),     N(FI_ORDER_WAR),        N(FI_ORDER_WAW),
    N(FI_ORDER_WAS),        N(FI_ORDER_SAR),       N(FI_ORDER_SAW),     N(FI_ORDER_SAS),        N(FI_ORDER_RMA_RAR),
    N(FI_ORDER_RMA_RAW),    N(FI_ORDER_RMA_WAR),   N(FI_ORDER_RMA_WAW), N(FI_ORDER_ATOMIC_RAR), N(FI_ORDER_ATOMIC_RAW),
    N(FI_ORDER_ATOMIC_WAR), N(FI_ORDER_ATOMIC_WAW)};
constexpr Name kModeBits[] = {N(FI_CONTEXT),  N(FI_MSG_PREFIX), N(FI_ASYNC_IOV),    N(FI_RX_CQ_DATA),
                              N(FI_LOCAL_MR), N(FI_CONTEXT2),   N(FI_BUFFERED_RECV)};
constexpr Name kMrModeBits[] = {N(FI_MR_BASIC),     N(FI_MR_SCALABLE),  N(FI_MR_LOCAL),    N(FI_MR_RAW),
                                N(FI_MR_VIRT_ADDR), N(FI_MR_ALLOCATED), N(FI_MR_PROV_KEY), N(FI_MR_MMU_NOTIFY),
                                N(FI_MR_RMA_EVENT), N(FI_MR_ENDPOINT),  N(FI_MR_HMEM),     N(FI_MR_COLLECTIVE)};
constexpr Name kCqEventBits[] = {
    N(FI_SEND),           N(FI_RECV),       N(FI_RMA),   N(FI_ATOMIC),      N(FI_MSG),
    N(FI_TAGGED),         N(FI_READ),       N(FI_WRITE), N(FI_REMOTE_READ), N(FI_REMOTE_WRITE),
    N(FI_REMOTE_CQ_DATA), N(FI_MULTI_RECV), N(FI_MORE),  N(FI_CLAIM)};
#undef N

}  // namespace

namespace names {
constexpr std::span<const Name> kEpType = kEpTypes, kAddressFormat = kAddressFormats, kThreading = kThreadings,
                                kProgress = kProgresses, kResourceMgmt = kResourceMgmts, kProtocol = kProtocols,
                                kAvType = kAvTypes, kAtomicType = kAtomicTypes, kAtomicOp = kAtomicOps,
                                kEqEvent = kEqEvents, kOpType = kOpTypes, kCollectiveOp = kCollectiveOps,
                                kHmemIface = kHmemIfaces, kCqFormat = kCqFormats, kCqWaitCond = kCqWaitConds,
                                kWaitObj = kWaitObjs, kCntrEvents = kCntrEventKinds, kLogLevel = kLogLevels,
                                kLogSubsys = kLogSubsystems, kBusType = kBusTypes, kLinkState = kLinkStates;
constexpr std::span<const Name> kCaps = kCapBits, kOpFlags = kOpFlagBits, kMsgOrder = kMsgOrderBits, kMode = kModeBits,
                                kMrMode = kMrModeBits, kCqEventFlags = kCqEventBits;
}  // namespace names

const char* name_of(std::span<const Name> enumerators, uint64_t value) noexcept {
  const auto found = std::ranges::find(enumerators, value, &Name::value);
  if (found != enumerators.end()) return found->text;
  const bool may_be_private =
      enumerators.data() == names::kProtocol.data() || enumerators.data() == names::kAddressFormat.data();
  return may_be_private && (value & FI_PROV_SPECIFIC) != 0 ? "Provider specific" : "Unknown";
}

std::string names_of(std::span<const Name> bits, uint64_t value) {
  std::string text;
  for (const Name& bit : bits) {
    if ((value & bit.value) == 0) continue;
    if (!text.empty()) text += ", ";
    text += bit.text;
  }
  return text;
}

}  // namespace weft::core
