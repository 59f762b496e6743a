// SPDX-License-Identifier: BSD-2-Clause
// The ofi_rxm provider's entry point; see provider.h.
#include "rxm/provider.h"

#include "abi/provider.h"
#include "rxm/fabric.h"
#include "rxm/parameters.h"

namespace weft::rxm {

fi_provider& provider() noexcept {
  static fi_provider rxm = make_provider<Fabric, &getinfo>("ofi_rxm");
  return rxm;
}

}  // namespace weft::rxm

extern "C" fi_provider* weft_rxm_ini(void) {
  weft::rxm::Parameters::define();
  return &weft::rxm::provider();
}
