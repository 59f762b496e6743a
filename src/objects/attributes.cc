// SPDX-License-Identifier: BSD-2-Clause
// Matching hints against an offer, and the parts of offers; fi_getinfo(3), fi_endpoint(3), fi_domain(3).
#include "objects/attributes.h"

#include <fmt/format.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/providers/fi_log.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/each.h"
#include "objects/bit_names.h"

namespace weft {

namespace {

std::string names_of(uint64_t bits, std::span<const Name> names) {
  std::string text;
  for (const Name& entry : names) {
    if ((bits & entry.value) == 0) continue;
    if (!text.empty()) text += '|';
    text += entry.text;
    bits &= ~entry.value;
  }
  if (bits != 0) text += fmt::format("{}{:#x}", text.empty() ? "" : "|", bits);
  return text;
}

// fi_getinfo(3) CAPABILITIES: the three kinds.
constexpr uint64_t kMessageModifiers = FI_SEND | FI_RECV;
constexpr uint64_t kMemoryModifiers = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
constexpr uint64_t kMessageCaps = FI_MSG | FI_TAGGED | FI_MULTICAST | FI_COLLECTIVE;
constexpr uint64_t kMemoryCaps = FI_RMA | FI_ATOMIC;
// Secondary capabilities that are granted without a request, unless they modify something that was not requested.
constexpr uint64_t kFreeCaps = FI_MULTI_RECV | FI_TRIGGER | FI_FENCE | FI_LOCAL_COMM | FI_REMOTE_COMM | FI_SHARED_AV;
constexpr uint64_t kFreeMemoryCaps = FI_RMA_PMEM | FI_RMA_EVENT;

// fi_endpoint(3): the capabilities that apply to one direction. The others are in fi_info::caps only.
constexpr uint64_t kTransmitCaps = FI_MSG | FI_RMA | FI_TAGGED | FI_ATOMIC | FI_READ | FI_WRITE | FI_SEND | FI_HMEM |
                                   FI_TRIGGER | FI_FENCE | FI_MULTICAST | FI_RMA_PMEM | FI_NAMED_RX_CTX | FI_COLLECTIVE;
constexpr uint64_t kReceiveCaps = FI_MSG | FI_RMA | FI_TAGGED | FI_ATOMIC | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_RECV |
                                  FI_HMEM | FI_TRIGGER | FI_RMA_PMEM | FI_DIRECTED_RECV | FI_MULTI_RECV | FI_SOURCE |
                                  FI_RMA_EVENT | FI_SOURCE_ERR | FI_COLLECTIVE;

constexpr int kBasicBits = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;

// The capabilities that a request stands for: without a modifier, all modifiers that apply.
uint64_t complete(uint64_t caps) noexcept {
  if ((caps & kMessageCaps) != 0 && (caps & kMessageModifiers) == 0) caps |= kMessageModifiers;
  if ((caps & kMemoryCaps) != 0 && (caps & kMemoryModifiers) == 0) caps |= kMemoryModifiers;
  return caps;
}

// The part of a provider's mr_mode that matters to a caller: without remote access only the bits for local buffers.
int needed_mr_mode(int required, const fi_info* hints) noexcept {
  const bool local_only = hints != nullptr && hints->caps != 0 && (hints->caps & kMemoryCaps) == 0;
  return local_only ? required & (FI_MR_LOCAL | FI_MR_HMEM | FI_MR_COLLECTIVE) : required;
}

// FI_MR_UNSPEC, BASIC and SCALABLE are whole values rather than bits.
bool is_legacy(int mr_mode) noexcept {
  return mr_mode == FI_MR_UNSPEC || mr_mode == FI_MR_BASIC || mr_mode == FI_MR_SCALABLE;
}

// Ranks the models by the concurrency that they let the application have, and so require of the provider.
int concurrency(fi_threading threading) noexcept {
  constexpr int kRanks[] = {0, 5, 4, 1, 2, 3};
  static_assert(FI_THREAD_SAFE == 1 && FI_THREAD_FID == 2 && FI_THREAD_DOMAIN == 3 && FI_THREAD_COMPLETION == 4 &&
                FI_THREAD_ENDPOINT == 5);
  return static_cast<unsigned>(threading) < std::size(kRanks) ? kRanks[threading] : 0;
}

bool same_format(uint32_t wanted, uint32_t offered) noexcept {
  if (wanted == offered || offered == FI_FORMAT_UNSPEC) return true;
  const bool offers_ip = offered == FI_SOCKADDR_IN || offered == FI_SOCKADDR_IN6 || offered == FI_SOCKADDR_IP;
  if (wanted == FI_SOCKADDR) return offers_ip || offered == FI_SOCKADDR_IB;
  const bool wants_ip = wanted == FI_SOCKADDR_IN || wanted == FI_SOCKADDR_IN6 || wanted == FI_SOCKADDR_IP;
  return wants_ip && (wanted == FI_SOCKADDR_IP ? offers_ip : offered == FI_SOCKADDR_IP || offered == FI_SOCKADDR);
}

constexpr auto kCompletionOrders = WEFT_NAMES(FI_ORDER_STRICT, FI_ORDER_DATA);
constexpr const char* kEndpointTypeNames[] = {"FI_EP_UNSPEC", "FI_EP_MSG", "FI_EP_DGRAM", "FI_EP_RDM"};
static_assert(FI_EP_MSG == 1 && FI_EP_DGRAM == 2 && FI_EP_RDM == 3);

// The call whose argument is compared.
struct Caller {
  fi_log_level level;
  const char* requests;
  const char* allows_not;
};
constexpr Caller kGetinfo{FI_LOG_INFO, "hints request", "hints do not allow"};
constexpr Caller kEndpoint{FI_LOG_WARN, "the endpoint's info requests", "the endpoint's info does not allow"};

// The rules that fields have in common; logs each mismatch and keeps the result.
class Matcher {
 public:
  Matcher(const fi_provider* provider, const Caller& caller) noexcept
      : provider_(provider), name_(provider->name), caller_(caller) {}
  Status result() const noexcept { return matched_ ? Status() : Status(-FI_ENODATA); }

