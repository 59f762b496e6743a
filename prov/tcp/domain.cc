// SPDX-License-Identifier: BSD-2-Clause
// A tcp domain; see domain.h.
#include "tcp/domain.h"

#include "tcp/endpoint.h"
#include "tcp/reliable_endpoint.h"
#include "tcp/shared_receive.h"

namespace weft::tcp {

int Domain::endpoint(fi_info* info, fid_ep** ep, void* context) {
  if (info != nullptr && info->ep_attr != nullptr && info->ep_attr->type == FI_EP_RDM)
    return ReliableEndpoint::open(*this, info, ep, context);
  return Endpoint::open(*this, info, ep, context);
}

int Domain::srx_ctx(fi_rx_attr* attr, fid_ep** ep, void* context) {
  return ep == nullptr ? -FI_EINVAL : SharedReceive::open(*this, attr, ep, context);
}

}  // namespace weft::tcp
