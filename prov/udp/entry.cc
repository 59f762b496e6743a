// SPDX-License-Identifier: BSD-2-Clause
// The udp provider's table of calls, and how its objects are opened; see entry.h, fi_fabric(3), fi_domain(3),
// fi_endpoint(3). Here alone an object names the class of its children.
#include "udp/entry.h"

#include "abi/provider.h"
#include "udp/domain.h"
#include "udp/endpoint.h"
#include "udp/fabric.h"
#include "udp/logging.h"
#include "udp/parameters.h"

namespace weft::udp {

fi_provider& provider() noexcept {
  static fi_provider udp = make_provider<Fabric, &getinfo>("udp");
  return udp;
}

int Fabric::domain(fi_info* info, fid_domain** domain, void* context) {
  return Domain::open(*this, info, domain, context);
}

int Domain::endpoint(fi_info* info, fid_ep** ep, void* context) {
  return Endpoint::open(*this, info, ep, context);
}

}  // namespace weft::udp

extern "C" fi_provider* weft_udp_ini(void) {
  weft::udp::Parameters::define();
  return &weft::udp::provider();
}
