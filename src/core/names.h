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
inline constexpr auto kEpType = WEFT_NAMES(FI_EP_UNSPEC, FI_EP_MSG, FI_EP_DGRAM, FI_EP_RDM);
inline constexpr auto kAddressFormat =
    WEFT_NAMES(FI_FORMAT_UNSPEC, FI_SOCKADDR, FI_SOCKADDR_IN, FI_SOCKADDR_IN6, FI_SOCKADDR_IB, FI_ADDR_PSMX,
               FI_ADDR_GNI, FI_ADDR_BGQ, FI_ADDR_MLX, FI_ADDR_STR, FI_ADDR_PSMX2, FI_ADDR_IB_UD, FI_ADDR_EFA,
               FI_ADDR_PSMX3, FI_ADDR_OPX, FI_ADDR_CXI, FI_ADDR_UCX, FI_SOCKADDR_IP);
inline constexpr auto kThreading = WEFT_NAMES(FI_THREAD_UNSPEC, FI_THREAD_SAFE, FI_THREAD_FID, FI_THREAD_DOMAIN,
                                              FI_THREAD_COMPLETION, FI_THREAD_ENDPOINT);
inline constexpr auto kProgress =
    WEFT_NAMES(FI_PROGRESS_UNSPEC, FI_PROGRESS_AUTO, FI_PROGRESS_MANUAL, FI_PROGRESS_CONTROL_UNIFIED);
inline constexpr auto kResourceMgmt = WEFT_NAMES(FI_RM_UNSPEC, FI_RM_DISABLED, FI_RM_ENABLED);
inline constexpr auto kProtocol =
    WEFT_NAMES(FI_PROTO_UNSPEC, FI_PROTO_RDMA_CM_IB_RC, FI_PROTO_IWARP, FI_PROTO_IB_UD, FI_PROTO_PSMX, FI_PROTO_UDP,
               FI_PROTO_SOCK_TCP, FI_PROTO_IWARP_RDM, FI_PROTO_IB_RDM, FI_PROTO_GNI, FI_PROTO_RXM, FI_PROTO_RXD,
               FI_PROTO_MLX, FI_PROTO_NETWORKDIRECT, FI_PROTO_PSMX2, FI_PROTO_SHM, FI_PROTO_MRAIL, FI_PROTO_RSTREAM,
               FI_PROTO_RDMA_CM_IB_XRC, FI_PROTO_EFA, FI_PROTO_PSMX3, FI_PROTO_RXM_TCP, FI_PROTO_OPX, FI_PROTO_CXI,
               FI_PROTO_XNET, FI_PROTO_COLL, FI_PROTO_UCX, FI_PROTO_SM2, FI_PROTO_CXI_RNR, FI_PROTO_LPP, FI_PROTO_LNX);
inline constexpr auto kAvType = WEFT_NAMES(FI_AV_UNSPEC, FI_AV_MAP, FI_AV_TABLE);
inline constexpr auto kAtomicType =
    WEFT_NAMES(FI_INT8, FI_UINT8, FI_INT16, FI_UINT16, FI_INT32, FI_UINT32, FI_INT64, FI_UINT64, FI_FLOAT, FI_DOUBLE,
               FI_FLOAT_COMPLEX, FI_DOUBLE_COMPLEX, FI_LONG_DOUBLE, FI_LONG_DOUBLE_COMPLEX, FI_INT128, FI_UINT128,
               FI_FLOAT16, FI_BFLOAT16, FI_FLOAT8_E4M3, FI_FLOAT8_E5M2, FI_VOID);
inline constexpr auto kAtomicOp =
    WEFT_NAMES(FI_MIN, FI_MAX, FI_SUM, FI_PROD, FI_LOR, FI_LAND, FI_BOR, FI_BAND, FI_LXOR, FI_BXOR, FI_ATOMIC_READ,
               FI_ATOMIC_WRITE, FI_CSWAP, FI_CSWAP_NE, FI_CSWAP_LE, FI_CSWAP_LT, FI_CSWAP_GE, FI_CSWAP_GT, FI_MSWAP,
               FI_DIFF, FI_NOOP);
inline constexpr auto kEqEvent =
    WEFT_NAMES(FI_NOTIFY, FI_CONNREQ, FI_CONNECTED, FI_SHUTDOWN, FI_MR_COMPLETE, FI_AV_COMPLETE, FI_JOIN_COMPLETE);
