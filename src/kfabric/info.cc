// SPDX-License-Identifier: BSD-2-Clause
// kfi_info to fi_info and back; kfi_getinfo and its companions.
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
constexpr Pair kProtocols[] = {{KFI_PROTO_UDP, FI_PROTO_UDP},
                               {KFI_PROTO_SOCK_TCP, FI_PROTO_SOCK_TCP},
                               {KFI_PROTO_IWARP_RDM, FI_PROTO_IWARP_RDM},
                               {KFI_PROTO_IB_RDM, FI_PROTO_IB_RDM},
                               {KFI_PROTO_GNI, FI_PROTO_GNI},
                               {KFI_PROTO_CXI, FI_PROTO_CXI}};
constexpr uint32_t kSameProtocols = KFI_PROTO_IB_UD;          // up to this one the numbers agree
constexpr uint32_t kSameProtocolsOf1_1 = FI_PROTO_GNI;        // in API 1.1
constexpr uint64_t kTaggedMultiRecv = KFI_TAGGED_MULTI_RECV;  // libfabric has it as another bit
// Capabilities with one number in both.
constexpr uint64_t kSameCaps = 0x7Full << 53 | 0xFull << 49 | 0x3Full << 16 | 0x3Full << 8 | 0x3Eull;

constexpr uint64_t kDroppedCapsOf1_1 = 1ull << 29 | 1ull << 30;  // KFI_CANCEL, KFI_BUFFERED_RECV

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
  // Memory of a kernel has its pages always.
  int result = FI_MR_ALLOCATED;
  if (is_1_1) return result | (mode == 2 ? 0 : kEverything);  // KFI_MR_SCALABLE
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
  // Without memory for one of them.
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

template <class T>
T* zeroed() {
  return static_cast<T*>(std::calloc(1, sizeof(T)));
}

// The members with one name and meaning on both sides.
template <class From, class To>
void carry_context(const From& from, To& to) {
  to.op_flags = from.op_flags;
  to.mode = from.mode;
  to.msg_order = from.msg_order;
  to.comp_order = from.comp_order;
  to.size = from.size;
  to.iov_limit = from.iov_limit;
}

template <class From, class To>
void carry_transmit(const From& from, To& to) {
  carry_context(from, to);
  to.inject_size = from.inject_size;
  to.rma_iov_limit = from.rma_iov_limit;
  to.tclass = from.tclass;
}

template <class From, class To>
void carry_receive(const From& from, To& to) {
  carry_context(from, to);
  to.total_buffered_recv = from.total_buffered_recv;
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
  to.auth_key_size = from.auth_key_size;
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
  to.cntr_cnt = from.cntr_cnt;
  to.mr_iov_limit = from.mr_iov_limit;
  to.mode = from.mode;
  to.auth_key_size = from.auth_key_size;
  to.max_err_data = from.max_err_data;
  to.mr_cnt = from.mr_cnt;
  to.tclass = from.tclass;
}

template <class From, class To>
void carry_info(const From& from, To& to) {
  to.mode = from.mode;
  to.src_addrlen = from.src_addrlen;
  to.dest_addrlen = from.dest_addrlen;
}

// The modes with FI_CONTEXT need memory of each operation, which clients of a kernel do not give.
constexpr uint64_t kNoModes = ~(FI_CONTEXT | FI_CONTEXT2);

}  // namespace

uint64_t lower_caps(uint64_t caps, bool is_1_1) {
  return (caps & kSameCaps) | (caps & kTaggedMultiRecv && !is_1_1 ? FI_TAGGED_MULTI_RECV : 0);
}

int upper_mr_mode(int mode) {
  int result = 0;
  for (const Pair& pair : kMrModes) {
    if (mode & static_cast<int>(pair.fi)) result |= static_cast<int>(pair.kfi);
  }
  return result;
}