  void refuse(const std::string& sentence) {
    matched_ = false;
    FI_LOG(provider_, caller_.level, FI_LOG_CORE, "%s\n", sentence.c_str());
  }
  // The sentence that starts with the caller and the request.
  template <class... Args>
  void refuse_request(fmt::format_string<Args...> format, Args&&... args) {
    refuse(fmt::format("{} {}", caller_.requests, fmt::format(format, std::forward<Args>(args)...)));
  }
  void at_most(std::string_view field, uint64_t wanted, uint64_t offered) {
    if (wanted > offered) refuse_request("{} {}, {} offers {}", field, wanted, name_, offered);
  }
  void known(std::string_view field, unsigned wanted, unsigned last) {
    if (wanted > last) refuse_request("{} {}, which does not exist", field, wanted);
  }
  void equal(std::string_view field, uint64_t wanted, uint64_t offered) {
    if (wanted != 0 && wanted != offered) refuse_request("{} {}, {} offers {}", field, wanted, name_, offered);
  }
  // equal() for a value that has a name; `names` is indexed by the value.
  void equal(std::string_view field, uint64_t wanted, uint64_t offered, std::span<const char* const> names) {
    if (wanted == 0 || wanted == offered) return;
    const auto name = [&](uint64_t value) { return value < names.size() ? names[value] : "an unknown value"; };
    refuse_request("{} {}, {} offers {}", field, name(wanted), name_, name(offered));
  }
  void within(std::string_view field, uint64_t wanted, uint64_t offered, std::span<const Name> names) {
    if (const uint64_t missing = wanted & ~offered; missing != 0)
      refuse_request("{} {}, which {} does not offer", field, names_of(missing, names), name_);
  }
  void accepted(std::string_view field, uint64_t required, uint64_t allowed, std::span<const Name> names) {
    if (const uint64_t missing = required & ~allowed; missing != 0)
      refuse(fmt::format("{} needs {} {}, which {}", name_, field, names_of(missing, names), caller_.allows_not));
  }
  void same_text(std::string_view field, const char* wanted, const char* offered) {
    if (wanted != nullptr && (offered == nullptr || std::strcmp(wanted, offered) != 0))
      refuse_request("{} \"{}\", {} offers \"{}\"", field, wanted, name_, offered != nullptr ? offered : "");
  }
  const char* name() const noexcept { return name_; }

