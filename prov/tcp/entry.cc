// SPDX-License-Identifier: BSD-2-Clause
// The tcp provider's table of calls and its entry point; see entry.h.
#include "tcp/entry.h"

#include "abi/provider.h"
#include "tcp/fabric.h"
#include "tcp/info.h"
#include "tcp/logging.h"
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
