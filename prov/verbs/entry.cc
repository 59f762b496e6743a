// SPDX-License-Identifier: BSD-2-Clause
// The verbs provider's table of calls; fi_provider(7), fi_verbs(7). The module's one export, fi_prov_ini, returns it.
#include "abi/provider.h"
#include "verbs/device/logging.h"
#include "verbs/discovery/info.h"
#include "verbs/fabric.h"

namespace weft::verbs {

fi_provider& provider() noexcept {
  static fi_provider verbs = make_provider<Fabric, &getinfo>("verbs");
  return verbs;
}

}  // namespace weft::verbs
