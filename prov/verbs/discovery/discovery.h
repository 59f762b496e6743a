// SPDX-License-Identifier: BSD-2-Clause
// The local addresses that lead to RDMA devices, from which fi_getinfo(3) is answered. The kernel's choice of device
// and port is queried for each address; nothing is resolved and nothing waits.
#pragma once

#include <string>
#include <vector>

#include "base/ref.h"
#include "base/status.h"
#include "verbs/cm/cm_address.h"
#include "verbs/device/device.h"
#include "verbs/device/parameters.h"

namespace weft::verbs {

// A local address with its device and port.
struct Source {
  CmAddress address;      // port 0
  std::string interface;  // "eth0"; empty for native InfiniBand addresses
  Ref<Device> device;
  Device::Port port;
  int gid_index = -1;    // in the port's table; -1: not found
  bool routable = true;  // else link-local
};

// Routable addresses first, link-local ones next, native InfiniBand addresses last; ports that are down are left out.
// -FI_ENODEV, -FI_EACCES, -FI_ENODATA: none found; `why` says what to do about it.
Result<std::vector<Source>> discover(const Parameters& parameters, std::string& why);

// For FI_ADDR_IB_UD, which has no IP address: one source for each active port that carries datagrams, with the GID at
// FI_VERBS_GID_IDX, by default the first.
struct NativeSource {
  Source source;
  ibv_gid gid;
};
std::vector<NativeSource> discover_native(const Parameters& parameters);

// The network card for fi_info::nic, fi_nic(3); fi_freeinfo closes it. Null: out of memory. (nic.cc)
fid_nic* make_nic(const Source& source) noexcept;

// The subnet of a port, for example "IB-0xfe80000000000000"; with iWARP "Ethernet-iWARP".
std::string fabric_name(const Device& device, const Device::Port& port);

}  // namespace weft::verbs
