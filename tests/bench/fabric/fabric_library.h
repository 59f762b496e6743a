// SPDX-License-Identifier: BSD-2-Clause
// One libfabric.so.1, loaded by path, so that the same program measures every build of it. Symbols have the version
// nodes of release 1.17 (fi_getinfo@FABRIC_1.3), and later fields are not used: see fi_getinfo(3), fi_fabric(3).
#pragma once

#include <rdma/fabric.h>

#include <string>

namespace bench {

inline constexpr std::uint32_t kApiVersion = FI_VERSION(1, 17);

struct FabricLibrary {
  // Stays loaded until the process ends. `plugins`: the folder of provider plug-ins, if it is not the default.
  FabricLibrary(const std::string& path, const std::string& plugins);

  int (*getinfo)(std::uint32_t version, const char* node, const char* service, std::uint64_t flags,
                 const fi_info* hints, fi_info** info);
  fi_info* (*dupinfo)(const fi_info* info);  // nullptr: returns an empty fi_info
  void (*freeinfo)(fi_info* info);
  int (*fabric)(fi_fabric_attr* attr, fid_fabric** fabric, void* context);
  const char* (*strerror)(int error);
};

}  // namespace bench
