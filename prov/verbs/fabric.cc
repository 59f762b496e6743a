// SPDX-License-Identifier: BSD-2-Clause
// A verbs fabric, see fabric.h; and the provider's table of calls, fi_provider(7), fi_verbs(7).
#include "verbs/fabric.h"

#include <rdma/providers/fi_log.h>

#include "abi/provider.h"
#include "verbs/connection/passive_endpoint.h"
#include "verbs/device/logging.h"
#include "verbs/discovery/discovery.h"
#include "verbs/domain.h"

namespace weft::verbs {

fi_provider& provider() noexcept {
  static fi_provider verbs = make_provider<Fabric, &getinfo>("verbs");
  return verbs;
}

Result<Fabric*> Fabric::make(const fi_fabric_attr& attr, void* context) {
  Parameters parameters = Parameters::read();
  auto engine = CmEngine::open(parameters.max_connecting);
  if (!engine) {
    FI_WARN(&provider(), FI_LOG_FABRIC, "cannot open the RDMA connection manager: %s\n",
            fi_strerror(engine.error().error()));
    return failure(engine.error());
  }
  return new Fabric(std::move(parameters), std::move(*engine), attr, context);
}

int Fabric::domain(fi_info* info, fid_domain** domain, void* context) {
  return Domain::open(*this, info, domain, context);
}

int Fabric::passive_ep(fi_info* info, fid_pep** pep, void* context) {
  return PassiveEndpoint::open(*this, info, pep, context);
}

}  // namespace weft::verbs
