// SPDX-License-Identifier: BSD-2-Clause
// The udp provider: its entry point, its offer to fi_getinfo(3), for which objects/ip_info.h finds the addresses, and
// the opening of the children of fabrics and domains, apart from the parents, so that the children may include them;
// fi_provider(7), fi_udp(7), fi_fabric(3), fi_domain(3).
#include <algorithm>

#include "abi/provider.h"
#include "objects/attributes.h"
#include "objects/ip_info.h"
#include "udp/endpoint.h"
#include "udp/logging.h"
#include "udp/socket.h"

namespace weft::udp {
namespace {

constexpr uint64_t kTxCaps = FI_MSG | FI_SEND | FI_MULTICAST | kLocality;
constexpr uint64_t kRxCaps = FI_MSG | FI_RECV | FI_MULTICAST | FI_SOURCE | FI_MULTI_RECV | kLocality;
constexpr uint64_t kTxFlags = FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_MULTICAST;
constexpr uint64_t kRxFlags = FI_COMPLETION | FI_MULTI_RECV;

void describe_endpoint(fi_info& info, const Parameters& parameters) {
  info.caps = kTxCaps | kRxCaps;
  describe_direction(
      *info.tx_attr,
      {.caps = kTxCaps, .op_flags = kTxFlags, .msg_order = 0, .size = parameters.tx_size, .iov_limit = kIovLimit});
  describe_direction(
      *info.rx_attr,
      {.caps = kRxCaps, .op_flags = kRxFlags, .msg_order = 0, .size = parameters.rx_size, .iov_limit = kIovLimit});
  fi_ep_attr& ep = *info.ep_attr;
  ep.type = FI_EP_DGRAM;
  ep.protocol = FI_PROTO_UDP;
  ep.tx_ctx_cnt = ep.rx_ctx_cnt = 1;
}

// Everything but addresses, names and the size of messages, which depends on the interface. Null when memory runs out.
InfoPtr make_offer(uint32_t version, const fi_info* hints, const Parameters& parameters) {
  InfoPtr offer(allocate_info());
  if (offer == nullptr) return offer;
  describe_endpoint(*offer, parameters);
  describe_domain(*offer->domain_attr);
  offer->ep_attr->max_msg_size = offer->tx_attr->inject_size = longest_datagram(AF_INET6);
  adapt_software_offer(*offer, version, hints, provider());
  return offer;
}

// A message is one datagram, short enough not to be fragmented. Interfaces with a larger MTU offer more than Ethernet's
// on request only.
size_t max_message(const IpCandidate& candidate, const fi_info* hints) {
  const int family = candidate.source.family();
  const size_t header = header_size(family);
  const size_t usual = kEthernetMtu - header;
  if (candidate.mtu <= header) return usual;
  const size_t most = std::min(candidate.mtu - header, longest_datagram(family));
  const fi_info& asked = or_none(hints);
  return std::min(most, std::max({usual, or_none(asked.ep_attr).max_msg_size, or_none(asked.tx_attr).inject_size}));
}

int getinfo(uint32_t version, const char* node, const char* service, uint64_t flags, const fi_info* hints,
            fi_info** result) {
  const Parameters parameters = Parameters::read();
  const InfoPtr offer = make_offer(version, hints, parameters);
  if (offer == nullptr) return -FI_ENOMEM;
  const IpProvider how{.provider = &provider(),
                       .any_fabric = "UDP-IP",
                       .any_domain = "udp",
                       .interface = parameters.interface,
                       .interface_parameter = "FI_UDP_IFACE",
                       .route = net::route,
                       .adjust = [hints](fi_info& info, const IpCandidate& candidate) {
                         info.ep_attr->max_msg_size = max_message(candidate, hints);
                         info.tx_attr->inject_size = info.ep_attr->max_msg_size;  // the kernel copies all of them
                       }};
  InfoList list(version, hints, &provider());
  const Status status = answer_with_addresses(how, *offer, node, service, flags, list);
  return status.ok() ? list.release_to(result) : status.code();
}

}  // namespace

// Messages that are longer than the interface's MTU are sent in fragments. Injected data is one message.
Status Fabric::check(int family, const fi_info& info) const {
  const InfoPtr offer = make_offer(abi.api_version, &info, parameters);
  if (offer == nullptr) return Status(-FI_ENOMEM);
  offer->ep_attr->max_msg_size = longest_datagram(family);
  offer->tx_attr->inject_size = std::max(or_none(info.ep_attr).max_msg_size, kEthernetMtu - header_size(family));
  return check_endpoint(*offer, abi.api_version, info, udp::provider());
}

fi_provider& provider() noexcept {
  static fi_provider udp = make_provider<Fabric, &getinfo>("udp");
  return udp;
}

int Fabric::domain(fi_info* info, fid_domain** domain, void* context) {
  return Domain::open(*this, info, domain, context);
}

int Domain::endpoint(fi_info* info, fid_ep** ep, void* context) {
  return Endpoint::open(*this, info, ep, context);
}

}  // namespace weft::udp

extern "C" fi_provider* weft_udp_ini(void) {
  weft::udp::Parameters::define();
  return &weft::udp::provider();
}
