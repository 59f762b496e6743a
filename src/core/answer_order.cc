// SPDX-License-Identifier: BSD-2-Clause
// See answer_order.h. The rules are those of libfabric 2.1, found by comparing the answers to many hints.
#include "core/answer_order.h"

#include <rdma/fi_domain.h>

#include <algorithm>
#include <span>
#include <string_view>

#include "core/name_list.h"

namespace weft::core {
namespace {

std::string_view name_of(const fi_info& info) noexcept {
  return info.fabric_attr->prov_name;
}

std::string_view core_of(const fi_info& info) noexcept {
  return name_of(info).substr(0, name_of(info).find(';'));
}

bool is_layered(const fi_info& info) noexcept {
  return core_of(info) != name_of(info);
}

// Where a core provider has reliable datagrams itself, they come just before those of a layer over it.
void put_own_before_layers(std::span<InfoPtr> all) {
  std::string_view done;
  for (auto layered = all.begin(); layered != all.end(); ++layered) {
    const std::string_view core = core_of(**layered);
    if (!is_layered(**layered) || core == done) continue;
    done = core;
    layered = std::stable_partition(layered, all.end(), [&](const InfoPtr& info) {
      return or_none(info->ep_attr).type == FI_EP_RDM && equal_ignoring_case(name_of(*info), core);
    });
  }
}

uint64_t caps_of(const fi_info& hints) noexcept {
  return hints.caps | or_none(hints.tx_attr).caps | or_none(hints.rx_attr).caps;
}

// Whether weft's tcp serves the hints with this offer, but the reference's does not. For atomic operations, more
// injected bytes and an order of writes after reads the reference has the layer over it; for receives of connections
// that are not shared, and for FI_PROTO_XNET, it has reliable datagrams only.
bool exceeds_tcp(const fi_info& info, const fi_info& hints) noexcept {
  constexpr size_t kInjectSize = 128;
  const fi_ep_attr& wanted = or_none(hints.ep_attr);
  const uint64_t caps = caps_of(hints);
  if ((caps & FI_ATOMIC) != 0 || or_none(hints.tx_attr).inject_size > kInjectSize) return true;
  if ((caps & FI_RMA) != 0 && wanted.max_order_war_size != 0) return true;
  const bool shared = wanted.rx_ctx_cnt == FI_SHARED_CONTEXT;
  if (or_none(info.ep_attr).type == FI_EP_RDM) return shared || wanted.protocol == FI_PROTO_SOCK_TCP;
  return ((caps & FI_TAGGED) != 0 && !shared) || wanted.protocol == FI_PROTO_XNET;
}

// exceeds_tcp() for every offer.
bool exceeds_reference(const fi_info& info, const fi_info& hints) noexcept {
  if (is_layered(info)) {
    return ((hints.caps | or_none(hints.rx_attr).caps) & FI_RMA_EVENT) != 0 ||
           or_none(hints.ep_attr).rx_ctx_cnt == FI_SHARED_CONTEXT;
  }
  const char* const name = or_none(hints.fabric_attr).prov_name;
  if (name != nullptr && *name == '\0') return true;  // to the reference, it names layers
  return equal_ignoring_case(name_of(info), "tcp") && exceeds_tcp(info, hints);
}

// Whether the reference's verbs demands a mode that the hints lack. It demands the modes of remote access for messages,
// too, and FI_MSG_PREFIX for datagrams.
bool demands_more(const fi_info& info, const fi_info& hints) noexcept {
  constexpr int kModes = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  if (!equal_ignoring_case(core_of(info), "verbs")) return false;
  const int allowed = hints.domain_attr != nullptr ? hints.domain_attr->mr_mode : kModes;
  if (is_layered(info)) return allowed == FI_MR_SCALABLE;
  const bool legacy = allowed == FI_MR_UNSPEC || allowed == FI_MR_BASIC;
  if (legacy ? (hints.mode & FI_LOCAL_MR) == 0 : (allowed & kModes) != kModes) return true;
  return or_none(info.ep_attr).type == FI_EP_DGRAM && (hints.mode & FI_MSG_PREFIX) == 0;
}

}  // namespace

// Offers that the reference lacks come after those that it has.
void order_answers(const fi_info* hints, std::vector<InfoPtr>& all) {
  if (hints == nullptr) return put_own_before_layers(all);
  const auto end = std::stable_partition(all.begin(), all.end(),
                                         [&](const InfoPtr& info) { return !exceeds_reference(*info, *hints); });
  put_own_before_layers({all.begin(), end});
  std::stable_partition(all.begin(), all.end(), [&](const InfoPtr& info) { return !demands_more(*info, *hints); });
}

}  // namespace weft::core
