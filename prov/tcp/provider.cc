// SPDX-License-Identifier: BSD-2-Clause
// The tcp provider's entry point; see provider.h.
#include "tcp/provider.h"

#include "abi/provider.h"
#include "tcp/fabric.h"
#include "tcp/parameters.h"

namespace weft::tcp {

fi_provider& provider() noexcept {
  static fi_provider tcp = make_provider<Fabric, &getinfo>("tcp");
  return tcp;
}

}  // namespace weft::tcp

extern "C" fi_provider* weft_tcp_ini(void) {
  weft::tcp::Parameters::define();
  return &weft::tcp::provider();
}
