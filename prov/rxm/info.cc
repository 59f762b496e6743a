// SPDX-License-Identifier: BSD-2-Clause
// The ofi_rxm provider, reliable datagrams (FI_EP_RDM) over the connected endpoints (FI_EP_MSG) of any other provider:
// its entry point, and its offer to fi_getinfo(3), an info for each connected endpoint that a lower provider offers;
// fi_provider(7), fi_rxm(7).
#include <algorithm>
#include <utility>

#include "abi/provider.h"
#include "objects/attributes.h"
#include "rdm/receive_side.h"
#include "rxm/domain.h"
#include "rxm/logging.h"

namespace weft::rxm {
namespace {

constexpr uint64_t kMessages = FI_MSG | FI_TAGGED;
constexpr uint64_t kTxCaps =
    kMessages | FI_SEND | FI_RMA | FI_ATOMIC | FI_READ | FI_WRITE | FI_FENCE | FI_TRIGGER | FI_NAMED_RX_CTX | kLocality;
constexpr uint64_t kRxCaps = kMessages | FI_RECV | FI_RMA | FI_ATOMIC | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_SOURCE |
                             FI_DIRECTED_RECV | FI_MULTI_RECV | FI_TRIGGER | FI_NAMED_RX_CTX | kLocality;
constexpr uint64_t kTxFlags = FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE;
constexpr uint64_t kRxFlags = FI_COMPLETION | FI_MULTI_RECV;
// The orders that one connection keeps; our own reads that fetch long messages do not count.
constexpr uint64_t kOrder = FI_ORDER_SAS | FI_ORDER_RAS | FI_ORDER_WAS | FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_WAW |
                            FI_ORDER_SAW | FI_ORDER_RMA_RAR | FI_ORDER_RMA_RAW | FI_ORDER_RMA_WAW;
// Packets of atomic operations are handled, and answered, one after the other.
constexpr uint64_t kAtomicOrder = FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW;
constexpr uint64_t kAnyTag = 0xAAAA'AAAA'AAAA'AAAA;  // alternating bits: 64 fields of one bit each

void describe_endpoint(fi_info& info, const fi_info& lower, const Parameters& parameters) {
  const uint64_t tx_caps = kTxCaps | (lower.caps & FI_HMEM);
  const uint64_t rx_caps = kRxCaps | (lower.caps & (FI_RMA_EVENT | FI_HMEM));
  info.caps = tx_caps | rx_caps;
  describe_direction(*info.tx_attr, {.caps = tx_caps,
                                     .op_flags = kTxFlags | (lower.tx_attr->op_flags & kLowerLevels),
                                     .msg_order = (lower.tx_attr->msg_order & kOrder) | kAtomicOrder,
                                     .size = parameters.tx_size,
                                     .iov_limit = kIovLimit});
  describe_direction(*info.rx_attr, {.caps = rx_caps,
                                     .op_flags = kRxFlags,
                                     .msg_order = (lower.rx_attr->msg_order & kOrder) | kAtomicOrder,
                                     .size = parameters.rx_size,
                                     .iov_limit = kIovLimit});
  // Messages match in order, but short messages may complete before long ones that were sent earlier.
  info.tx_attr->comp_order = info.rx_attr->comp_order = FI_ORDER_NONE;
  info.tx_attr->inject_size = parameters.eager_limit;
  info.tx_attr->rma_iov_limit = std::min(lower.tx_attr->rma_iov_limit, kIovLimit);

  fi_ep_attr& ep = *info.ep_attr;
  ep.type = FI_EP_RDM;
  ep.protocol = FI_PROTO_RXM;
  ep.protocol_version = 1;
  ep.max_msg_size = lower.ep_attr->max_msg_size;
  ep.max_order_raw_size = lower.ep_attr->max_order_raw_size;
  ep.max_order_waw_size = lower.ep_attr->max_order_waw_size;
  ep.mem_tag_format = kAnyTag;
  ep.tx_ctx_cnt = ep.rx_ctx_cnt = 1;
}

void describe_memory(fi_domain_attr& attr, const fi_info& lower, const fi_info* hints) {
  const fi_domain_attr& below = *lower.domain_attr;
  // We register memory of messages; memory that peers access is registered in the lower provider's mode.
  const bool registers = hints == nullptr || hints->caps == 0 || (hints->caps & (FI_RMA | FI_ATOMIC)) != 0;
  constexpr int kBasic = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  const int needed = below.mr_mode == FI_MR_BASIC ? kBasic : below.mr_mode & ~(FI_MR_LOCAL | FI_MR_SCALABLE);
  attr.mr_mode = registers ? needed : needed & FI_MR_HMEM;
  attr.mr_key_size = below.mr_key_size;
  attr.cq_data_size = registers ? std::min(below.cq_data_size, sizeof(uint64_t)) : sizeof(uint64_t);
  attr.ep_cnt = std::min(attr.ep_cnt, below.ep_cnt);
  attr.mr_iov_limit = below.mr_iov_limit;
  attr.mr_cnt = below.mr_cnt;
}

// Hints with neither a capability nor a registration mode are a request for messages, for which we register the memory.
void leave_memory_out(fi_info& offer, uint32_t version, const fi_info& hints) noexcept {
  if (hints.domain_attr == nullptr || FI_VERSION_LT(version, FI_VERSION(1, 5))) return;
  const int allowed = hints.domain_attr->mr_mode;
  if (allowed == FI_MR_BASIC || (offer.domain_attr->mr_mode & ~allowed) == 0) return;
  if (only_initiates(hints.caps, allowed)) offer.domain_attr->mr_mode &= FI_MR_HMEM;
  if (hints.caps != 0) return;
  constexpr uint64_t kMemory =
      FI_RMA | FI_ATOMIC | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_RMA_EVENT;
  offer.caps &= ~kMemory;
  offer.tx_attr->caps &= ~kMemory;
  offer.rx_attr->caps &= ~kMemory;
  offer.domain_attr->mr_mode = 0;
}

// The lower info with its names and addresses, as one of ours. Null when memory runs out.
InfoPtr make_offer(const fi_info& lower, uint32_t version, const fi_info* hints, const Parameters& parameters) {
  InfoPtr offer(duplicate_info(&lower));
  InfoPtr blank(allocate_info());
  if (offer == nullptr || blank == nullptr) return nullptr;
  char* const domain = std::exchange(offer->domain_attr->name, nullptr);
  std::swap(offer->tx_attr, blank->tx_attr);
  std::swap(offer->rx_attr, blank->rx_attr);
  std::swap(offer->ep_attr, blank->ep_attr);
  std::swap(offer->domain_attr, blank->domain_attr);
  offer->domain_attr->name = domain;
  offer->mode = 0;
  offer->handle = nullptr;
  describe_endpoint(*offer, lower, parameters);
  describe_domain(*offer->domain_attr);
  offer->domain_attr->max_ep_tx_ctx = offer->domain_attr->max_ep_rx_ctx = rdm::kMaxContexts;
  offer->domain_attr->max_ep_stx_ctx = offer->domain_attr->max_ep_srx_ctx = kPlentiful;
  describe_memory(*offer->domain_attr, lower, hints);
  if (hints != nullptr) leave_memory_out(*offer, version, *hints);
  if (hints != nullptr && (hints->caps & ~lower.caps & FI_RMA_EVENT) != 0)
    FI_INFO(&provider(), FI_LOG_FABRIC, "%s does not report accesses by peers: no FI_RMA_EVENT\n",
            lower.fabric_attr->prov_name);
  adapt_software_offer(*offer, version, hints, provider());
  return offer;
}

int getinfo(uint32_t version, const char* node, const char* service, uint64_t flags, const fi_info* hints,
            fi_info** result) {
  // Queries of the lower providers may take long, so requests that cannot be satisfied are refused first.
  const fi_ep_type type = or_none(or_none(hints).ep_attr).type;
  if (type != FI_EP_UNSPEC && type != FI_EP_RDM) {
    FI_INFO(&provider(), FI_LOG_FABRIC, "hints request another endpoint type, ofi_rxm offers FI_EP_RDM\n");
    return -FI_ENODATA;
  }
  const Parameters parameters = Parameters::read();
  const InfoPtr wanted = lower_hints(version, hints);
  if (wanted == nullptr) return -FI_ENOMEM;
  auto lower = find_lower(version, node, service, flags, wanted.get());
  if (!lower) return lower.error().code();

  InfoList list(version, hints, &provider());
  for (const fi_info* each = lower->get(); each != nullptr; each = each->next) {
    InfoPtr offer = make_offer(*each, version, hints, parameters);
    if (offer == nullptr) return -FI_ENOMEM;
    list.add(std::move(offer));
  }
  return list.release_to(result);
}

}  // namespace

Status Domain::check(const fi_info& info) const {
  const InfoPtr offer = make_offer(lower_info(), api_version(), &info, fabric().parameters);
  if (offer == nullptr) return Status(-FI_ENOMEM);
  offer->tx_attr->op_flags |= lower_.levels;
  return check_endpoint(*offer, api_version(), info, rxm::provider());
}

fi_provider& provider() noexcept {
  static fi_provider rxm = make_provider<Fabric, &getinfo>("ofi_rxm");
  return rxm;
}

}  // namespace weft::rxm

extern "C" fi_provider* weft_rxm_ini(void) {
  weft::rxm::Parameters::define();
  return &weft::rxm::provider();
}
