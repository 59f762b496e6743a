// SPDX-License-Identifier: BSD-2-Clause
// The tcp provider: its entry point, and its answer to fi_getinfo(3), for which objects/ip_info.h finds the addresses;
// fi_provider(7), fi_tcp(7).
#include <algorithm>

#include "abi/provider.h"
#include "objects/attributes.h"
#include "objects/ip_info.h"
#include "rdm/receive_side.h"
#include "tcp/connection/cm_message.h"
#include "tcp/domain.h"
#include "tcp/limits.h"
#include "tcp/logging.h"
#include "tcp/parameters.h"
#include "tcp/process_exit.h"
#include "tcp/socket.h"

namespace weft::tcp {
namespace {

// Capabilities of endpoints, split into those of sending and of receiving.
constexpr uint64_t kTxCaps =
    FI_MSG | FI_TAGGED | FI_RMA | FI_SEND | FI_READ | FI_WRITE | FI_FENCE | FI_TRIGGER | kLocality;
constexpr uint64_t kRxCaps = FI_MSG | FI_TAGGED | FI_RMA | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_MULTI_RECV |
                             FI_RMA_EVENT | FI_TRIGGER | kLocality;
constexpr uint64_t kTxFlags =
    FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE;
constexpr uint64_t kRxFlags = FI_COMPLETION | FI_MULTI_RECV;

constexpr uint64_t kAnyTag = 0xAAAA'AAAA'AAAA'AAAA;  // alternating bits: 64 fields of one bit each

// Reliable datagrams: the same capabilities over connections that the application does not see.
constexpr uint64_t kReliableTxCaps = kTxCaps | FI_ATOMIC | FI_NAMED_RX_CTX;
constexpr uint64_t kReliableRxCaps = kRxCaps | FI_ATOMIC | FI_SOURCE | FI_DIRECTED_RECV | FI_NAMED_RX_CTX;
// A long message waits at its sender, so that later operations overtake its data, though not its matching.
// Atomic operations are carried out one after the other, and fetched values are copied at once.
constexpr uint64_t kReliableOrder = kConnectionOrder | FI_ORDER_ATOMIC_WAR;

void describe_endpoint(fi_info& info, const Parameters& parameters) {
  info.caps = kTxCaps | kRxCaps;
  describe_direction(*info.tx_attr, {.caps = kTxCaps,
                                     .op_flags = kTxFlags,
                                     .msg_order = kConnectionOrder,
                                     .size = parameters.tx_size,
                                     .iov_limit = kIovLimit});
  // Reads and acknowledged operations complete with the peer's answer, others when they are sent.
  info.tx_attr->comp_order = FI_ORDER_NONE;
  info.tx_attr->inject_size = kInjectSize;
  info.tx_attr->rma_iov_limit = kIovLimit;
  describe_direction(*info.rx_attr, {.caps = kRxCaps,
                                     .op_flags = kRxFlags,
                                     .msg_order = kConnectionOrder,
                                     .size = parameters.rx_size,
                                     .iov_limit = kIovLimit});
  fi_ep_attr& ep = *info.ep_attr;
  ep.type = FI_EP_MSG;
  ep.protocol = FI_PROTO_SOCK_TCP;
  ep.max_msg_size = ep.max_order_raw_size = ep.max_order_waw_size = SIZE_MAX;
  ep.mem_tag_format = kAnyTag;
  ep.tx_ctx_cnt = ep.rx_ctx_cnt = 1;
}

// Changes the attributes of describe_endpoint().
void make_reliable(fi_info& info, const Parameters& parameters) {
  info.caps = kReliableTxCaps | kReliableRxCaps;
  info.tx_attr->caps = kReliableTxCaps;
  info.rx_attr->caps = kReliableRxCaps;
  info.tx_attr->msg_order = info.rx_attr->msg_order = kReliableOrder;
  info.rx_attr->comp_order = FI_ORDER_NONE;
  info.tx_attr->inject_size = kReliableInjectSize;
  info.tx_attr->size = std::max(parameters.tx_size, kReliableQueueSize);
  info.rx_attr->size = std::max(parameters.rx_size, kReliableQueueSize);
  info.ep_attr->type = FI_EP_RDM;
  info.ep_attr->protocol = FI_PROTO_XNET;
  info.ep_attr->protocol_version = 1;
  info.domain_attr->max_ep_tx_ctx = info.domain_attr->max_ep_rx_ctx = rdm::kMaxContexts;
}

// Everything but addresses and names. Null when memory runs out.
InfoPtr make_offer(fi_ep_type type, uint32_t version, const fi_info* hints, const Parameters& parameters) {
  InfoPtr offer(allocate_info());
  if (offer == nullptr) return offer;
  describe_endpoint(*offer, parameters);
  fi_domain_attr& domain = *offer->domain_attr;
  describe_domain(domain);
  domain.cq_data_size = sizeof(uint64_t);
  domain.max_ep_stx_ctx = domain.max_ep_srx_ctx = kPlentiful;
  domain.max_err_data = kCmDataSize;
  if (type == FI_EP_RDM) make_reliable(*offer, parameters);
  adapt_software_offer(*offer, version, hints, provider());
  if (hints == nullptr) return offer;
  // For a greater limit, programs that leave the type open get reliable datagrams, as from libfabric.
  if (or_none(hints->ep_attr).type == FI_EP_MSG) offer->tx_attr->inject_size = inject_limit(hints->tx_attr);
  offer->handle = hints->handle;
  if (const fi_ep_attr* wanted = hints->ep_attr; wanted != nullptr)
    if (wanted->protocol == FI_PROTO_XNET || wanted->protocol == FI_PROTO_SOCK_TCP)
      offer->ep_attr->protocol = wanted->protocol;
  return offer;
}

int getinfo(uint32_t version, const char* node, const char* service, uint64_t flags, const fi_info* hints,
            fi_info** result) {
  const Parameters parameters = Parameters::read();
  const IpProvider how{.provider = &provider(),
                       .any_fabric = "TCP-IP",
                       .any_domain = "tcp",
                       .interface = parameters.interface,
                       .interface_parameter = "FI_TCP_IFACE",
                       .route = net::route};
  const fi_ep_type wanted = or_none(or_none(hints).ep_attr).type;
  InfoList list(version, hints, &provider());
  Status status;
  // Connected endpoints come first: the list is in order of preference.
  for (const fi_ep_type type : {FI_EP_MSG, FI_EP_RDM}) {
    // Other types than the requested one are tried only where the attempt logs why the hints do not match.
    if (type == FI_EP_RDM ? wanted == FI_EP_MSG : wanted == FI_EP_RDM) continue;
    const InfoPtr offer = make_offer(type, version, hints, parameters);
    if (offer == nullptr) return -FI_ENOMEM;
    status = answer_with_addresses(how, *offer, node, service, flags, list);
  }
  const int error = list.release_to(result);
  return error != 0 && !status.ok() ? status.code() : error;
}

}  // namespace

Status Fabric::check(fi_ep_type type, const fi_info& info) const {
  const InfoPtr offer = make_offer(type, abi.api_version, &info, parameters);
  return offer != nullptr ? check_endpoint(*offer, abi.api_version, info, tcp::provider()) : Status(-FI_ENOMEM);
}

fi_provider& provider() noexcept {
  static fi_provider tcp = make_provider<Fabric, &getinfo, &send_last_messages>("tcp");
  return tcp;
}

}  // namespace weft::tcp

extern "C" fi_provider* weft_tcp_ini(void) {
  weft::tcp::Parameters::define();
  return &weft::tcp::provider();
}