LowerInfo::LowerInfo(const kfi_info& info, bool is_1_1) {
  carry_info(info, info_);
  info_.mode &= kNoModes;
  info_.caps = lower_caps(info.caps, is_1_1);
  if (info.caps & ~(kSameCaps | kTaggedMultiRecv | (is_1_1 ? kDroppedCapsOf1_1 : 0))) status_ = -KFI_ENODATA;
  const auto* format =
      std::find_if(std::begin(kFormats), std::end(kFormats), [&](Pair pair) { return pair.kfi == info.addr_format; });
  if (format == std::end(kFormats)) status_ = -KFI_ENODATA;
  info_.addr_format = format == std::end(kFormats) ? 0 : format->fi;
  info_.src_addr = info.src_addr;
  info_.dest_addr = info.dest_addr;
  if (info.handle != nullptr) {
    info_.handle = info.handle->fclass == KFI_CLASS_CONNREQ ? static_cast<ConnectionRequest*>(info.handle)->fi
                                                            : fi_of(info.handle);
  }
  if (info.tx_attr != nullptr) {
    carry_transmit(*info.tx_attr, tx_);
    tx_.caps = lower_caps(info.tx_attr->caps, is_1_1);
    tx_.mode &= kNoModes;
    info_.tx_attr = &tx_;
  }
  if (info.rx_attr != nullptr) {
    carry_receive(*info.rx_attr, rx_);
    rx_.caps = lower_caps(info.rx_attr->caps, is_1_1);
    rx_.mode &= kNoModes;
    info_.rx_attr = &rx_;
  }
  if (info.ep_attr != nullptr) {
    carry_endpoint<fi_ep_type>(*info.ep_attr, ep_);
    ep_.protocol = lower_protocol(info.ep_attr->protocol, is_1_1);
    ep_.auth_key = info.ep_attr->auth_key;
    info_.ep_attr = &ep_;
  }
  domain_.mr_mode = lower_mr_mode(is_1_1 ? 0 : ~0, is_1_1);
  if (info.domain_attr != nullptr) {
    carry_domain(*info.domain_attr, domain_);
    domain_.caps = lower_caps(info.domain_attr->caps, is_1_1);
    domain_.mr_mode = lower_mr_mode(info.domain_attr->mr_mode, is_1_1);
    domain_.auth_key = info.domain_attr->auth_key;
    domain_.name = info.domain_attr->name;
    if (info.domain_attr->domain != nullptr) domain_.domain = fi_of(info.domain_attr->domain);
  }
  info_.domain_attr = &domain_;
  if (info.fabric_attr != nullptr) {
    const kfi_fabric_attr& fabric = *info.fabric_attr;
    if (fabric.fabric != nullptr) fabric_.fabric = fi_of(fabric.fabric);
    fabric_.name = fabric.name;
    fabric_.prov_name = lower_provider(fabric.prov_name);
    fabric_.prov_version = fabric.prov_version;
    fabric_.api_version = lower_version();
    info_.fabric_attr = &fabric_;
  }
}

char* lower_provider(char* name) {
  static char verbs[] = "verbs";
  return name != nullptr && std::strcmp(name, "ibverbs") == 0 ? verbs : name;
}

kfi_info* upper_info(const fi_info& info, uint32_t api) {
  Copies copies;
  kfi_info* result = kfi_allocinfo();
  if (result == nullptr) return nullptr;
  const bool is_1_1 = api == KFI_VERSION(1, 1);
  carry_info(info, *result);
  result->caps = upper_caps(info.caps);
  for (const Pair& pair : kFormats) {
    if (pair.fi == info.addr_format) result->addr_format = pair.kfi;
  }
  result->src_addr = copies.make(static_cast<char*>(info.src_addr), info.src_addrlen);
  result->dest_addr = copies.make(static_cast<char*>(info.dest_addr), info.dest_addrlen);
  if (info.tx_attr != nullptr) {
    carry_transmit(*info.tx_attr, *result->tx_attr);
    result->tx_attr->caps = upper_caps(info.tx_attr->caps);
  }
  if (info.rx_attr != nullptr) {
    carry_receive(*info.rx_attr, *result->rx_attr);
    result->rx_attr->caps = upper_caps(info.rx_attr->caps);
  }
  if (info.ep_attr != nullptr) {
    carry_endpoint<kfi_ep_type>(*info.ep_attr, *result->ep_attr);
    result->ep_attr->protocol = upper_protocol(info.ep_attr->protocol, is_1_1);
    result->ep_attr->auth_key = copies.make(info.ep_attr->auth_key, info.ep_attr->auth_key_size);
  }
  if (info.domain_attr != nullptr) {
    const fi_domain_attr& domain = *info.domain_attr;
    carry_domain(domain, *result->domain_attr);
    result->domain_attr->caps = upper_caps(domain.caps);
    result->domain_attr->mr_mode = !is_1_1                            ? upper_mr_mode(domain.mr_mode)
                                   : domain.mr_mode & FI_MR_VIRT_ADDR ? 1
                                                                      : 2;  // BASIC, SCALABLE
    result->domain_attr->auth_key = copies.make(domain.auth_key, domain.auth_key_size);
    result->domain_attr->name = copies.make(domain.name);
    if (domain.domain != nullptr) result->domain_attr->domain = of<kfid_domain>(handle_of(&domain.domain->fid));
  }
  if (info.fabric_attr != nullptr) {
    const fi_fabric_attr& fabric = *info.fabric_attr;
    if (fabric.fabric != nullptr) result->fabric_attr->fabric = of<kfid_fabric>(handle_of(&fabric.fabric->fid));
    result->fabric_attr->name = copies.make(fabric.name);
    result->fabric_attr->prov_name = copies.make(fabric.prov_name);
    result->fabric_attr->prov_version = fabric.prov_version;
    result->fabric_attr->api_version = api;
  }
  if (!copies.failed()) return result;
  kfi_freeinfo(result);
  return nullptr;
}

