// SPDX-License-Identifier: BSD-2-Clause
// A libfabric.so.1 loaded by path; see fabric_library.h.
#include "fabric/fabric_library.h"

#include <dlfcn.h>

#include <cstdlib>

#include "process/process_pair.h"

namespace bench {
namespace {

template <class Function>
void resolve(void* library, const char* name, const char* version, Function*& out) {
  out = reinterpret_cast<Function*>(dlvsym(library, name, version));
  if (out == nullptr) fail(dlerror());
}

}  // namespace

FabricLibrary::FabricLibrary(const std::string& path, const std::string& plugins) {
  if (!plugins.empty()) setenv("FI_PROVIDER_PATH", plugins.c_str(), 1);
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fail(dlerror());
  resolve(library, "fi_getinfo", "FABRIC_1.3", getinfo);
  resolve(library, "fi_dupinfo", "FABRIC_1.3", dupinfo);
  resolve(library, "fi_freeinfo", "FABRIC_1.3", freeinfo);
  resolve(library, "fi_fabric", "FABRIC_1.1", fabric);
  resolve(library, "fi_strerror", "FABRIC_1.0", strerror);
}

}  // namespace bench
