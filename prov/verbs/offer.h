// SPDX-License-Identifier: BSD-2-Clause
// What the provider offers on one device and port, as fi_getinfo(3) tells it: every limit is the device's.
#pragma once

#include <string>

#include "objects/info.h"
#include "verbs/connect_request.h"
#include "verbs/discovery.h"
#include "verbs/gids.h"

namespace weft::verbs {

// Names of passive infos that no single device stands for.
inline constexpr const char* kAnyDomain = "verbs_any_domain";
inline constexpr const char* kAnyFabric = "verbs_any_fabric";

// Domains of datagram endpoints are called like the device with this behind it.
inline constexpr const char* kDatagramSuffix = "-dgram";
// The device of a domain's name.
std::string device_name(const std::string& domain);

// What an offer is of.
enum class Service {
  kConnections,      // FI_EP_MSG
  kDatagrams,        // FI_EP_DGRAM between IP addresses
  kNativeDatagrams,  // FI_EP_DGRAM between FI_ADDR_IB_UD
};

// Everything but addresses; the fabric, domain and nic are `source`'s. `hints` (may be null) choose where there is a
// choice: queue and inline sizes up to the device's, address format, FI_RX_CQ_DATA. Null when memory runs out.
InfoPtr make_offer(const Source& source, std::uint32_t version, const fi_info* hints, const Parameters& parameters,
                   Service service);

// False when memory runs out.
inline bool set_address(void*& address, std::size_t& len, CmAddress value) noexcept {
  return weft::set_address(address, len, value.data(), value.size());
}

// The info of FI_CONNREQ, without its handle: the passive endpoint's with both addresses and the request's device.
InfoPtr request_info(const fi_info& prototype, const ConnectRequest& request);

}  // namespace weft::verbs
