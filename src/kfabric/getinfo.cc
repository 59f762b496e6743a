// SPDX-License-Identifier: BSD-2-Clause
// kfi_getinfo and its companions, in both generations: fi_getinfo(3).
#include "kfabric/fabric.h"

namespace weft::kfabric {
namespace {

// The results of libfabric for a generation, without those whose addresses it cannot name.
template <class Info>
int find(uint32_t version, const char* node, const char* service, uint64_t flags, fi_info* hints, Info** info) {
  fi_info* found = nullptr;
  int result = fi_getinfo(lower_version(), node, service, flags, hints, &found);
  if (result != 0) return result;
  Info** next = info;
  for (fi_info* one = found; one != nullptr && result == 0; one = one->next) {
    if (!has_format(one->addr_format, kIs1_1<Info>)) continue;
    *next = upper_info<Info>(*one, version);
    if (*next == nullptr) {
      result = -KFI_ENOMEM;
    } else {
      next = &(*next)->next;
    }
  }
  fi_freeinfo(found);
  if (result == 0 && *info == nullptr) result = -KFI_ENODATA;
  if (result != 0) {
    release(*info);
    *info = nullptr;
  }
  return result;
}

template <class Info>
int search(uint32_t version, const char* node, const char* service, uint64_t flags, const Info* hints, Info** info) {
  constexpr uint32_t kNewest = kIs1_1<Info> ? KFI_VERSION(1, 1) : KFI_VERSION(1, 7);
  *info = nullptr;
  if (version > kNewest) return -KFI_ENOSYS;
  if (version == 0) version = kNewest;
  const Info none{};
  LowerInfo lower(hints == nullptr ? none : *hints);
  if (lower.status() != 0) return lower.status();
  // In a kernel, objects lock and make progress by themselves. If no provider offers that, reading the queues makes
  // progress.
  fi_domain_attr& domain = *lower.get()->domain_attr;
  const fi_domain_attr requested = domain;
  domain.control_progress = domain.data_progress = FI_PROGRESS_AUTO;
  domain.threading = FI_THREAD_SAFE;
  int result = find(version, node, service, flags, lower.get(), info);
  if (result != -KFI_ENODATA) return result;
  domain = requested;
  return find(version, node, service, flags, lower.get(), info);
}

// The text of a part of an info: libfabric's numbers and members differ.
template <class Info>
char* text_of(const void* data, kfi_type type) {
  Info info{};
  std::remove_pointer_t<decltype(info.ep_attr)> endpoint{};
  std::remove_pointer_t<decltype(info.domain_attr)> domain{};
  const auto put = [&](auto*& attr) {
    attr = static_cast<std::remove_reference_t<decltype(attr)>>(const_cast<void*>(data));
  };
  switch (type) {
    case KFI_TYPE_INFO:
      return fi_tostr(LowerInfo(*static_cast<const Info*>(data)).get(), FI_TYPE_INFO);
    case KFI_TYPE_TX_ATTR:
      put(info.tx_attr);
      return fi_tostr(LowerInfo(info).get()->tx_attr, FI_TYPE_TX_ATTR);
    case KFI_TYPE_RX_ATTR:
      put(info.rx_attr);
      return fi_tostr(LowerInfo(info).get()->rx_attr, FI_TYPE_RX_ATTR);
    case KFI_TYPE_EP_ATTR:
      put(info.ep_attr);
      return fi_tostr(LowerInfo(info).get()->ep_attr, FI_TYPE_EP_ATTR);
    case KFI_TYPE_DOMAIN_ATTR:
      put(info.domain_attr);
      return fi_tostr(LowerInfo(info).get()->domain_attr, FI_TYPE_DOMAIN_ATTR);
    case KFI_TYPE_FABRIC_ATTR:
      put(info.fabric_attr);
      return fi_tostr(LowerInfo(info).get()->fabric_attr, FI_TYPE_FABRIC_ATTR);
    case KFI_TYPE_CAPS:
      info.caps = *static_cast<const uint64_t*>(data);
      return fi_tostr(&LowerInfo(info).get()->caps, FI_TYPE_CAPS);
    case KFI_TYPE_ADDR_FORMAT:
      info.addr_format = *static_cast<const uint32_t*>(data);
      return fi_tostr(&LowerInfo(info).get()->addr_format, FI_TYPE_ADDR_FORMAT);
    case KFI_TYPE_PROTOCOL:
      endpoint.protocol = *static_cast<const uint32_t*>(data);
      info.ep_attr = &endpoint;
      return fi_tostr(&LowerInfo(info).get()->ep_attr->protocol, FI_TYPE_PROTOCOL);
    case KFI_TYPE_MR_MODE:
      domain.mr_mode = *static_cast<const decltype(domain.mr_mode)*>(data);
      info.domain_attr = &domain;
      return fi_tostr(&LowerInfo(info).get()->domain_attr->mr_mode, FI_TYPE_MR_MODE);
    default:
      return fi_tostr(data, static_cast<fi_type>(type));
  }
}

}  // namespace
}  // namespace weft::kfabric

using namespace weft::kfabric;

KFI_EXPORT int kfi_getinfo(uint32_t version, const char* node, const char* service, uint64_t flags, kfi_info* hints,
                           kfi_info** info) {
  return search(version, node, service, flags, hints, info);
}
KFI_EXPORT int kfi_getinfo_1_1(uint32_t version, kfi_info_1_1* hints, kfi_info_1_1** info) {
  return search(version, nullptr, nullptr, 0, hints, info);
}
KFI_EXPORT kfi_info* kfi_allocinfo() {
  return blank<kfi_info>();
}
KFI_EXPORT kfi_info_1_1* kfi_allocinfo_1_1() {
  return blank<kfi_info_1_1>();
}
KFI_EXPORT kfi_info* kfi_dupinfo(const kfi_info* info) {
  return duplicate(info);
}
KFI_EXPORT kfi_info_1_1* kfi_dupinfo_1_1(const kfi_info_1_1* info) {
  return duplicate(info);
}
KFI_EXPORT void kfi_freeinfo(kfi_info* info) {
  release(info);
}
KFI_EXPORT void kfi_freeinfo_1_1(kfi_info_1_1* info) {
  release(info);
}
KFI_EXPORT char* kfi_tostr(const void* data, kfi_type datatype) {
  return text_of<kfi_info>(data, datatype);
}
KFI_EXPORT char* kfi_tostr_1_1(const void* data, kfi_type datatype) {
  return text_of<kfi_info_1_1>(data, datatype);
}
