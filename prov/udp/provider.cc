// SPDX-License-Identifier: BSD-2-Clause
// The udp provider's entry point; see provider.h.
#include "udp/provider.h"

#include "abi/provider.h"
#include "udp/fabric.h"
#include "udp/parameters.h"

namespace weft::udp {

fi_provider& provider() noexcept {
  static fi_provider udp = make_provider<Fabric, &getinfo>("udp");
  return udp;
}

}  // namespace weft::udp

extern "C" fi_provider* weft_udp_ini(void) {
  weft::udp::Parameters::define();
  return &weft::udp::provider();
}
