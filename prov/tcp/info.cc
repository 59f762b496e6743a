// SPDX-License-Identifier: BSD-2-Clause
// What tcp offers to fi_getinfo(3); objects/ip_info.h finds the addresses.
#include <algorithm>

#include "objects/ip_info.h"
#include "tcp/cm_message.h"
#include "tcp/limits.h"
#include "tcp/parameters.h"
#include "tcp/provider.h"
#include "tcp/socket.h"

namespace weft::tcp {
namespace {

// What endpoints can do; receives and sends each know their part of it.
constexpr uint64_t kLocality = FI_LOCAL_COMM | FI_REMOTE_COMM;
constexpr uint64_t kTxCaps = FI_MSG | FI_TAGGED | FI_RMA | FI_SEND | FI_READ | FI_WRITE | FI_FENCE | kLocality;
constexpr uint64_t kRxCaps =
    FI_MSG | FI_TAGGED | FI_RMA | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_MULTI_RECV | FI_RMA_EVENT | kLocality;
constexpr uint64_t kTxFlags =
    FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE;
constexpr uint64_t kRxFlags = FI_COMPLETION | FI_MULTI_RECV;

// One stream carries everything in order; only reads are answered later, with what is there then.
constexpr uint64_t kOrder = FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_RAS | FI_ORDER_WAW | FI_ORDER_WAS | FI_ORDER_SAW |
                            FI_ORDER_SAS | FI_ORDER_RMA_RAR | FI_ORDER_RMA_RAW | FI_ORDER_RMA_WAW |
                            FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAW;

constexpr uint64_t kAnyTag = 0xAAAA'AAAA'AAAA'AAAA;  // alternating bits: 64 fields of one bit each
constexpr size_t kMaxQueueSize = size_t{1} << 20;
constexpr size_t kPlentiful = 8192;  // for counts that only memory limits

void describe_endpoint(fi_info& info, uint32_t version, const Parameters& parameters) {
  info.caps = kTxCaps | kRxCaps;
  fi_tx_attr& tx = *info.tx_attr;
  tx.caps = kTxCaps;
  tx.op_flags = kTxFlags;
  tx.msg_order = kOrder;
  tx.comp_order = FI_ORDER_STRICT;
  tx.inject_size = kInjectSize;
  tx.size = parameters.tx_size;
  tx.iov_limit = kIovLimit;
  tx.rma_iov_limit = kIovLimit;

  fi_rx_attr& rx = *info.rx_attr;
  rx.caps = kRxCaps;
  rx.op_flags = kRxFlags;
  rx.msg_order = kOrder;
  rx.comp_order = FI_ORDER_STRICT;
  rx.size = parameters.rx_size;
  rx.iov_limit = kIovLimit;

  fi_ep_attr& ep = *info.ep_attr;
  ep.type = FI_EP_MSG;
  // The protocol got a name of its own in 1.18; the bytes are the same.
  ep.protocol = FI_VERSION_GE(version, FI_VERSION(1, 18)) ? FI_PROTO_XNET : FI_PROTO_SOCK_TCP;
  ep.max_msg_size = SIZE_MAX;
  ep.max_order_raw_size = SIZE_MAX;
  ep.max_order_waw_size = SIZE_MAX;
  ep.mem_tag_format = kAnyTag;
  ep.tx_ctx_cnt = 1;
  ep.rx_ctx_cnt = 1;
}

void describe_domain(fi_domain_attr& attr) {
  attr.threading = FI_THREAD_SAFE;
  attr.control_progress = FI_PROGRESS_MANUAL;
  attr.progress = FI_PROGRESS_MANUAL;
  attr.resource_mgmt = FI_RM_ENABLED;
  attr.mr_key_size = sizeof(uint64_t);
  attr.cq_data_size = sizeof(uint64_t);
  attr.cq_cnt = kPlentiful;
  attr.ep_cnt = kPlentiful;
  attr.tx_ctx_cnt = kPlentiful;
  attr.rx_ctx_cnt = kPlentiful;
  attr.max_ep_tx_ctx = 1;
  attr.max_ep_rx_ctx = 1;
  attr.max_ep_srx_ctx = kPlentiful;
  attr.cntr_cnt = kPlentiful;
  attr.mr_iov_limit = 1;
  attr.caps = kLocality;
  attr.max_err_data = kCmDataSize;
  attr.mr_cnt = kPlentiful;
  attr.max_cntr_value = UINT64_MAX;
  attr.max_err_cntr_value = UINT64_MAX;
}

void grow(size_t& size, size_t wanted) {
  size = std::max(size, std::min(wanted, kMaxQueueSize));
}

// Everything but addresses and names. Null when memory runs out.
InfoPtr make_offer(uint32_t version, const fi_info* hints, const Parameters& parameters) {
  InfoPtr offer(allocate_info());
  if (offer == nullptr) return offer;
  describe_endpoint(*offer, version, parameters);
  describe_domain(*offer->domain_attr);
  offer->fabric_attr->api_version = version;
  offer->fabric_attr->prov_version = provider().version;
  if (hints == nullptr) return offer;
  offer->handle = hints->handle;
  if (hints->addr_format == FI_SOCKADDR || hints->addr_format == FI_SOCKADDR_IP)
    offer->addr_format = hints->addr_format;
  // Queues are as long as the caller likes, within reason.
  if (hints->tx_attr != nullptr) grow(offer->tx_attr->size, hints->tx_attr->size);
  if (hints->rx_attr != nullptr) grow(offer->rx_attr->size, hints->rx_attr->size);
  if (const fi_ep_attr* wanted = hints->ep_attr; wanted != nullptr)
    if (wanted->protocol == FI_PROTO_XNET || wanted->protocol == FI_PROTO_SOCK_TCP)
      offer->ep_attr->protocol = wanted->protocol;
  return offer;
}

}  // namespace

int getinfo(uint32_t version, const char* node, const char* service, uint64_t flags, const fi_info* hints,
            fi_info** result) {
  const Parameters parameters = Parameters::read();
  const InfoPtr offer = make_offer(version, hints, parameters);
  if (offer == nullptr) return -FI_ENOMEM;
  const IpProvider how{.provider = &provider(),
                       .any_fabric = "TCP-IP",
                       .any_domain = "tcp",
                       .interface = parameters.interface,
                       .interface_parameter = "FI_TCP_IFACE",
                       .route = net::route};
  return answer_with_addresses(how, *offer, version, node, service, flags, hints, result);
}

}  // namespace weft::tcp
