// SPDX-License-Identifier: BSD-2-Clause
// The tcp provider's entry point; see provider.h.
#include "tcp/provider.h"

#include "tcp/fabric.h"
#include "tcp/parameters.h"

namespace weft::tcp {

fi_provider& provider() noexcept {
  static fi_provider tcp{
      .version = FI_VERSION(FI_MAJOR_VERSION * 100 + FI_MINOR_VERSION, 0),
      .fi_version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION),
      .context = {},
      .name = "tcp",
      .getinfo =
          [](uint32_t version, const char* node, const char* service, uint64_t flags, const fi_info* hints,
             fi_info** info) noexcept {
            try {
              return getinfo(version, node, service, flags, hints, info);
            } catch (...) {
              return error_from_current_exception();
            }
          },
      .fabric =
          [](fi_fabric_attr* attr, fid_fabric** fabric, void* context) noexcept {
            try {
              return Fabric::open(attr, fabric, context);
            } catch (...) {
              return error_from_current_exception();
            }
          },
      .cleanup = [] {},
  };
  return tcp;
}

}  // namespace weft::tcp

extern "C" fi_provider* weft_tcp_ini(void) {
  weft::tcp::Parameters::define();
  return &weft::tcp::provider();
}
