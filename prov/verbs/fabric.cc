// SPDX-License-Identifier: BSD-2-Clause
// A verbs fabric, see fabric.h; and the provider's table of calls, fi_provider(7), fi_verbs(7).
#include "verbs/fabric.h"

#include <rdma/providers/fi_log.h>

#include "abi/provider.h"
#include "verbs/device/logging.h"
#include "verbs/discovery/discovery.h"
#include "verbs/transfer/queues.h"

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

Fabric::Fabric(Parameters values, std::unique_ptr<CmEngine> engine, const fi_fabric_attr& attr, void* context) noexcept
    : FabricBase(attr, context, std::move(values), std::move(engine)) {}

}  // namespace weft::verbs
