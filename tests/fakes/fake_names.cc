// SPDX-License-Identifier: BSD-2-Clause
// Text for states, events and statuses: rdma_event_str(3), ibv_event_type_str(3), ibv_wc_status_str(3).
#include <rdma/rdma_cma.h>

namespace {

struct Rate {
  ibv_rate rate;
  int multiple, mbps;
};
constexpr Rate kRates[] = {
    {IBV_RATE_2_5_GBPS, 1, 2500},    {IBV_RATE_5_GBPS, 2, 5000},      {IBV_RATE_10_GBPS, 4, 10000},
    {IBV_RATE_20_GBPS, 8, 20000},    {IBV_RATE_40_GBPS, 16, 40000},   {IBV_RATE_25_GBPS, 10, 25781},
    {IBV_RATE_100_GBPS, 40, 103125}, {IBV_RATE_200_GBPS, 80, 206250}, {IBV_RATE_400_GBPS, 160, 425000}};

template <size_t size>
const char* pick(const char* const (&names)[size], int index) {
  return index >= 0 && static_cast<size_t>(index) < size ? names[index] : "unknown";
}

}  // namespace

extern "C" {

const char* rdma_event_str(rdma_cm_event_type event) {
  static constexpr const char* kNames[] = {
      "RDMA_CM_EVENT_ADDR_RESOLVED",  "RDMA_CM_EVENT_ADDR_ERROR",      "RDMA_CM_EVENT_ROUTE_RESOLVED",
      "RDMA_CM_EVENT_ROUTE_ERROR",    "RDMA_CM_EVENT_CONNECT_REQUEST", "RDMA_CM_EVENT_CONNECT_RESPONSE",
      "RDMA_CM_EVENT_CONNECT_ERROR",  "RDMA_CM_EVENT_UNREACHABLE",     "RDMA_CM_EVENT_REJECTED",
      "RDMA_CM_EVENT_ESTABLISHED",    "RDMA_CM_EVENT_DISCONNECTED",    "RDMA_CM_EVENT_DEVICE_REMOVAL",
      "RDMA_CM_EVENT_MULTICAST_JOIN", "RDMA_CM_EVENT_MULTICAST_ERROR", "RDMA_CM_EVENT_ADDR_CHANGE",
      "RDMA_CM_EVENT_TIMEWAIT_EXIT"};
  return pick(kNames, event);
}

const char* ibv_wc_status_str(ibv_wc_status status) {
  static constexpr const char* kNames[] = {"success",
                                           "local length error",
                                           "local QP operation error",
                                           "local EE context operation error",
                                           "local protection error",
                                           "Work Request Flushed Error",
                                           "memory management operation error",
                                           "bad response error",
                                           "local access error",
                                           "remote invalid request error",
                                           "remote access error",
                                           "remote operation error",
                                           "transport retry counter exceeded",
                                           "RNR retry counter exceeded",
                                           "local RDD violation error",
                                           "remote invalid RD request",
                                           "aborted error",
                                           "invalid EE context number",
                                           "invalid EE context state",
                                           "fatal error",
                                           "response timeout error",
                                           "general error",
                                           "TM error",
                                           "TM software rendezvous"};
  return pick(kNames, status);
}

const char* ibv_event_type_str(ibv_event_type event) {
  static constexpr const char* kNames[] = {"CQ error",
                                           "local work queue catastrophic error",
                                           "invalid request local work queue error",
                                           "local access violation work queue error",
                                           "communication established",
                                           "send queue drained",
                                           "path migrated",
                                           "path migration request error",
                                           "local catastrophic error",
                                           "port active",
                                           "port error",
                                           "LID change",
                                           "P_Key change",
                                           "SM change",
                                           "SRQ catastrophic error",
                                           "SRQ limit reached",
                                           "last WQE reached",
                                           "client reregistration",
                                           "GID table change",
                                           "WQ fatal"};
  return pick(kNames, event);
}

const char* ibv_node_type_str(ibv_node_type type) {
  static constexpr const char* kNames[] = {"unknown", "InfiniBand channel adapter", "InfiniBand switch",
                                           "InfiniBand router", "iWARP NIC"};
  return pick(kNames, type);
}

const char* ibv_port_state_str(ibv_port_state state) {
  static constexpr const char* kNames[] = {"no state change", "down", "init", "armed", "active", "active deferred"};
  return pick(kNames, state);
}

int ibv_rate_to_mult(ibv_rate rate) {
  for (const Rate& entry : kRates)
    if (entry.rate == rate) return entry.multiple;
  return -1;
}

int ibv_rate_to_mbps(ibv_rate rate) {
  for (const Rate& entry : kRates)
    if (entry.rate == rate) return entry.mbps;
  return -1;
}

ibv_rate mult_to_ibv_rate(int multiple) {
  for (const Rate& entry : kRates)
    if (entry.multiple == multiple) return entry.rate;
  return IBV_RATE_MAX;
}

ibv_rate mbps_to_ibv_rate(int mbps) {
  for (const Rate& entry : kRates)
    if (entry.mbps == mbps) return entry.rate;
  return IBV_RATE_MAX;
}

}  // extern "C"
