// SPDX-License-Identifier: BSD-2-Clause
// fi_fabric, fi_fabric2, fi_version; fi_fabric(3), fi_version(3), fi_hook(7).
#include <rdma/fi_errno.h>

#include <string>

#include "core/boundary.h"
#include "core/core_provider.h"
#include "core/state.h"

namespace weft::core {
namespace {

// A hook of FI_HOOK, by its full name or without "ofi_hook_". It gets the fabric to wrap in attr->fabric.
void install_hook(std::string_view name, const fi_fabric_attr& attr, fid_fabric*& fabric, void* context) {
  const Registry& registry = state().registry;
  const Provider* hook = registry.find("ofi_hook_" + std::string(name));
  if (hook == nullptr) hook = registry.find(name);
  const auto size = static_cast<int>(name.size());
  if (hook == nullptr || hook->kind != ProviderKind::kHook) {
    FI_WARN(&core_provider(), FI_LOG_CORE, "FI_HOOK: %.*s %s; going on without it\n", size, name.data(),
            hook == nullptr ? "does not exist" : "is not a hook");
    return;
  }
  fi_fabric_attr wrapped = attr;
  wrapped.fabric = fabric;
  fid_fabric* outer = nullptr;
  if (const int error = hook->abi->fabric(&wrapped, &outer, context); error != 0) {
    FI_WARN(&core_provider(), FI_LOG_CORE, "FI_HOOK: %.*s failed: %s; going on without it\n", size, name.data(),
            fi_strerror(-error));
    return;
  }
  outer->api_version = fabric->api_version;
  fabric = outer;
}

int open_fabric(fi_fabric_attr* attr, fid_fabric** result, void* context) {
  if (attr == nullptr || result == nullptr || attr->prov_name == nullptr || attr->name == nullptr) return -FI_EINVAL;
  Registry& registry = state().registry;
  registry.load();
  const std::string_view layers = attr->prov_name;
  const std::string_view name = layers.substr(layers.rfind(';') + 1);  // npos + 1 is 0
  const Provider* provider = registry.find(name);
  if (provider == nullptr) {
    FI_WARN(&core_provider(), FI_LOG_CORE, "fi_fabric: there is no provider %.*s\n", static_cast<int>(name.size()),
            name.data());
    return -FI_ENODEV;
  }
  fid_fabric* fabric = nullptr;
  if (const int error = provider->abi->fabric(attr, &fabric, context); error != 0) return error;
  // The member is younger than API 1.5; older providers allocate without it.
  if (FI_VERSION_GE(provider->abi->fi_version, FI_VERSION(1, 5))) fabric->api_version = attr->api_version;
  FI_INFO(&core_provider(), FI_LOG_CORE, "opened fabric %s of provider %s\n", attr->name, attr->prov_name);
  if (const char* hooks = state().parameters.text("FI_HOOK")) {
    for (const std::string_view hook : split(hooks, ';')) {
      if (!hook.empty()) install_hook(hook, *attr, fabric, context);
    }
  }
  *result = fabric;
  return 0;
}

}  // namespace
}  // namespace weft::core

using namespace weft::core;

WEFT_EXPORT uint32_t fi_version(void) {
  return FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);
}

WEFT_EXPORT int fi_fabric(fi_fabric_attr* attr, fid_fabric** fabric, void* context) {
  return guarded([&] { return open_fabric(attr, fabric, context); });
}

WEFT_EXPORT int fi_fabric2(fi_info* info, fid_fabric** fabric, uint64_t flags, void* context) {
  return guarded([&] {
    if (info == nullptr || flags != 0) return -FI_EINVAL;
    return open_fabric(info->fabric_attr, fabric, context);
  });
}
