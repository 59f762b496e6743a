// SPDX-License-Identifier: BSD-2-Clause
// The udp provider's entry point; see provider.h.
#include "udp/provider.h"

#include "udp/fabric.h"
#include "udp/parameters.h"

namespace weft::udp {

fi_provider& provider() noexcept {
  static fi_provider udp{
      .version = FI_VERSION(FI_MAJOR_VERSION * 100 + FI_MINOR_VERSION, 0),
      .fi_version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION),
      .context = {},
      .name = "udp",
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
  return udp;
}

}  // namespace weft::udp

extern "C" fi_provider* weft_udp_ini(void) {
  weft::udp::Parameters::define();
  return &weft::udp::provider();
}
