// SPDX-License-Identifier: BSD-2-Clause
// The provider's answer to fi_getinfo(3) (info.cc), and its offer on one device and port. Every limit is the device's.
#pragma once

#include <string>

#include "objects/info.h"
#include "verbs/device/gids.h"
#include "verbs/discovery/discovery.h"

namespace weft::verbs {

int getinfo(uint32_t version, const char* node, const char* service, uint64_t flags, const fi_info* hints,
            fi_info** info);

// Names in passive infos that several devices can serve.
inline constexpr const char* kAnyDomain = "verbs_any_domain";
inline constexpr const char* kAnyFabric = "verbs_any_fabric";

// The domain of datagram endpoints is named after the device, with this suffix.
inline constexpr const char* kDatagramSuffix = "-dgram";
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

// false: out of memory.
inline bool set_address(void*& address, std::size_t& len, CmAddress value) noexcept {
  return weft::set_address(address, len, value.data(), value.size());
}

// The info of FI_CONNREQ without its handle: the passive endpoint's, with both addresses and the request's device.
InfoPtr request_info(const fi_info& prototype, rdma_cm_id& request, const CmAddress& peer);

}  // namespace weft::verbs
