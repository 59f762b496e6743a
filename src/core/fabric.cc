// SPDX-License-Identifier: BSD-2-Clause
// fi_fabric, fi_fabric2, fi_version; fi_fabric(3), fi_version(3), fi_hook(7).
#include <rdma/fi_errno.h>

#include <string>
#include <string_view>
#include <vector>

#include "core/boundary.h"
#include "core/log.h"
#include "core/state.h"

namespace weft::core {
namespace {

constexpr std::string_view kHookPrefix = "ofi_hook_";

// The hooks of FI_HOOK, named in full or without "ofi_hook_".
std::vector<const Provider*> requested_hooks() {
  std::vector<const Provider*> hooks;
  const char* names = state().parameters.text("FI_HOOK");
  if (names == nullptr) return hooks;
  for (const std::string_view name : split(names, ';')) {
    if (name.empty()) continue;
    const Registry& registry = state().registry;
    const Provider* hook = registry.find(std::string(kHookPrefix).append(name));
    if (hook == nullptr) hook = registry.find(name);
    if (hook != nullptr && hook->kind == ProviderKind::kHook) {
      hooks.push_back(hook);
    } else {
      FI_WARN(&core_provider(), FI_LOG_CORE, "FI_HOOK: %.*s %s; continuing without it\n", static_cast<int>(name.size()),
              name.data(), hook == nullptr ? "does not exist" : "is not a hook");
    }
  }
  return hooks;
}

// Replaces `fabric` with the hook's, which finds the wrapped one in attr->fabric.
void install_hook(const fi_provider& hook, const fi_fabric_attr& attr, fid_fabric*& fabric, void* context) noexcept {
  fi_fabric_attr wrapped = attr;
  wrapped.fabric = fabric;
  fid_fabric* outer = nullptr;
  if (const int error = hook.fabric(&wrapped, &outer, context); error != 0) {
    const std::string_view name = hook.name;
    FI_WARN(&core_provider(), FI_LOG_CORE, "FI_HOOK: %s failed: %s; continuing without it\n",
            hook.name + (name.starts_with(kHookPrefix) ? kHookPrefix.size() : 0), fi_strerror(-error));
    return;
  }
  outer->api_version = fabric->api_version;
  fabric = outer;
}

int open_fabric(fi_fabric_attr* attr, fid_fabric** result, void* context) {
  if (attr == nullptr || result == nullptr || attr->prov_name == nullptr || attr->name == nullptr) return -FI_EINVAL;
  Registry& registry = state().registry;
  if (const Status status = registry.load(); !status.ok()) return status.code();
  const std::string_view layers = attr->prov_name;
  const std::string_view name = layers.substr(layers.rfind(';') + 1);  // npos + 1 is 0
  const Provider* provider = registry.find(name);
  if (provider == nullptr) {
    FI_WARN(&core_provider(), FI_LOG_CORE, "fi_fabric: no provider is named %.*s\n", static_cast<int>(name.size()),
            name.data());
    return -FI_ENODEV;
  }
  const std::vector<const Provider*> hooks = requested_hooks();  // allocates, so before a fabric is open
  fid_fabric* fabric = nullptr;
  if (const int error = provider->abi->fabric(attr, &fabric, context); error != 0) return error;
  // API 1.5 added the member; providers of older releases allocate the structure without it.
  if (FI_VERSION_GE(provider->abi->fi_version, FI_VERSION(1, 5))) fabric->api_version = attr->api_version;
  FI_INFO(&core_provider(), FI_LOG_CORE, "opened fabric %s of provider %s\n", attr->name, attr->prov_name);
  for (const Provider* hook : hooks) install_hook(*hook->abi, *attr, fabric, context);
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
