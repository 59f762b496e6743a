// SPDX-License-Identifier: BSD-2-Clause
// The provider's answer to fi_getinfo(3) (info.cc): the local addresses that lead to RDMA devices (discovery.cc), and
// the offer on one device and port (offer.cc, nic.cc). Every limit is the device's.
#pragma once

#include <string>
#include <vector>

#include "base/ref.h"
#include "base/status.h"
#include "objects/info.h"
#include "verbs/cm/cm_address.h"
#include "verbs/device/device.h"
#include "verbs/device/parameters.h"

namespace weft::verbs {

int getinfo(uint32_t version, const char* node, const char* service, uint64_t flags, const fi_info* hints,
            fi_info** info);

// A local address with its device and port.
struct Source {
  CmAddress address;      // port 0; empty for FI_ADDR_IB_UD
  std::string interface;  // "eth0"; empty for addresses without IP
  Ref<Device> device;
  Device::Port port;
  ibv_gid first_gid{};   // the port's; its prefix is the subnet
  ibv_gid gid{};         // the address's; with IP over InfiniBand the port's first
  int gid_index = -1;    // in the port's table; -1: not found
  bool routable = true;  // else link-local
};

// Ports that are down are left out.
struct Sources {
  std::vector<Source> addresses;  // routable ones first, link-local ones next, native InfiniBand addresses last
  // For FI_ADDR_IB_UD: one for each port that carries datagrams, with the GID at FI_VERBS_GID_IDX, by default the
  // first.
  std::vector<Source> natives;
};

// The table of a RoCE port has the addresses of its interfaces; for others the kernel's choice of device and port is
// queried for each address. Nothing is resolved and nothing waits. -FI_ENODEV, -FI_EACCES, -FI_ENODATA: no address
// found; `why` has the reason and the remedy. -FI_EMFILE: too few descriptors are free to find one.
Result<Sources> discover(const Parameters& parameters, std::string& why);

// The network card for fi_info::nic, fi_nic(3); fi_freeinfo closes it. Null: out of memory. (nic.cc)
fid_nic* make_nic(const Source& source) noexcept;

// The subnet of a port with that first GID, for example "IB-0xfe80000000000000"; with iWARP "Ethernet-iWARP".
std::string fabric_name(Transport transport, const ibv_gid& first_gid);
// The device in a domain's name.
std::string device_name(const std::string& domain);

enum class Service {
  kConnections,      // FI_EP_MSG
  kDatagrams,        // FI_EP_DGRAM between IP addresses
  kNativeDatagrams,  // FI_EP_DGRAM between FI_ADDR_IB_UD
};

// Everything but addresses; fabric, domain and nic are those of `source`. `hints` (may be null) choose queue and inline
// sizes up to the device's limits, the address format, and FI_RX_CQ_DATA. Null: out of memory.
InfoPtr make_offer(const Source& source, std::uint32_t version, const fi_info* hints, const Parameters& parameters,
                   Service service);

// An endpoint's info, compared with the offer of its type (offer.cc) on the best port of a domain's device;
// -FI_ENODATA: it requests more.
Status check(const fi_info& info, Device& device, std::uint32_t version, const Parameters& parameters);

// false: out of memory.
inline bool set_address(void*& address, std::size_t& len, CmAddress value) noexcept {
  return weft::set_address(address, len, value.data(), value.size());
}

// The info of FI_CONNREQ without its handle: the passive endpoint's, with both addresses and the request's device.
InfoPtr request_info(const fi_info& prototype, rdma_cm_id& request, const CmAddress& peer);

}  // namespace weft::verbs
