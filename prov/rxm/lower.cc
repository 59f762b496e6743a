// SPDX-License-Identifier: BSD-2-Clause
// The provider below; see lower.h.
#include "rxm/lower.h"

#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include <cstdlib>
#include <utility>

#include "rxm/limits.h"

namespace weft::rxm {
namespace {

// Restricts fi_getinfo to core providers. All implementations of the library and of layered providers agree on these
// flags.
constexpr uint64_t kCoresOnly = (uint64_t{1} << 59) | (uint64_t{1} << 58);

// Attributes are optional for plug-ins.
bool is_complete(const fi_info& info) noexcept {
  return info.tx_attr != nullptr && info.rx_attr != nullptr && info.ep_attr != nullptr && info.domain_attr != nullptr;
}

}  // namespace

std::string lower_name(std::string_view prov_name) {
  const size_t end = prov_name.rfind(';');
  return std::string(end == std::string_view::npos ? prov_name : prov_name.substr(0, end));
}

InfoPtr lower_hints(uint32_t version, const fi_info* hints) {
  InfoPtr lower(allocate_info());
  if (lower == nullptr) return lower;
  lower->caps = FI_MSG | FI_RMA;
  // FI_RX_CQ_DATA: a receive is always posted, which a remote write with data may consume.
  lower->mode = FI_CONTEXT | FI_CONTEXT2 | FI_LOCAL_MR | FI_RX_CQ_DATA;
  lower->ep_attr->type = FI_EP_MSG;
  lower->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  if (hints == nullptr) return lower;
  lower->addr_format = hints->addr_format;
  if ((hints->caps & FI_HMEM) != 0) {
    lower->caps |= FI_HMEM;
    lower->domain_attr->mr_mode |= FI_MR_HMEM;
  }
  if (hints->tx_attr != nullptr) lower->tx_attr->op_flags = hints->tx_attr->op_flags & kLowerLevels;
  if (const fi_domain_attr* domain = hints->domain_attr; domain != nullptr) {
    lower->domain_attr->threading = domain->threading == FI_THREAD_SAFE ? FI_THREAD_SAFE : FI_THREAD_UNSPEC;
    if (domain->name != nullptr && !set_name(lower->domain_attr->name, domain->name)) return nullptr;
    // Offsets and keys of the application's choice must be supported by the lower provider.
    // An old program that names no mode requests FI_MR_BASIC.
    const bool old = FI_VERSION_LT(version, FI_VERSION(1, 5));
    const int asked = old && domain->mr_mode == FI_MR_UNSPEC ? static_cast<int>(FI_MR_BASIC) : domain->mr_mode;
    const bool registers = (hints->caps & (FI_RMA | FI_ATOMIC)) != 0 && !only_initiates(hints->caps, asked);
    if (registers && asked == FI_MR_BASIC) lower->domain_attr->mr_mode = FI_MR_BASIC;
    if (registers && asked != FI_MR_BASIC && (asked & FI_MR_PROV_KEY) == 0)
      lower->domain_attr->mr_mode = asked == FI_MR_SCALABLE ? FI_MR_LOCAL : (asked & ~FI_MR_SCALABLE) | FI_MR_LOCAL;
  }
  if (const fi_fabric_attr* fabric = hints->fabric_attr; fabric != nullptr)
    if ((fabric->prov_name != nullptr && !set_name(lower->fabric_attr->prov_name, fabric->prov_name)) ||
        (fabric->name != nullptr && !set_name(lower->fabric_attr->name, fabric->name)))
      return nullptr;
  const bool copied = (hints->src_addr == nullptr || hints->src_addrlen == 0 ||
                       set_address(lower->src_addr, lower->src_addrlen, hints->src_addr, hints->src_addrlen)) &&
                      (hints->dest_addr == nullptr || hints->dest_addrlen == 0 ||
                       set_address(lower->dest_addr, lower->dest_addrlen, hints->dest_addr, hints->dest_addrlen));
  if (!copied) return nullptr;
  return lower;
}

Result<InfoPtr> find_lower(uint32_t version, const char* node, const char* service, uint64_t flags,
                           const fi_info* hints) {
  fi_info* list = nullptr;
  if (const int error = fi_getinfo(lower_version(version), node, service, flags | kCoresOnly, hints, &list); error != 0)
    return failure(Status(error));
  for (fi_info** place = &list; *place != nullptr;) {
    if (is_complete(**place))
      place = &(*place)->next;
    else
      free_info(std::exchange(*place, std::exchange((*place)->next, nullptr)));
  }
  if (list == nullptr) return failure(FI_ENODATA);
  return InfoPtr(list);
}

Result<InfoPtr> lower_of(const fi_info& info, uint32_t version) {
  InfoPtr hints = lower_hints(version, &info);
  if (hints == nullptr) return failure(FI_ENOMEM);
  std::free(std::exchange(hints->dest_addr, nullptr));
  hints->dest_addrlen = 0;
  hints->addr_format = info.addr_format;
  Result<InfoPtr> found = failure(FI_ENODATA);
  for (const uint64_t levels : {kLowerLevels, uint64_t{0}}) {
    for (const std::size_t inject_size : {kEagerPacket, kShortPacket, std::size_t{0}}) {
      if (found) break;
      hints->tx_attr->op_flags = levels;
      hints->tx_attr->inject_size = inject_size;
      found = find_lower(version, nullptr, nullptr, 0, hints.get());
    }
  }
  if (!found) return found;
  (*found)->tx_attr->op_flags &= kLowerLevels;
  free_info(std::exchange((*found)->next, nullptr));
  return found;
}

}  // namespace weft::rxm
