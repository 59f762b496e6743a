// SPDX-License-Identifier: BSD-2-Clause
// The parts that providers' offers have in common; see offer.h.
#include "objects/offer.h"

#include <rdma/fi_domain.h>

#include <algorithm>

namespace weft {
namespace {

void grow(size_t& size, size_t wanted) noexcept {
  size = std::max(size, std::min(wanted, kLongestSoftwareQueue));
}

}  // namespace

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
  if (hints->tx_attr != nullptr) grow(offer.tx_attr->size, hints->tx_attr->size);
  if (hints->rx_attr != nullptr) grow(offer.rx_attr->size, hints->rx_attr->size);
}

}  // namespace weft
