// SPDX-License-Identifier: BSD-2-Clause
// The calls for applications linked against earlier releases: the same names at earlier version nodes, which take the
// smaller structures of those releases; fabric(7) ABI CHANGES. Results need no conversion: the library allocates them
// in full size and an old application reads only the front of each structure.
// Only the shared library contains this file; libfabric.map lists the nodes.
#include <cstring>

#include "core/abi_layout.h"
#include "core/boundary.h"

// Binds `function` to `symbol` ("name@NODE"). GCC needs the attribute when it optimises at link time; clang has none.
#if defined(__has_attribute) && __has_attribute(symver)
#define WEFT_AT(function, symbol) __attribute__((symver(symbol)))
#else
#define WEFT_AT(function, symbol)            \
  __asm__(".symver " #function ", " symbol); \
  __attribute__((used))
#endif

using weft::core::UpgradedInfo;

#define WEFT_GETINFO_AT(node, layout)                                                                            \
  WEFT_EXPORT int weft_getinfo_##layout(uint32_t version, const char* name, const char* service, uint64_t flags, \
                                        const fi_info* hints, fi_info** info);                                   \
  WEFT_AT(weft_getinfo_##layout, "fi_getinfo@" node)                                                             \
  int weft_getinfo_##layout(uint32_t version, const char* name, const char* service, uint64_t flags,             \
                            const fi_info* hints, fi_info** info) {                                              \
    return fi_getinfo(version, name, service, flags, UpgradedInfo(hints, weft::core::layout).get(), info);       \
  }                                                                                                              \
  WEFT_EXPORT fi_info* weft_dupinfo_##layout(const fi_info* info);                                               \
  WEFT_AT(weft_dupinfo_##layout, "fi_dupinfo@" node)                                                             \
  fi_info* weft_dupinfo_##layout(const fi_info* info) {                                                          \
    return fi_dupinfo(UpgradedInfo(info, weft::core::layout).get());                                             \
  }                                                                                                              \
  WEFT_EXPORT void weft_freeinfo_##layout(fi_info* info);                                                        \
  WEFT_AT(weft_freeinfo_##layout, "fi_freeinfo@" node)                                                           \
  void weft_freeinfo_##layout(fi_info* info) {                                                                   \
    fi_freeinfo(info);                                                                                           \
  }

WEFT_GETINFO_AT("FABRIC_1.0", kAbi1_0)
WEFT_GETINFO_AT("FABRIC_1.1", kAbi1_1)
WEFT_GETINFO_AT("FABRIC_1.2", kAbi1_2)
WEFT_GETINFO_AT("FABRIC_1.3", kAbi1_3)
WEFT_GETINFO_AT("FABRIC_1.7", kAbi1_7)
WEFT_GETINFO_AT("FABRIC_1.8", kAbi1_8)
WEFT_GETINFO_AT("FABRIC_1.9", kAbi1_9)

// fi_fabric_attr of that release has no api_version, and its callers are written for API 1.0.
WEFT_EXPORT int weft_fabric_1_0(fi_fabric_attr* attr, fid_fabric** fabric, void* context);
WEFT_AT(weft_fabric_1_0, "fi_fabric@FABRIC_1.0")
int weft_fabric_1_0(fi_fabric_attr* attr, fid_fabric** fabric, void* context) {
  if (attr == nullptr) return -FI_EINVAL;
  fi_fabric_attr current{};
  std::memcpy(&current, attr, weft::core::kAbi1_0.fabric);
  current.api_version = FI_VERSION(1, 0);
  return fi_fabric(&current, fabric, context);
}
