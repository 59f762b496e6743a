// SPDX-License-Identifier: BSD-2-Clause
// See answer_order.h. The rules are those of libfabric 2.1, found by comparing the answers to many hints.
#include "core/answer_order.h"

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <algorithm>
#include <string_view>

#include "core/name_list.h"

namespace weft::core {
namespace {

// Hints for which the reference's core providers have no reliable datagrams, but the layer over them has: atomic
// operations, more injected bytes than they take, an order of writes after reads, and an empty name of a provider.
bool are_for_layers(const fi_info& hints) noexcept {
  constexpr size_t kCoreInjectSize = 128;
  const uint64_t caps = hints.caps | or_none(hints.tx_attr).caps | or_none(hints.rx_attr).caps;
  if ((caps & FI_ATOMIC) != 0 || or_none(hints.tx_attr).inject_size > kCoreInjectSize) return true;
  if ((caps & FI_RMA) != 0 && or_none(hints.ep_attr).max_order_war_size != 0) return true;
  const char* const name = or_none(hints.fabric_attr).prov_name;
  return name != nullptr && *name == '\0';
}

std::string_view name_of(const fi_info& info) noexcept {
  return info.fabric_attr->prov_name;
}

std::string_view core_of(const fi_info& info) noexcept {
  return name_of(info).substr(0, name_of(info).find(';'));
}

// Where a core provider has reliable datagrams itself, they come just before those of a layer over it.
void put_own_before_layers(std::vector<InfoPtr>& all) {
  std::string_view done;
  for (auto layered = all.begin(); layered != all.end(); ++layered) {
    const std::string_view core = core_of(**layered);
    if (core == name_of(**layered) || core == done) continue;
    done = core;
    layered = std::stable_partition(layered, all.end(), [&](const InfoPtr& info) {
      return or_none(info->ep_attr).type == FI_EP_RDM && equal_ignoring_case(name_of(*info), core);
    });
  }
}

// Whether the reference's verbs demands a mode that the hints lack. It demands the modes of remote access for messages,
// too, and FI_MSG_PREFIX for datagrams.
bool demands_more(const fi_info& info, const fi_info& hints) noexcept {
  constexpr int kModes = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  if (!equal_ignoring_case(core_of(info), "verbs")) return false;
  const int allowed = hints.domain_attr != nullptr ? hints.domain_attr->mr_mode : kModes;
  if (core_of(info) != name_of(info)) return allowed == FI_MR_SCALABLE;
  const bool legacy = allowed == FI_MR_UNSPEC || allowed == FI_MR_BASIC;
  if (legacy ? (hints.mode & FI_LOCAL_MR) == 0 : (allowed & kModes) != kModes) return true;
  return or_none(info.ep_attr).type == FI_EP_DGRAM && (hints.mode & FI_MSG_PREFIX) == 0;
}

}  // namespace

void order_answers(const fi_info* hints, std::vector<InfoPtr>& all) {
  if (hints == nullptr || !are_for_layers(*hints)) put_own_before_layers(all);
  if (hints == nullptr) return;
  std::stable_partition(all.begin(), all.end(), [&](const InfoPtr& info) { return !demands_more(*info, *hints); });
}

}  // namespace weft::core
