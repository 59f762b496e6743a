// SPDX-License-Identifier: BSD-2-Clause
// A udp domain; see domain.h.
#include "udp/domain.h"

#include "udp/endpoint.h"

namespace weft::udp {

int Domain::endpoint(fi_info* info, fid_ep** ep, void* context) {
  return Endpoint::open(*this, info, ep, context);
}

}  // namespace weft::udp
