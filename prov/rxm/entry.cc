// SPDX-License-Identifier: BSD-2-Clause
// The table of calls of the built-in ofi_rxm provider, reliable datagrams (FI_EP_RDM) over the connected endpoints
// (FI_EP_MSG) of any other provider, and its entry point; fi_provider(7), fi_rxm(7).
#include "rxm/entry.h"

#include "abi/provider.h"
#include "rxm/fabric.h"
#include "rxm/info.h"
#include "rxm/logging.h"

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
