// SPDX-License-Identifier: BSD-2-Clause
// rdma_getaddrinfo(3) on top of getaddrinfo(3), without route records.
#include <netdb.h>

#include <cstring>

#include "fake_world.h"

using namespace fake;

namespace {

sockaddr* copy_of(const sockaddr* address, socklen_t length) {
  if (!address || !length) return nullptr;
  auto* storage = new sockaddr_storage{};
  std::memcpy(storage, address, length);
  return reinterpret_cast<sockaddr*>(storage);
}

int port_space_of(const rdma_addrinfo& hints) {
  if (hints.ai_port_space) return hints.ai_port_space;
  return hints.ai_qp_type == IBV_QPT_UD ? RDMA_PS_UDP : RDMA_PS_TCP;
}

rdma_addrinfo* convert(const addrinfo& found, const rdma_addrinfo& hints) {
  auto* info = new rdma_addrinfo{};
  info->ai_flags = hints.ai_flags;
  info->ai_family = found.ai_family;
  info->ai_port_space = port_space_of(hints);
  info->ai_qp_type = info->ai_port_space == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC;
  const bool passive = hints.ai_flags & RAI_PASSIVE;
  info->ai_src_len = passive ? found.ai_addrlen : hints.ai_src_len;
  info->ai_src_addr = copy_of(passive ? found.ai_addr : hints.ai_src_addr, info->ai_src_len);
  info->ai_dst_len = passive ? hints.ai_dst_len : found.ai_addrlen;
  info->ai_dst_addr = copy_of(passive ? hints.ai_dst_addr : found.ai_addr, info->ai_dst_len);
  return info;
}

}  // namespace

extern "C" {

int rdma_getaddrinfo(const char* node, const char* service, const rdma_addrinfo* wanted, rdma_addrinfo** result) {
  Entry entry(Call::rdma_getaddrinfo);
  if (entry.error()) return cm_error(entry.error());
  const rdma_addrinfo hints = wanted ? *wanted : rdma_addrinfo{};
  addrinfo system_hints = {};
  system_hints.ai_family = hints.ai_flags & RAI_FAMILY ? hints.ai_family : AF_UNSPEC;
  system_hints.ai_socktype = SOCK_STREAM;
  if (hints.ai_flags & RAI_PASSIVE) system_hints.ai_flags |= AI_PASSIVE;
  if (hints.ai_flags & RAI_NUMERICHOST) system_hints.ai_flags |= AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(node, service, &system_hints, &found)) return error;
  *result = convert(*found, hints);
  freeaddrinfo(found);
  ++entry.world.live[static_cast<int>(Kind::kAddrInfo)];
  return 0;
}

void rdma_freeaddrinfo(rdma_addrinfo* info) {
  World& world = World::get();
  Guard guard(world.mutex);
  --world.live[static_cast<int>(Kind::kAddrInfo)];
  delete reinterpret_cast<sockaddr_storage*>(info->ai_src_addr);
  delete reinterpret_cast<sockaddr_storage*>(info->ai_dst_addr);
  delete info;
}

}  // extern "C"