 private:
  const fi_provider* const provider_;
  const char* const name_;
  const Caller& caller_;
  bool matched_ = true;
};

// The attributes that both directions have; `name` is "tx_attr" or "rx_attr". Programs copy the capabilities of the
// whole endpoint to both: those of the `other` direction request nothing. total_buffered_recv is a hint that a provider
// may ignore (fi_endpoint(3)).
template <class Attr>
void check_direction(Matcher& match, const std::string& name, const Attr& offer, const Attr& hints,
                     const fi_info& offered, const fi_info& wanted, uint64_t other) {
  match.within(name + "->caps", hints.caps & ~other, offer.caps | offered.caps, names::kCaps);
  match.accepted(name + "->mode", offer.mode, hints.mode | wanted.mode, names::kMode);
  match.within(name + "->op_flags", hints.op_flags, offer.op_flags, names::kOpFlags);
  match.within(name + "->msg_order", hints.msg_order, offer.msg_order, names::kMsgOrder);
  match.within(name + "->comp_order", hints.comp_order, offer.comp_order, kCompletionOrders);
  match.at_most(name + "->size", hints.size, offer.size);
  match.at_most(name + "->iov_limit", hints.iov_limit, offer.iov_limit);
}

// Scalable endpoints have contexts of their own; other endpoints have one, or share one.
void check_contexts(Matcher& match, std::string_view field, size_t wanted, size_t per_endpoint, size_t shareable) {
  if (wanted != FI_SHARED_CONTEXT) {
    match.at_most(field, wanted, per_endpoint);
  } else if (shareable == 0) {
    match.refuse_request("{} FI_SHARED_CONTEXT, which {} does not offer", field, match.name());
  }
}

// Members that may not exceed the offer's.
#define WEFT_EP_LIMIT(member) match.at_most("ep_attr->" #member, hints.member, offer.member);
#define WEFT_DOMAIN_LIMIT(member) match.at_most("domain_attr->" #member, hints.member, offer.member);
// Enumerations that end with `last`.
#define WEFT_ENUMERATION(member, last) match.known("domain_attr->" #member, hints.member, last);

// A size is a request only of a caller that requests its order.
void check_ordered_sizes(Matcher& match, const fi_ep_attr& offer, const fi_info& wanted) {
  const fi_ep_attr& hints = *wanted.ep_attr;
  const uint64_t order = or_none(wanted.tx_attr).msg_order | or_none(wanted.rx_attr).msg_order;
  if ((order & (FI_ORDER_RAW | FI_ORDER_RMA_RAW | FI_ORDER_ATOMIC_RAW)) != 0) WEFT_EP_LIMIT(max_order_raw_size)
  if ((order & (FI_ORDER_WAR | FI_ORDER_RMA_WAR | FI_ORDER_ATOMIC_WAR)) != 0) WEFT_EP_LIMIT(max_order_war_size)
  if ((order & (FI_ORDER_WAW | FI_ORDER_RMA_WAW | FI_ORDER_ATOMIC_WAW)) != 0) WEFT_EP_LIMIT(max_order_waw_size)
}

void check_ep(Matcher& match, const fi_info& offered, const fi_info& wanted, uint32_t version) {
  const fi_ep_attr& offer = *offered.ep_attr;
  const fi_ep_attr& hints = *wanted.ep_attr;
  match.equal("ep_attr->type", hints.type, offer.type, kEndpointTypeNames);
  match.equal("ep_attr->protocol", hints.protocol, offer.protocol);
  if (hints.protocol != FI_PROTO_UNSPEC)
    match.at_most("ep_attr->protocol_version", hints.protocol_version, offer.protocol_version);
  WEFT_EP_LIMIT(max_msg_size)
  check_ordered_sizes(match, offer, wanted);
  // Tag formats are masks, compared by the number of tag bits that they use. Small values are names of formats.
  if ((offer.mem_tag_format != 0 || (offered.caps & FI_TAGGED) != 0) && hints.mem_tag_format >= FI_TAG_MAX_FORMAT)
    match.at_most("ep_attr->mem_tag_format, bits", static_cast<uint64_t>(std::bit_width(hints.mem_tag_format)),
                  static_cast<uint64_t>(std::bit_width(offer.mem_tag_format)));
  const fi_domain_attr& domain = *offered.domain_attr;
  check_contexts(match, "ep_attr->tx_ctx_cnt", hints.tx_ctx_cnt, domain.max_ep_tx_ctx, domain.max_ep_stx_ctx);
  check_contexts(match, "ep_attr->rx_ctx_cnt", hints.rx_ctx_cnt, domain.max_ep_rx_ctx, domain.max_ep_srx_ctx);
  if (FI_VERSION_GE(version, FI_VERSION(1, 5)))
    match.at_most("ep_attr->auth_key_size", hints.auth_key_size, offer.auth_key_size);
}

// Everything about endpoints.
void check_endpoints(Matcher& match, const fi_info& offer, uint32_t version, const fi_info& wanted) {
  match.within("caps", wanted.caps, offer.caps, names::kCaps);
  match.accepted("mode", offer.mode, wanted.mode, names::kMode);
  if (wanted.addr_format != FI_FORMAT_UNSPEC && !same_format(wanted.addr_format, offer.addr_format))
    match.equal("addr_format", wanted.addr_format, offer.addr_format);
  if (const fi_tx_attr* tx = wanted.tx_attr; tx != nullptr) {
    check_direction(match, "tx_attr", *offer.tx_attr, *tx, offer, wanted, kReceiveCaps & ~kTransmitCaps);
    match.at_most("tx_attr->inject_size", tx->inject_size, offer.tx_attr->inject_size);
    match.at_most("tx_attr->rma_iov_limit", tx->rma_iov_limit, offer.tx_attr->rma_iov_limit);
  }
  if (const fi_rx_attr* rx = wanted.rx_attr; rx != nullptr)
    check_direction(match, "rx_attr", *offer.rx_attr, *rx, offer, wanted, kTransmitCaps & ~kReceiveCaps);
  if (wanted.ep_attr != nullptr) check_ep(match, offer, wanted, version);
}

void check_mr_mode(Matcher& match, const fi_info& offer, const fi_info& hints, uint32_t version) {
  const int wanted = hints.domain_attr->mr_mode;
  const int local = (hints.mode & FI_LOCAL_MR) != 0 ? FI_MR_LOCAL : 0;
  const bool old = FI_VERSION_LT(version, FI_VERSION(1, 5));
  int allowed = wanted;
  if (wanted == FI_MR_BASIC || (old && wanted == FI_MR_UNSPEC)) {
    allowed = kBasicBits | local;
  } else if (wanted == FI_MR_UNSPEC && local != 0) {
    allowed = kBasicBits | local;  // names no mode, but registers local buffers: such programs follow the answer
  } else if (wanted == FI_MR_SCALABLE) {
    allowed = local;
  } else if ((wanted & (FI_MR_BASIC | FI_MR_SCALABLE)) != 0 || (old && !is_legacy(wanted))) {
    return match.refuse_request("domain_attr->mr_mode {:#x}, which API {}.{} does not have", wanted, FI_MAJOR(version),
                                FI_MINOR(version));
  }
  match.accepted("domain_attr->mr_mode", static_cast<unsigned>(needed_mr_mode(offer.domain_attr->mr_mode, &hints)),
                 static_cast<unsigned>(allowed), names::kMrMode);
}

// cq_cnt, ep_cnt, tx_ctx_cnt, rx_ctx_cnt, max_group_id and max_ep_..._ctx are answers: programs leave large numbers in
// them, and other implementations ignore those. They also ignore a default authorization key, which is not used.
void check_domain(Matcher& match, const fi_info& offered, const fi_info& wanted, uint32_t version) {
  const fi_domain_attr& offer = *offered.domain_attr;
  const fi_domain_attr& hints = *wanted.domain_attr;
  match.same_text("domain_attr->name", hints.name, offer.name);
  if (hints.domain != nullptr && offer.domain != nullptr && hints.domain != offer.domain)
    match.refuse_request("another open domain than {}'s {}", match.name(), offer.name);
  WEFT_ENUMERATION(threading, FI_THREAD_ENDPOINT)
  WEFT_ENUMERATION(control_progress, FI_PROGRESS_CONTROL_UNIFIED)
  WEFT_ENUMERATION(progress, FI_PROGRESS_CONTROL_UNIFIED)
  WEFT_ENUMERATION(resource_mgmt, FI_RM_ENABLED)
  WEFT_ENUMERATION(av_type, FI_AV_TABLE)
  if (concurrency(hints.threading) > concurrency(offer.threading))
    match.refuse_request("domain_attr->threading {}, {} offers {}", static_cast<int>(hints.threading), match.name(),
                         static_cast<int>(offer.threading));
  if (hints.resource_mgmt == FI_RM_ENABLED)
    match.equal("domain_attr->resource_mgmt", FI_RM_ENABLED, offer.resource_mgmt);
  if (offer.av_type != FI_AV_UNSPEC) match.equal("domain_attr->av_type", hints.av_type, offer.av_type);
  check_mr_mode(match, offered, wanted, version);
  // The size of keys is a request only of a caller that chooses keys, which have 64 bits at most.
  const bool uses_keys = ((wanted.caps != 0 ? wanted.caps : offered.caps) & kMemoryCaps) != 0;
  if (uses_keys && (offer.mr_mode & FI_MR_PROV_KEY) == 0 && offer.mr_mode != FI_MR_BASIC)
    match.at_most("domain_attr->mr_key_size", std::min(hints.mr_key_size, sizeof(uint64_t)), offer.mr_key_size);
  WEFT_DOMAIN_LIMIT(cq_data_size)
  if (FI_VERSION_LT(version, FI_VERSION(1, 5))) return;  // the fields below did not exist
  WEFT_EACH(WEFT_DOMAIN_LIMIT, cntr_cnt, mr_iov_limit)
  match.within("domain_attr->caps", hints.caps, offer.caps, names::kCaps);
  match.accepted("domain_attr->mode", offer.mode, hints.mode | wanted.mode, names::kMode);
  if (hints.auth_key_size == FI_AV_AUTH_KEY)
    match.refuse_request("FI_AV_AUTH_KEY, which {} does not offer", match.name());
  WEFT_EACH(WEFT_DOMAIN_LIMIT, max_err_data, mr_cnt)
  if (FI_VERSION_GE(version, FI_VERSION(1, 20)))
    match.at_most("domain_attr->max_ep_auth_key", hints.max_ep_auth_key, offer.max_ep_auth_key);
  if (FI_VERSION_LT(version, FI_VERSION(2, 5))) return;
  WEFT_EACH(WEFT_DOMAIN_LIMIT, max_cntr_value, max_err_cntr_value)
}

uint64_t granted_caps(uint64_t offered, uint64_t asked) noexcept {
  if (asked == 0) return offered;
  uint64_t granted = complete(asked) | kFreeCaps;
  if ((asked & kMemoryCaps) != 0) granted |= kFreeMemoryCaps;
  return offered & granted;
}

template <class Attr>
void apply_direction(Attr& offer, const Attr* hints) noexcept {
  if (hints == nullptr) return;
  offer.caps = granted_caps(offer.caps, hints->caps);
  if (hints->msg_order != 0) offer.msg_order = hints->msg_order;
  if (hints->comp_order != 0) offer.comp_order = hints->comp_order;
  if (hints->size != 0) offer.size = hints->size;
}

void apply_domain(fi_domain_attr& domain, const fi_domain_attr& hints) noexcept {
  if (hints.threading != FI_THREAD_UNSPEC) domain.threading = hints.threading;
  if (hints.control_progress != FI_PROGRESS_UNSPEC) domain.control_progress = hints.control_progress;
  if (hints.progress != FI_PROGRESS_UNSPEC) domain.progress = hints.progress;
  // One service thread makes both kinds of progress.
  if (domain.control_progress == FI_PROGRESS_AUTO || domain.progress == FI_PROGRESS_AUTO)
    domain.control_progress = domain.progress = FI_PROGRESS_AUTO;
  if (hints.av_type != FI_AV_UNSPEC) domain.av_type = hints.av_type;
  if (hints.tclass != FI_TC_UNSPEC) domain.tclass = hints.tclass;
}

void grow(size_t& size, size_t wanted) noexcept {
  size = std::max(size, std::min(wanted, kLongestSoftwareQueue));
}

}  // namespace

Status check_info(const fi_info& offer, uint32_t version, const fi_info* hints, const fi_provider* provider) {
  if (hints == nullptr) return {};
  Matcher match(provider, kGetinfo);
  check_endpoints(match, offer, version, *hints);
  if (hints->domain_attr != nullptr) check_domain(match, offer, *hints, version);
  if (hints->fabric_attr != nullptr) {
    match.same_text("fabric_attr->name", hints->fabric_attr->name, offer.fabric_attr->name);
    match.at_most("fabric_attr->prov_version", hints->fabric_attr->prov_version, offer.fabric_attr->prov_version);
  }
  return match.result();
}

Status check_endpoint(fi_info& offer, uint32_t version, const fi_info& info, const fi_provider& provider) {
  Matcher match(&provider, kEndpoint);
  for (uint64_t* caps : {&offer.caps, &offer.tx_attr->caps, &offer.rx_attr->caps}) *caps |= FI_RMA_PMEM;
  for (uint64_t* order : {&offer.tx_attr->comp_order, &offer.rx_attr->comp_order}) *order |= FI_ORDER_STRICT;
  offer.tx_attr->op_flags |= FI_COMMIT_COMPLETE;
  check_endpoints(match, offer, version, info);
  return match.result();
}

void apply_hints(fi_info& offer, uint32_t version, const fi_info* hints) noexcept {
  fi_domain_attr& domain = *offer.domain_attr;
  const int needed = needed_mr_mode(domain.mr_mode, hints);
  const int wanted = or_none(or_none(hints).domain_attr).mr_mode;
  const bool old = FI_VERSION_LT(version, FI_VERSION(1, 5));
  domain.mr_mode = needed;
  if (is_legacy(wanted) && (old || wanted != FI_MR_UNSPEC)) {
    domain.mr_mode = wanted == FI_MR_UNSPEC ? static_cast<int>(FI_MR_BASIC) : wanted;
    if ((needed & FI_MR_LOCAL) != 0) offer.mode |= FI_LOCAL_MR;
  }
  offer.fabric_attr->api_version = version;
  offer.tx_attr->caps &= kTransmitCaps;
  offer.rx_attr->caps &= kReceiveCaps;
  offer.tx_attr->op_flags = or_none(or_none(hints).tx_attr).op_flags;
  offer.rx_attr->op_flags = or_none(or_none(hints).rx_attr).op_flags;
  if (hints == nullptr) return;

  offer.caps = granted_caps(offer.caps, hints->caps);
  // Programs that do not name capabilities pass any source to fi_recv, mostly 0, which is ignored without this one.
  if (hints->caps == 0 && (or_none(hints->rx_attr).caps & FI_DIRECTED_RECV) == 0) offer.caps &= ~FI_DIRECTED_RECV;
  offer.tx_attr->caps &= offer.caps;
  offer.rx_attr->caps &= offer.caps;
  apply_direction(*offer.tx_attr, hints->tx_attr);
  apply_direction(*offer.rx_attr, hints->rx_attr);
  if (hints->tx_attr != nullptr && hints->tx_attr->tclass != FI_TC_UNSPEC)
    offer.tx_attr->tclass = hints->tx_attr->tclass;
  if (const fi_ep_attr* ep = hints->ep_attr; ep != nullptr) {
    if (ep->tx_ctx_cnt != 0) offer.ep_attr->tx_ctx_cnt = ep->tx_ctx_cnt;
    if (ep->rx_ctx_cnt != 0) offer.ep_attr->rx_ctx_cnt = ep->rx_ctx_cnt;
  }
  if (hints->domain_attr != nullptr) apply_domain(domain, *hints->domain_attr);
}

bool describes_endpoint(const fi_info& info, fi_ep_type type, Shareable shareable) noexcept {
  if (info.ep_attr == nullptr) return true;
  if (info.ep_attr->type != type && info.ep_attr->type != FI_EP_UNSPEC) return false;
  const bool scalable = type == FI_EP_RDM;
  const auto suits = [=](size_t count, bool shared) {
    return count <= 1 || (count == FI_SHARED_CONTEXT ? shared : scalable);
  };
  return suits(info.ep_attr->tx_ctx_cnt, shareable.transmit) && suits(info.ep_attr->rx_ctx_cnt, shareable.receive);
}

void InfoList::add(InfoPtr offer) {
  if (!check_info(*offer, version_, hints_, provider_).ok()) return;
  apply_hints(*offer, version_, hints_);
  fi_info* const added = offer.release();
  if (last_ == nullptr)
    first_.reset(added);
  else
    last_->next = added;
  last_ = added;
}

int InfoList::release_to(fi_info** result) noexcept {
  if (first_ == nullptr) return -FI_ENODATA;
  *result = first_.release();
  return 0;
}

// ---- Offers ----

void describe_domain(fi_domain_attr& attr) noexcept {
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

void adapt_software_offer(fi_info& offer, uint32_t version, const fi_info* hints,
                          const fi_provider& provider) noexcept {
  offer.fabric_attr->api_version = version;
  offer.fabric_attr->prov_version = provider.version;
  if (hints == nullptr) return;
  // FI_SOCKADDR is answered with the family of each address: programs switch on it.
  if (hints->addr_format == FI_SOCKADDR_IP) offer.addr_format = hints->addr_format;
  grow(offer.tx_attr->size, or_none(hints->tx_attr).size);
  grow(offer.rx_attr->size, or_none(hints->rx_attr).size);
}

}  // namespace weft
