// SPDX-License-Identifier: BSD-2-Clause
// kfi_info to fi_info and back, in both generations.
#include "kfabric/info.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "kfabric/fabric.h"

namespace weft::kfabric {
namespace {

struct Pair {
  uint32_t kfi;
  uint32_t fi;
};

constexpr Pair kMrModes[] = {{1 << 1, FI_MR_LOCAL},    {1 << 2, FI_MR_RAW},       {1 << 3, FI_MR_VIRT_ADDR},
                             {1 << 4, FI_MR_PROV_KEY}, {1 << 5, FI_MR_RMA_EVENT}, {1 << 6, FI_MR_ENDPOINT}};
constexpr Pair kFormats[] = {{KFI_FORMAT_UNSPEC, FI_FORMAT_UNSPEC},
                             {KFI_SOCKADDR, FI_SOCKADDR},
                             {KFI_SOCKADDR_IN, FI_SOCKADDR_IN},
                             {KFI_SOCKADDR_IN6, FI_SOCKADDR_IN6},
                             {KFI_SOCKADDR_IB, FI_SOCKADDR_IB},
                             {KFI_ADDR_GNI, FI_ADDR_GNI},
                             {KFI_ADDR_CXI, FI_ADDR_CXI}};
constexpr Pair kFormatsOf1_1[] = {{KFI_FORMAT_UNSPEC, FI_FORMAT_UNSPEC},
                                  {KFI_SOCKADDR, FI_SOCKADDR},
                                  {KFI_SOCKADDR_IN, FI_SOCKADDR_IN},
                                  {KFI_SOCKADDR_IN6, FI_SOCKADDR_IN6},
                                  {KFI_SOCKADDR_IB, FI_SOCKADDR_IB},
                                  {5, FI_ADDR_PSMX},
                                  {7, FI_ADDR_GNI}};
constexpr Pair kProtocols[] = {{KFI_PROTO_UDP, FI_PROTO_UDP},
                               {KFI_PROTO_SOCK_TCP, FI_PROTO_SOCK_TCP},
                               {KFI_PROTO_IWARP_RDM, FI_PROTO_IWARP_RDM},
                               {KFI_PROTO_IB_RDM, FI_PROTO_IB_RDM},
                               {KFI_PROTO_GNI, FI_PROTO_GNI},
                               {KFI_PROTO_CXI, FI_PROTO_CXI}};
constexpr uint32_t kSameProtocols = KFI_PROTO_IB_UD;          // up to this one the numbers agree
constexpr uint32_t kSameProtocolsOf1_1 = FI_PROTO_GNI;        // in API 1.1
constexpr uint64_t kTaggedMultiRecv = KFI_TAGGED_MULTI_RECV;  // libfabric has it as another bit
// Capabilities with one number in both, without KFI_TRIGGER.
constexpr uint64_t kSameCaps = 0x7Full << 53 | 0xFull << 49 | 0x2Full << 16 | 0x3Full << 8 | 0x3Eull;

// The orders and modes that kfabric has numbers for: libfabric's, which has more.
constexpr uint64_t kOrders = KFI_ORDER_STRICT | KFI_ORDER_DATA;
constexpr uint64_t kModes = 0xFFull << 52;
constexpr uint64_t kModesOf1_1 = 0x1Full << 55;
// Modes that are not granted: memory for each operation, which clients of a kernel do not provide, and lists of pieces
// that outlive a call.
constexpr uint64_t kNotGranted = FI_CONTEXT | FI_CONTEXT2 | FI_ASYNC_IOV;

constexpr uint64_t kDroppedCapsOf1_1 = 1ull << 29 | 1ull << 30;  // KFI_CANCEL, KFI_BUFFERED_RECV

// NULL: kfabric has no number for the format.
const Pair* format_of(uint32_t format, uint32_t Pair::*side, bool is_1_1) {
  const Pair* const formats = is_1_1 ? kFormatsOf1_1 : kFormats;
  const Pair* const end = formats + (is_1_1 ? std::size(kFormatsOf1_1) : std::size(kFormats));
  const Pair* const found = std::find_if(formats, end, [&](const Pair& pair) { return pair.*side == format; });
  return found == end ? nullptr : found;
}

uint32_t lower_protocol(uint32_t protocol, bool is_1_1) {
  if (protocol & KFI_PROV_SPECIFIC || protocol <= (is_1_1 ? kSameProtocolsOf1_1 : kSameProtocols)) {
    return protocol & ~KFI_PROV_SPECIFIC;
  }
  for (const Pair& pair : kProtocols) {
    if (pair.kfi == protocol) return pair.fi;
  }
  return protocol;
}

uint32_t upper_protocol(uint32_t protocol, bool is_1_1) {
  if (protocol <= (is_1_1 ? kSameProtocolsOf1_1 : kSameProtocols)) return protocol;
  for (const Pair& pair : kProtocols) {
    if (pair.fi == protocol && !is_1_1) return pair.kfi;
  }
  return protocol | KFI_PROV_SPECIFIC;
}

int lower_mr_mode(int mode, bool is_1_1) {
  constexpr int kEverything = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY;
  // The pages of a kernel's memory are always present.
  int result = FI_MR_ALLOCATED;
  if (is_1_1) return result | (mode == KFI_MR_SCALABLE ? 0 : kEverything);
  for (const Pair& pair : kMrModes) {
    if (mode & static_cast<int>(pair.kfi)) result |= static_cast<int>(pair.fi);
  }
  return result;
}

uint64_t upper_caps(uint64_t caps) {
  return (caps & kSameCaps) | (caps & FI_TAGGED_MULTI_RECV ? kTaggedMultiRecv : 0);
}

// Copies for the client's info, in malloc's memory.
class Copies {
 public:
  // Memory for one of them ran out.
  bool failed() const { return failed_; }
  template <class T>
  T* make(const T* bytes, size_t size) {
    if (bytes == nullptr || size == 0) return nullptr;
    void* result = std::malloc(size);
    if (result == nullptr) {
      failed_ = true;
    } else {
      std::memcpy(result, bytes, size);
    }
    return static_cast<T*>(result);
  }
  char* make(const char* text) {
    return text == nullptr ? nullptr : make(const_cast<char*>(text), std::strlen(text) + 1);
  }

