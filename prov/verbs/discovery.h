// SPDX-License-Identifier: BSD-2-Clause
// Which local addresses lead to RDMA devices: the raw material of fi_getinfo(3). The kernel is asked for each address
// which device and port it would use; nothing is resolved and nothing waits.
#pragma once

#include <string>
#include <vector>

#include "base/ref.h"
#include "base/status.h"
#include "verbs/cm_address.h"
#include "verbs/device.h"
#include "verbs/parameters.h"

namespace weft::verbs {

// A local address, and what stands behind it.
struct Source {
  CmAddress address;      // port 0
  std::string interface;  // "eth0"; empty for native InfiniBand addresses
  Ref<Device> device;
  Device::Port port;
  int gid_index = -1;    // in the port's table; -1: not found there
  bool routable = true;  // else link-local
};

// Addresses that can be routed first, link-local ones next, native InfiniBand addresses last; ports that are down are
// left out. -FI_ENODEV, -FI_EACCES, -FI_ENODATA: none; `why` tells what to do about it.
Result<std::vector<Source>> discover(const Parameters& parameters, std::string& why);

// One for each active port that carries datagrams, with the GID that FI_VERBS_GID_IDX names, else the first: for
// FI_ADDR_IB_UD, which has no IP address.
struct NativeSource {
  Source source;
  ibv_gid gid;
};
std::vector<NativeSource> discover_native(const Parameters& parameters);

// "IB-0xfe80000000000000", the subnet of a port; "Ethernet-iWARP".
std::string fabric_name(const Device& device, const Device::Port& port);

}  // namespace weft::verbs
