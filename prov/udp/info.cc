// SPDX-License-Identifier: BSD-2-Clause
// What udp offers to fi_getinfo(3); objects/ip_info.h finds the addresses.
#include <algorithm>

#include "objects/ip_info.h"
#include "udp/limits.h"
#include "udp/parameters.h"
#include "udp/provider.h"
#include "udp/socket.h"

namespace weft::udp {
namespace {

constexpr uint64_t kLocality = FI_LOCAL_COMM | FI_REMOTE_COMM;
constexpr uint64_t kTxCaps = FI_MSG | FI_SEND | FI_MULTICAST | kLocality;
constexpr uint64_t kRxCaps = FI_MSG | FI_RECV | FI_MULTICAST | FI_SOURCE | FI_MULTI_RECV | kLocality;
constexpr uint64_t kTxFlags = FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_MULTICAST;
constexpr uint64_t kRxFlags = FI_COMPLETION | FI_MULTI_RECV;
constexpr size_t kMaxQueueSize = size_t{1} << 20;
constexpr size_t kPlentiful = 8192;  // for counts that only memory limits

void describe_endpoint(fi_info& info, const Parameters& parameters) {
  info.caps = kTxCaps | kRxCaps;
  fi_tx_attr& tx = *info.tx_attr;
  tx.caps = kTxCaps;
  tx.op_flags = kTxFlags;
  tx.comp_order = FI_ORDER_STRICT;
  tx.size = parameters.tx_size;
  tx.iov_limit = kIovLimit;

  fi_rx_attr& rx = *info.rx_attr;
  rx.caps = kRxCaps;
  rx.op_flags = kRxFlags;
  rx.comp_order = FI_ORDER_STRICT;
  rx.size = parameters.rx_size;
  rx.iov_limit = kIovLimit;

  fi_ep_attr& ep = *info.ep_attr;
  ep.type = FI_EP_DGRAM;
  ep.protocol = FI_PROTO_UDP;
  ep.tx_ctx_cnt = 1;
  ep.rx_ctx_cnt = 1;
}

void describe_domain(fi_domain_attr& attr) {
  attr.threading = FI_THREAD_SAFE;
  attr.control_progress = FI_PROGRESS_MANUAL;
  attr.progress = FI_PROGRESS_MANUAL;
  attr.resource_mgmt = FI_RM_ENABLED;
  attr.mr_key_size = sizeof(uint64_t);
  attr.cq_cnt = kPlentiful;
  attr.ep_cnt = kPlentiful;
  attr.tx_ctx_cnt = kPlentiful;
  attr.rx_ctx_cnt = kPlentiful;
  attr.max_ep_tx_ctx = 1;
  attr.max_ep_rx_ctx = 1;
  attr.cntr_cnt = kPlentiful;
  attr.mr_iov_limit = 1;
  attr.caps = kLocality;
  attr.mr_cnt = kPlentiful;
  attr.max_cntr_value = UINT64_MAX;
  attr.max_err_cntr_value = UINT64_MAX;
}

void grow(size_t& size, size_t wanted) {
  size = std::max(size, std::min(wanted, kMaxQueueSize));
}

// Everything but addresses, names and the size of messages, which the interface decides. Null when memory runs out.
InfoPtr make_offer(uint32_t version, const fi_info* hints, const Parameters& parameters) {
  InfoPtr offer(allocate_info());
  if (offer == nullptr) return offer;
  describe_endpoint(*offer, parameters);
  describe_domain(*offer->domain_attr);
  offer->ep_attr->max_msg_size = longest_datagram(AF_INET6);
  offer->tx_attr->inject_size = longest_datagram(AF_INET6);
  offer->fabric_attr->api_version = version;
  offer->fabric_attr->prov_version = provider().version;
  if (hints == nullptr) return offer;
  if (hints->addr_format == FI_SOCKADDR || hints->addr_format == FI_SOCKADDR_IP)
    offer->addr_format = hints->addr_format;
  // Queues are as long as the caller likes, within reason.
  if (hints->tx_attr != nullptr) grow(offer->tx_attr->size, hints->tx_attr->size);
  if (hints->rx_attr != nullptr) grow(offer->rx_attr->size, hints->rx_attr->size);
  return offer;
}

// A message is a datagram that no router has to cut. What an interface can do beyond Ethernet is for those who ask.
size_t max_message(const IpCandidate& candidate, const fi_info* hints) {
  const int family = candidate.source.family();
  const size_t header = header_size(family);
  const size_t usual = kEthernetMtu - header;
  if (candidate.mtu <= header) return usual;
  const size_t most = std::min(candidate.mtu - header, longest_datagram(family));
  size_t asked = hints != nullptr && hints->ep_attr != nullptr ? hints->ep_attr->max_msg_size : 0;
  if (hints != nullptr && hints->tx_attr != nullptr) asked = std::max(asked, hints->tx_attr->inject_size);
  return std::min(most, std::max(usual, asked));
}

}  // namespace

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
                       .each_interface = true,
                       .route = net::route,
                       .adjust = [hints](fi_info& info, const IpCandidate& candidate) {
                         info.ep_attr->max_msg_size = max_message(candidate, hints);
                         info.tx_attr->inject_size = info.ep_attr->max_msg_size;  // the kernel copies all of them
                       }};
  return answer_with_addresses(how, *offer, version, node, service, flags, hints, result);
}

}  // namespace weft::udp
