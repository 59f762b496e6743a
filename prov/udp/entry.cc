// SPDX-License-Identifier: BSD-2-Clause
// The udp provider's table of calls and its entry point; see entry.h.
#include "udp/entry.h"

#include "abi/provider.h"
#include "udp/fabric.h"
#include "udp/info.h"
#include "udp/logging.h"
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