 private:
  bool failed_ = false;
};

// Allocates what a pointer points to.
template <class T>
void allocate(T*& pointer) {
  pointer = static_cast<T*>(std::calloc(1, sizeof(T)));
}

// Whether an attribute structure has the members that came with API 1.7.
template <class Attr>
concept HasClass = requires(Attr attr) {
  attr.tclass;
};
template <class Attr>
concept HasKey = requires(Attr attr) {
  attr.auth_key;
};

// The members with one name and meaning on both sides, of a transmit or a receive context.
template <class From, class To>
void carry_context(const From& from, To& to) {
  to.op_flags = from.op_flags;
  to.msg_order = from.msg_order & kOrders;
  to.comp_order = from.comp_order & kOrders;
  to.size = from.size;
  to.iov_limit = from.iov_limit;
  if constexpr (requires { from.inject_size; }) {
    to.inject_size = from.inject_size;
    to.rma_iov_limit = from.rma_iov_limit;
    if constexpr (HasClass<From> && HasClass<To>) to.tclass = from.tclass;
  } else {
    to.total_buffered_recv = from.total_buffered_recv;
  }
}

template <class Type, class From, class To>
void carry_endpoint(const From& from, To& to) {
  to.type = static_cast<Type>(from.type);
  to.protocol_version = from.protocol_version;
  to.max_msg_size = from.max_msg_size;
  to.msg_prefix_size = from.msg_prefix_size;
  to.max_order_raw_size = from.max_order_raw_size;
  to.max_order_war_size = from.max_order_war_size;
  to.max_order_waw_size = from.max_order_waw_size;
  to.mem_tag_format = from.mem_tag_format;
  to.tx_ctx_cnt = from.tx_ctx_cnt;
  to.rx_ctx_cnt = from.rx_ctx_cnt;
  if constexpr (HasKey<From> && HasKey<To>) to.auth_key_size = from.auth_key_size;
}

template <class From, class To>
void carry_domain(const From& from, To& to) {
  to.threading = static_cast<decltype(to.threading)>(from.threading);
  to.control_progress = static_cast<decltype(to.control_progress)>(from.control_progress);
  to.data_progress = static_cast<decltype(to.data_progress)>(from.data_progress);
  to.resource_mgmt = static_cast<decltype(to.resource_mgmt)>(from.resource_mgmt);
  to.av_type = static_cast<decltype(to.av_type)>(from.av_type);
  to.mr_key_size = from.mr_key_size;
  to.cq_data_size = from.cq_data_size;
  to.cq_cnt = from.cq_cnt;
  to.ep_cnt = from.ep_cnt;
  to.tx_ctx_cnt = from.tx_ctx_cnt;
  to.rx_ctx_cnt = from.rx_ctx_cnt;
  to.max_ep_tx_ctx = from.max_ep_tx_ctx;
  to.max_ep_rx_ctx = from.max_ep_rx_ctx;
  to.max_ep_stx_ctx = from.max_ep_stx_ctx;
  to.max_ep_srx_ctx = from.max_ep_srx_ctx;
  if constexpr (HasClass<From> && HasClass<To>) {
    to.cntr_cnt = from.cntr_cnt;
    to.mr_iov_limit = from.mr_iov_limit;
    to.auth_key_size = from.auth_key_size;
    to.max_err_data = from.max_err_data;
    to.mr_cnt = from.mr_cnt;
    to.tclass = from.tclass;
  }
}

template <class From, class To>
void carry_info(const From& from, To& to) {
  to.src_addrlen = from.src_addrlen;
  to.dest_addrlen = from.dest_addrlen;
}

uint64_t lower_caps(uint64_t caps, bool is_1_1) {
  return (caps & kSameCaps) | (caps & kTaggedMultiRecv && !is_1_1 ? FI_TAGGED_MULTI_RECV : 0);
}

uint64_t lower_mode(uint64_t mode, bool is_1_1) {
  return mode & (is_1_1 ? kModesOf1_1 : kModes) & ~kNotGranted;
}

int upper_mr_mode(int mode) {
  int result = 0;
  for (const Pair& pair : kMrModes) {
    if (mode & static_cast<int>(pair.fi)) result |= static_cast<int>(pair.kfi);
  }
  return result;
}

template <class Attr, class Lower>
void lower_context(const Attr& attr, Lower& lower, bool is_1_1) {
  carry_context(attr, lower);
  lower.caps = lower_caps(attr.caps, is_1_1);
  lower.mode = lower_mode(attr.mode, is_1_1);
}

kfid* handle_in(const kfi_info& info) {
  return info.handle;
}
kfid* handle_in(const kfi_info_1_1& info) {
  return info.handle != nullptr ? info.handle : info.connreq;
}

}  // namespace

LowerInfo::LowerInfo(const kfi_info& info, bool is_1_1) {
  is_1_1 ? fill(as_1_1(info), true) : fill(info, false);
}

LowerInfo::LowerInfo(const kfi_info_1_1& info) {
  fill(info, true);
}

template <class Info>
void LowerInfo::fill(const Info& info, bool is_1_1) {
  static fid closed{};  // refused by every provider
  carry_info(info, info_);
  info_.mode = lower_mode(info.mode, is_1_1);
  info_.caps = lower_caps(info.caps, is_1_1);
  const uint64_t caps = kSameCaps | kTaggedMultiRecv | (is_1_1 ? kDroppedCapsOf1_1 : 0);
  require(info.caps, caps);
  const Pair* const format = format_of(info.addr_format, &Pair::kfi, is_1_1);
  if (format == nullptr) status_ = -KFI_ENODATA;
  info_.addr_format = format == nullptr ? 0 : format->fi;
  info_.src_addr = info.src_addr;
  info_.dest_addr = info.dest_addr;
  kfid* const handle = handle_in(info);
  request_ = request_of(handle);
  if (request_ != nullptr)
    info_.handle = request_->fi;
  else if (handle != nullptr)
    info_.handle = is_open(handle) ? fi_of(handle) : &closed;
  if (info.tx_attr != nullptr) {
    lower_context(*info.tx_attr, tx_, is_1_1);
    require(info.tx_attr->caps, caps);
    require(info.tx_attr->msg_order | info.tx_attr->comp_order, kOrders);
    info_.tx_attr = &tx_;
  }
  if (info.rx_attr != nullptr) {
    lower_context(*info.rx_attr, rx_, is_1_1);
    require(info.rx_attr->caps, caps);
    require(info.rx_attr->msg_order | info.rx_attr->comp_order, kOrders);
    info_.rx_attr = &rx_;
  }
  if (info.ep_attr != nullptr) {
    carry_endpoint<fi_ep_type>(*info.ep_attr, ep_);
    ep_.protocol = lower_protocol(info.ep_attr->protocol, is_1_1);
    if constexpr (HasKey<decltype(*info.ep_attr)>) ep_.auth_key = info.ep_attr->auth_key;
    info_.ep_attr = &ep_;
  }
  domain_.mr_mode = lower_mr_mode(is_1_1 ? 0 : ~0, is_1_1);
  if (info.domain_attr != nullptr) fill_domain(*info.domain_attr, is_1_1);
  info_.domain_attr = &domain_;
  if (info.fabric_attr != nullptr) fill_fabric(*info.fabric_attr);
}

void LowerInfo::require(uint64_t bits, uint64_t known) {
  if (bits & ~known) status_ = -KFI_ENODATA;
}

template <class Attr>
void LowerInfo::fill_domain(const Attr& attr, bool is_1_1) {
  carry_domain(attr, domain_);
  domain_.mr_mode = lower_mr_mode(attr.mr_mode, is_1_1);
  domain_.name = attr.name;
  if (attr.domain != nullptr) domain_.domain = fi_of(attr.domain);
  if constexpr (HasKey<Attr>) {
    domain_.caps = lower_caps(attr.caps, is_1_1);
    domain_.mode = lower_mode(attr.mode, is_1_1);
    domain_.auth_key = attr.auth_key;
  }
}

template <class Attr>
void LowerInfo::fill_fabric(const Attr& attr) {
  if (attr.fabric != nullptr) fabric_.fabric = fi_of(attr.fabric);
  fabric_.name = attr.name;
  fabric_.prov_name = lower_provider(attr.prov_name);
  fabric_.prov_version = attr.prov_version;
  fabric_.api_version = lower_version();
  info_.fabric_attr = &fabric_;
}

template <class Attr, class Lower>
LowerContext<Attr, Lower>::LowerContext(const Attr* attr, bool is_1_1) {
  if (attr == nullptr) return;
  is_1_1 ? lower_context(as_1_1(*attr), value_, true) : lower_context(*attr, value_, false);
  pointer_ = &value_;
}
template class LowerContext<kfi_tx_attr, fi_tx_attr>;
template class LowerContext<kfi_rx_attr, fi_rx_attr>;

char* lower_provider(char* name) {
  static char verbs[] = "verbs";
  return name != nullptr && std::strcmp(name, "ibverbs") == 0 ? verbs : name;
}

template <class Info>
void release(Info* info) {
  while (info != nullptr) {
    Info* next = info->next;
    std::free(info->src_addr);
    std::free(info->dest_addr);
    std::free(info->tx_attr);
    std::free(info->rx_attr);
    if constexpr (!kIs1_1<Info>) {
      if (info->ep_attr != nullptr) std::free(info->ep_attr->auth_key);
      if (info->domain_attr != nullptr) std::free(info->domain_attr->auth_key);
    }
    std::free(info->ep_attr);
    if (info->domain_attr != nullptr) std::free(info->domain_attr->name);
    std::free(info->domain_attr);
    if (info->fabric_attr != nullptr) {
      std::free(info->fabric_attr->name);
      std::free(info->fabric_attr->prov_name);
    }
    std::free(info->fabric_attr);
    std::free(info);
    info = next;
  }
}

template <class Info>
Info* blank() {
  Info* info = nullptr;
  allocate(info);
  if (info == nullptr) return nullptr;
  allocate(info->tx_attr);
  allocate(info->rx_attr);
  allocate(info->ep_attr);
  allocate(info->domain_attr);
  allocate(info->fabric_attr);
  if (info->tx_attr && info->rx_attr && info->ep_attr && info->domain_attr && info->fabric_attr) return info;
  release(info);
  return nullptr;
}

namespace {

template <class Attr>
void upper_domain(const fi_domain_attr& from, Attr& to, Copies& copies) {
  carry_domain(from, to);
  to.name = copies.make(from.name);
  if (from.domain != nullptr) to.domain = of<kfid_domain>(handle_of(&from.domain->fid));
  if constexpr (HasKey<Attr>) {
    to.caps = upper_caps(from.caps);
    to.mode = from.mode & kModes;
    to.mr_mode = upper_mr_mode(from.mr_mode);
    to.auth_key = copies.make(from.auth_key, from.auth_key_size);
  } else {
    to.mr_mode = from.mr_mode & FI_MR_VIRT_ADDR ? KFI_MR_BASIC : KFI_MR_SCALABLE;
  }
}

// `version` is the one that the client requested.
template <class Attr>
void upper_fabric(const fi_fabric_attr& from, Attr& to, Copies& copies, uint32_t version) {
  if (from.fabric != nullptr) to.fabric = of<kfid_fabric>(handle_of(&from.fabric->fid));
  to.name = copies.make(from.name);
  to.prov_name = copies.make(from.prov_name);
  to.prov_version = from.prov_version;
  if constexpr (requires { to.api_version; }) to.api_version = version;
}

}  // namespace

template <class Info>
Info* upper_info(const fi_info& info, uint32_t version) {
  Copies copies;
  Info* result = blank<Info>();
  if (result == nullptr) return nullptr;
  carry_info(info, *result);
  result->caps = upper_caps(info.caps);
  result->mode = info.mode & kModes;
  const Pair* const format = format_of(info.addr_format, &Pair::fi, kIs1_1<Info>);
  if (format != nullptr) result->addr_format = format->kfi;
  result->src_addr = copies.make(static_cast<char*>(info.src_addr), info.src_addrlen);
  result->dest_addr = copies.make(static_cast<char*>(info.dest_addr), info.dest_addrlen);
  if (info.tx_attr != nullptr) {
    carry_context(*info.tx_attr, *result->tx_attr);
    result->tx_attr->caps = upper_caps(info.tx_attr->caps);
    result->tx_attr->mode = info.tx_attr->mode & kModes;
  }
  if (info.rx_attr != nullptr) {
    carry_context(*info.rx_attr, *result->rx_attr);
    result->rx_attr->caps = upper_caps(info.rx_attr->caps);
    result->rx_attr->mode = info.rx_attr->mode & kModes;
  }
  if (info.ep_attr != nullptr) {
    carry_endpoint<kfi_ep_type>(*info.ep_attr, *result->ep_attr);
    result->ep_attr->protocol = upper_protocol(info.ep_attr->protocol, kIs1_1<Info>);
    if constexpr (!kIs1_1<Info>) {
      result->ep_attr->auth_key = copies.make(info.ep_attr->auth_key, info.ep_attr->auth_key_size);
    }
  }
  if (info.domain_attr != nullptr) upper_domain(*info.domain_attr, *result->domain_attr, copies);
  if (info.fabric_attr != nullptr) upper_fabric(*info.fabric_attr, *result->fabric_attr, copies, version);
  if (!copies.failed()) return result;
  release(result);
  return nullptr;
}

template <class Info>
Info* duplicate(const Info* info) {
  Copies copies;
  Info* result = blank<Info>();
  if (result == nullptr || info == nullptr) return result;
  Info attributes = *result;
  *result = *info;
  result->next = nullptr;
  result->src_addr = copies.make(static_cast<char*>(info->src_addr), info->src_addrlen);
  result->dest_addr = copies.make(static_cast<char*>(info->dest_addr), info->dest_addrlen);
  if (info->tx_attr != nullptr) *attributes.tx_attr = *info->tx_attr;
  if (info->rx_attr != nullptr) *attributes.rx_attr = *info->rx_attr;
  if (info->ep_attr != nullptr) *attributes.ep_attr = *info->ep_attr;
  if (info->domain_attr != nullptr) *attributes.domain_attr = *info->domain_attr;
  if (info->fabric_attr != nullptr) *attributes.fabric_attr = *info->fabric_attr;
  result->tx_attr = attributes.tx_attr;
  result->rx_attr = attributes.rx_attr;
  result->ep_attr = attributes.ep_attr;
  result->domain_attr = attributes.domain_attr;
  result->fabric_attr = attributes.fabric_attr;
  if constexpr (!kIs1_1<Info>) {
    result->ep_attr->auth_key = copies.make(result->ep_attr->auth_key, result->ep_attr->auth_key_size);
    result->domain_attr->auth_key = copies.make(result->domain_attr->auth_key, result->domain_attr->auth_key_size);
  }
  result->domain_attr->name = copies.make(result->domain_attr->name);
  result->fabric_attr->name = copies.make(result->fabric_attr->name);
  result->fabric_attr->prov_name = copies.make(result->fabric_attr->prov_name);
  if (!copies.failed()) return result;
  release(result);
  return nullptr;
}

template kfi_info* blank();
template kfi_info_1_1* blank();
template void release(kfi_info*);
template void release(kfi_info_1_1*);
template kfi_info* duplicate(const kfi_info*);
template kfi_info_1_1* duplicate(const kfi_info_1_1*);
template kfi_info* upper_info(const fi_info&, uint32_t);
template kfi_info_1_1* upper_info(const fi_info&, uint32_t);

bool has_format(uint32_t lower, bool is_1_1) {
  return format_of(lower, &Pair::fi, is_1_1) != nullptr;
}

kfi_info* upper_request(const fi_info& info, bool is_1_1) {
  // The structures have one type for the slots of event queues.
  if (is_1_1) return reinterpret_cast<kfi_info*>(upper_info<kfi_info_1_1>(info, 0));
  return upper_info<kfi_info>(info, KFI_VERSION(1, 7));
}

void set_handle(kfi_info* info, kfid* handle, bool is_1_1) {
  info->handle = handle;  // `connreq` in API 1.1
  if (is_1_1) as_1_1(*info).handle = handle;
}

void free_info(kfi_info* info, bool is_1_1) {
  is_1_1 ? release(reinterpret_cast<kfi_info_1_1*>(info)) : release(info);
}

}  // namespace weft::kfabric