inline constexpr auto kOpType =
    WEFT_NAMES(FI_OP_RECV, FI_OP_SEND, FI_OP_TRECV, FI_OP_TSEND, FI_OP_READ, FI_OP_WRITE, FI_OP_ATOMIC,
               FI_OP_FETCH_ATOMIC, FI_OP_COMPARE_ATOMIC, FI_OP_CNTR_SET, FI_OP_CNTR_ADD);
inline constexpr auto kCollectiveOp = WEFT_NAMES(FI_BARRIER, FI_BROADCAST, FI_ALLTOALL, FI_ALLREDUCE, FI_ALLGATHER,
                                                 FI_REDUCE_SCATTER, FI_REDUCE, FI_SCATTER, FI_GATHER);
inline constexpr auto kHmemIface =
    WEFT_NAMES(FI_HMEM_SYSTEM, FI_HMEM_CUDA, FI_HMEM_ROCR, FI_HMEM_ZE, FI_HMEM_NEURON, FI_HMEM_SYNAPSEAI);
inline constexpr auto kCqFormat =
    WEFT_NAMES(FI_CQ_FORMAT_UNSPEC, FI_CQ_FORMAT_CONTEXT, FI_CQ_FORMAT_MSG, FI_CQ_FORMAT_DATA, FI_CQ_FORMAT_TAGGED);
inline constexpr auto kWaitObj = WEFT_NAMES(FI_WAIT_NONE, FI_WAIT_UNSPEC, FI_WAIT_SET, FI_WAIT_FD, FI_WAIT_MUTEX_COND,
                                            FI_WAIT_YIELD, FI_WAIT_POLLFD);
inline constexpr auto kCqWaitCond = WEFT_NAMES(FI_CQ_COND_NONE, FI_CQ_COND_THRESHOLD);
inline constexpr auto kCntrEvents = WEFT_NAMES(FI_CNTR_EVENTS_COMP, FI_CNTR_EVENTS_BYTES);
inline constexpr Name kLogLevel[] = {
    {FI_LOG_WARN, "warn"}, {FI_LOG_TRACE, "trace"}, {FI_LOG_INFO, "info"}, {FI_LOG_DEBUG, "debug"}};
inline constexpr Name kLogSubsys[] = {
    {FI_LOG_CORE, "core"},       {FI_LOG_FABRIC, "fabric"}, {FI_LOG_DOMAIN, "domain"}, {FI_LOG_EP_CTRL, "ep_ctrl"},
    {FI_LOG_EP_DATA, "ep_data"}, {FI_LOG_AV, "av"},         {FI_LOG_CQ, "cq"},         {FI_LOG_EQ, "eq"},
    {FI_LOG_MR, "mr"},           {FI_LOG_CNTR, "cntr"}};
inline constexpr auto kBusType = WEFT_NAMES(FI_BUS_UNKNOWN, FI_BUS_PCI);
inline constexpr auto kLinkState = WEFT_NAMES(FI_LINK_UNKNOWN, FI_LINK_DOWN, FI_LINK_UP);
inline constexpr auto kCqEventFlags =
    WEFT_NAMES(FI_SEND, FI_RECV, FI_RMA, FI_ATOMIC, FI_MSG, FI_TAGGED, FI_READ, FI_WRITE, FI_REMOTE_READ,
               FI_REMOTE_WRITE, FI_REMOTE_CQ_DATA, FI_MULTI_RECV, FI_MORE, FI_CLAIM);
inline constexpr auto kAvFlags = WEFT_NAMES(FI_EVENT, FI_READ, FI_SYMMETRIC);
inline constexpr auto kCqFlags = WEFT_NAMES(FI_AFFINITY);
inline constexpr auto kMrAccess =
    WEFT_NAMES(FI_RECV, FI_SEND, FI_READ, FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE, FI_COLLECTIVE);
}  // namespace names

// "Unknown" for a value without a name, "Provider specific" for one with FI_PROV_SPECIFIC where that is allowed.
inline std::string_view name_of(std::span<const Name> enumerators, uint64_t value) noexcept {
  const auto found = std::ranges::find(enumerators, value, &Name::value);
  if (found != enumerators.end()) return found->text;
  const bool may_be_private =
      enumerators.data() == names::kProtocol.data() || enumerators.data() == names::kAddressFormat.data();
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