namespace {

// The results of libfabric for a version of kfabric, without those whose addresses kfabric cannot name.
int find(uint32_t api, const char* node, const char* service, uint64_t flags, fi_info* hints, kfi_info** info) {
  fi_info* found = nullptr;
  int result = fi_getinfo(lower_version(), node, service, flags, hints, &found);
  if (result != 0) return result;
  kfi_info** next = info;
  for (fi_info* one = found; one != nullptr && result == 0; one = one->next) {
    const bool named =
        std::any_of(std::begin(kFormats), std::end(kFormats), [&](Pair pair) { return pair.fi == one->addr_format; });
    if (!named) continue;
    *next = upper_info(*one, api);
    if (*next == nullptr) {
      result = -KFI_ENOMEM;
    } else {
      next = &(*next)->next;
    }
  }
  fi_freeinfo(found);
  if (result == 0 && *info == nullptr) result = -KFI_ENODATA;
  if (result != 0) {
    kfi_freeinfo(*info);
    *info = nullptr;
  }
  return result;
}

}  // namespace
}  // namespace weft::kfabric

using namespace weft::kfabric;

KFI_EXPORT int kfi_getinfo(uint32_t version, const char* node, const char* service, uint64_t flags, kfi_info* hints,
                           kfi_info** info) {
  constexpr uint32_t kNewest = KFI_VERSION(1, 7);
  *info = nullptr;
  if (version > kNewest) return -KFI_ENOSYS;
  const uint32_t api = version == 0 ? kNewest : version;
  LowerInfo lower(hints == nullptr ? kfi_info{} : *hints, api == KFI_VERSION(1, 1));
  if (lower.status() != 0) return lower.status();
  // A kernel makes progress by itself and locks; where no provider promises that, reading the queues does it.
  fi_domain_attr& domain = *lower.get()->domain_attr;
  const fi_domain_attr requested = domain;
  domain.control_progress = domain.data_progress = FI_PROGRESS_AUTO;
  domain.threading = FI_THREAD_SAFE;
  int result = find(api, node, service, flags, lower.get(), info);
  if (result != -KFI_ENODATA) return result;
  domain = requested;
  return find(api, node, service, flags, lower.get(), info);
}

KFI_EXPORT kfi_info* kfi_allocinfo() {
  auto* info = zeroed<kfi_info>();
  if (info == nullptr) return nullptr;
  info->tx_attr = zeroed<kfi_tx_attr>();
  info->rx_attr = zeroed<kfi_rx_attr>();
  info->ep_attr = zeroed<kfi_ep_attr>();
  info->domain_attr = zeroed<kfi_domain_attr>();
  info->fabric_attr = zeroed<kfi_fabric_attr>();
  if (info->tx_attr && info->rx_attr && info->ep_attr && info->domain_attr && info->fabric_attr) return info;
  kfi_freeinfo(info);
  return nullptr;
}

KFI_EXPORT kfi_info* kfi_dupinfo(const kfi_info* info) {
  Copies copies;
  kfi_info* result = kfi_allocinfo();
  if (result == nullptr || info == nullptr) return result;
  kfi_info blank = *result;
  *result = *info;
  result->next = nullptr;
  result->src_addr = copies.make(static_cast<char*>(info->src_addr), info->src_addrlen);
  result->dest_addr = copies.make(static_cast<char*>(info->dest_addr), info->dest_addrlen);
  if (info->tx_attr != nullptr) *blank.tx_attr = *info->tx_attr;
  if (info->rx_attr != nullptr) *blank.rx_attr = *info->rx_attr;
  result->tx_attr = blank.tx_attr;
  result->rx_attr = blank.rx_attr;
  if (info->ep_attr != nullptr) *blank.ep_attr = *info->ep_attr;
  result->ep_attr = blank.ep_attr;
  result->ep_attr->auth_key = copies.make(result->ep_attr->auth_key, result->ep_attr->auth_key_size);
  if (info->domain_attr != nullptr) *blank.domain_attr = *info->domain_attr;
  result->domain_attr = blank.domain_attr;
  result->domain_attr->name = copies.make(result->domain_attr->name);
  result->domain_attr->auth_key = copies.make(result->domain_attr->auth_key, result->domain_attr->auth_key_size);
  if (info->fabric_attr != nullptr) *blank.fabric_attr = *info->fabric_attr;
  result->fabric_attr = blank.fabric_attr;
  result->fabric_attr->name = copies.make(result->fabric_attr->name);
  result->fabric_attr->prov_name = copies.make(result->fabric_attr->prov_name);
  if (!copies.failed()) return result;
  kfi_freeinfo(result);
  return nullptr;
}

KFI_EXPORT void kfi_freeinfo(kfi_info* info) {
  while (info != nullptr) {
    kfi_info* next = info->next;
    std::free(info->src_addr);
    std::free(info->dest_addr);
    std::free(info->tx_attr);
    std::free(info->rx_attr);
    if (info->ep_attr != nullptr) std::free(info->ep_attr->auth_key);
    std::free(info->ep_attr);
    if (info->domain_attr != nullptr) {
      std::free(info->domain_attr->name);
      std::free(info->domain_attr->auth_key);
    }
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
