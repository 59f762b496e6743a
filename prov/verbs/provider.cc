// SPDX-License-Identifier: BSD-2-Clause
// The verbs provider's entry point; see provider.h.
#include "verbs/provider.h"

#include "abi/provider.h"
#include "verbs/fabric.h"

namespace weft::verbs {

fi_provider& provider() noexcept {
  static fi_provider verbs = make_provider<Fabric, &getinfo>("verbs");
  return verbs;
}

}  // namespace weft::verbs
