// SPDX-License-Identifier: BSD-2-Clause
// fi_getinfo, fi_freeinfo, fi_dupinfo: calls the providers in order and collects the reasons of those that refuse;
// fi_getinfo(3). No lock is held during a provider's call, so providers may resolve names and call back.
#include <fmt/format.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/status.h"
#include "core/abi_layout.h"
#include "core/answer_order.h"
#include "core/boundary.h"
#include "core/log.h"
#include "core/names.h"
#include "core/provider_hint.h"
#include "core/state.h"
#include "objects/info.h"

namespace weft::core {
namespace {

constexpr uint64_t kPublicFlags = FI_SOURCE | FI_NUMERICHOST | FI_PROV_ATTR_ONLY | FI_RESCAN;
constexpr uint64_t kInternalFlags = kInternalCall | kCoresOnly | kWithHidden | kOffloadsOnly;

struct Request {
  uint32_t version;
  const char* node;
  const char* service;
  uint64_t flags;
  const fi_info* hints;

  const char* prov_name() const noexcept { return or_none(or_none(hints).fabric_attr).prov_name; }
};

using Infos = std::vector<InfoPtr>;

// The entries as the list of fi_getinfo.
fi_info* linked(Infos& infos) noexcept {
  fi_info* list = nullptr;
  for (auto each = infos.rbegin(); each != infos.rend(); ++each) {
    (*each)->next = list;
    list = each->release();
  }
  return list;
}

// Reports to the caller of a nested fi_getinfo, or to the log: when a layered provider finds no core, only the
// outermost call logs the reasons.
void log_reason(const std::string& line) {
  if (Capture* outer = Capture::current()) {
    outer->add(line);
  } else if (fi_log_enabled(&core_provider(), FI_LOG_WARN, FI_LOG_CORE)) {
    fi_log(&core_provider(), FI_LOG_WARN, FI_LOG_CORE, "fi_getinfo", __LINE__, "%s\n", line.c_str());
  }
}

std::string version_text(uint32_t version) {
  return fmt::format("{}.{}", FI_MAJOR(version), FI_MINOR(version));
}

// The reason for which this provider is not called; empty if it is.
std::string refusal_by_core(const Provider& provider, const ProviderHint& hint, const Request& request) {
  if (provider.excluded) return "excluded by FI_PROVIDER";
  if (provider.hidden && (request.flags & kWithHidden) == 0) return "hidden by another provider of the same name";
  if (!hint.selects(provider.abi->name, provider.kind, request.flags)) {
    if (request.prov_name() == nullptr) return "it is a layer, and core providers are requested";
    return fmt::format("the hints request provider {}", request.prov_name());
  }
  if (FI_VERSION_LT(provider.abi->fi_version, request.version)) {
    return fmt::format("it implements API {}, older than the requested {}", version_text(provider.abi->fi_version),
                       version_text(request.version));
  }
  return {};
}

// Hooks only wrap fabrics, offload providers only serve other providers.
bool takes_part(const Provider& provider, uint64_t flags) noexcept {
  if (provider.kind == ProviderKind::kHook) return false;
  return (provider.kind == ProviderKind::kOffload) == ((flags & kOffloadsOnly) != 0);
}

// Makes a structure of an earlier release a current one: members behind its `size` bytes become zero. False, with the
// old one in place, when memory runs out.
template <class T>
bool grow(T*& structure, std::size_t size) noexcept {
  if (structure == nullptr) return true;
  void* const grown = std::realloc(structure, sizeof(T));
  if (grown == nullptr) return false;
  std::memset(static_cast<std::byte*>(grown) + size, 0, sizeof(T) - size);
  structure = static_cast<T*>(grown);
  return true;
}

// Makes the smaller structures of a plug-in built against earlier headers current ones. When memory runs out, the
// result is null and the list is lost: only current structures can be released.
InfoPtr to_current_layout(fi_info* list, const AbiLayout& layout) noexcept {
  if (layout == kAbi1_10) return InfoPtr(list);
  for (fi_info** each = &list; *each != nullptr; each = &(*each)->next) {
    if (!grow(*each, layout.info)) return nullptr;
    fi_info& info = **each;
    if (!grow(info.tx_attr, layout.tx) || !grow(info.rx_attr, layout.rx) || !grow(info.ep_attr, layout.ep) ||
        !grow(info.domain_attr, layout.domain) || !grow(info.fabric_attr, layout.fabric))
      return nullptr;
  }
  return InfoPtr(list);
}

// Sets the names and versions, which are the core's task. A layered provider leaves the name of its core in prov_name,
// others leave it NULL. -FI_ENOMEM.
Status complete(fi_info& info, const fi_provider& provider, uint32_t version) {
  if (info.fabric_attr == nullptr) {
    info.fabric_attr = static_cast<fi_fabric_attr*>(std::calloc(1, sizeof(fi_fabric_attr)));
    if (info.fabric_attr == nullptr) return Status(-FI_ENOMEM);
  }
  fi_fabric_attr& fabric = *info.fabric_attr;
  if (fabric.prov_name == nullptr || !equal_ignoring_case(fabric.prov_name, provider.name)) {
    const std::string name =
        fabric.prov_name == nullptr ? provider.name : fmt::format("{};{}", fabric.prov_name, provider.name);
    char* owned = ::strdup(name.c_str());
    if (owned == nullptr) return Status(-FI_ENOMEM);
    std::free(std::exchange(fabric.prov_name, owned));
  }
  fabric.prov_version = provider.version;
  fabric.api_version = version;
  return Status();
}

// Appends the entries of `list` that FI_PROVIDER allows; false if none. Entries that a layer finds below itself are
// filtered later, under the complete name: "tcp;ofi_rxm" allows tcp only under that layer.
Result<bool> take(InfoPtr list, const fi_provider& provider, const Request& request, const NameFilter& filter,
                  Infos& all) {
  const bool below_a_layer = (request.flags & (kCoresOnly | kOffloadsOnly)) != 0;
  bool taken = false;
  while (list) {
    InfoPtr rest(std::exchange(list->next, nullptr));
    if (const Status status = complete(*list, provider, request.version); !status.ok()) return failure(status);
    if (below_a_layer || filter.allows(list->fabric_attr->prov_name)) {
      all.push_back(std::move(list));
      taken = true;
    }
    list = std::move(rest);
  }
  return taken;
}

// Appends the provider's entries and returns an empty text; without entries returns the reason. `error`: the result
// of the provider's call.
Result<std::string> query(const fi_provider& provider, const Request& request, const NameFilter& filter, Infos& all,
                          int& error) {
  const Capture capture;
  fi_info* list = nullptr;
  error = provider.getinfo(request.version, request.node, request.service, request.flags, request.hints, &list);
  if (error != 0 || list == nullptr) {
    if (std::string reason = capture.reason(); !reason.empty()) return reason;
    if (error == 0) return "it returned an empty list";
    return fmt::format("it returned {} ({})", error, fi_strerror(-error));
  }
  InfoPtr current = to_current_layout(list, layout_of_api(provider.fi_version));
  if (!current) return failure(FI_ENOMEM);
  const Result<bool> taken = take(std::move(current), provider, request, filter, all);
  if (!taken) return failure(taken.error());
  return *taken ? "" : "FI_PROVIDER excludes its offers";
}

constexpr const char* kNothingBelow = "no provider below it matches";

// Reports why nothing matched: to a layered provider the reasons of the providers called for it, to the user all.
void report(const Request& request, const ProviderHint& hint, const Registry& registry,
            const std::vector<std::string>& refusals, const std::vector<std::string>& answers) {
  if (Capture::current() != nullptr) {
    for (const std::string& answer : answers) log_reason(answer);
    if (answers.empty()) log_reason(kNothingBelow);
    return;
  }
  log_reason(fmt::format("no provider matches (version {}, node {}, service {}, flags {:#x}{})",
                         version_text(request.version), request.node == nullptr ? "none" : request.node,
                         request.service == nullptr ? "none" : request.service, request.flags,
                         request.hints == nullptr ? ", no hints" : ""));
  for (const std::string_view name : hint.names()) {
    if (!registry.has_name(name)) log_reason(fmt::format("provider {}: no provider has this name", name));
  }
  for (const std::string& refusal : refusals) log_reason(refusal);
}

int get_info(const Request& request, Infos& all) {
  if ((request.flags & FI_SOURCE) != 0 && request.node == nullptr && request.service == nullptr) {
    log_reason("FI_SOURCE needs a node or a service");
    return -FI_ENODATA;
  }
  Registry& registry = state().registry;
  if (const Status status = registry.load(); !status.ok()) return status.code();
  const ProviderHint hint(request.prov_name());
  int failure = -FI_ENODATA;
  std::vector<std::string> refusals, answers;  // answers: refusals of providers that were called
  for (const Provider* provider : registry.providers()) {
    if (!takes_part(*provider, request.flags)) continue;
    std::string refusal = refusal_by_core(*provider, hint, request);
    if (refusal.empty()) {
      int error = 0;
      Result<std::string> answer = query(*provider->abi, request, registry.filter(), all, error);
      if (!answer) return answer.error().code();
      // A resource that ran out is the reason, unless another provider answers.
      if (error == -FI_ENOMEM || error == -FI_EMFILE) failure = error;
      refusal = std::move(*answer);
      // A layer repeats the reason of its core, which is already listed.
      if (std::find(answers.begin(), answers.end(), refusal) != answers.end()) refusal = kNothingBelow;
      if (!refusal.empty()) answers.push_back(fmt::format("provider {}: {}", provider->abi->name, refusal));
    }
    if (!refusal.empty()) refusals.push_back(fmt::format("provider {}: {}", provider->abi->name, refusal));
  }
  order_answers(request.hints, all);
  if (!all.empty()) return 0;
  report(request, hint, registry, refusals, answers);
  return failure;
}

// Drops the entries whose addresses have another format than FI_ADDR_FORMAT names. -FI_ENODATA: none is left.
int keep_address_format(Infos& all) {
  const char* wanted = state().parameters.text("FI_ADDR_FORMAT");
  if (wanted == nullptr) return 0;
  const auto format = std::ranges::find_if(names::kAddressFormat,
                                           [&](const Name& name) { return equal_ignoring_case(name.text, wanted); });
  if (format == std::ranges::end(names::kAddressFormat)) {
    log_reason(fmt::format("FI_ADDR_FORMAT={}: no address format has this name", wanted));
    return 0;
  }
  std::erase_if(all, [&](const InfoPtr& info) { return info->addr_format != format->value; });
  if (!all.empty()) return 0;
  log_reason(fmt::format("FI_ADDR_FORMAT={} leaves no provider", wanted));
  return -FI_ENODATA;
}

// FI_PROV_ATTR_ONLY: the names and versions of all providers, without regard to hints and FI_PROVIDER.
int get_provider_names(Infos& all) {
  Registry& registry = state().registry;
  if (const Status status = registry.load(); !status.ok()) return status.code();
  for (const Provider* provider : registry.providers()) {
    if (provider->hidden && !provider->excluded) continue;
    InfoPtr info(allocate_info());
    if (!info) return -FI_ENOMEM;
    info->fabric_attr->prov_name = ::strdup(provider->abi->name);
    if (info->fabric_attr->prov_name == nullptr) return -FI_ENOMEM;
    info->fabric_attr->prov_version = provider->abi->version;
    all.push_back(std::move(info));
  }
  return all.empty() ? -FI_ENODATA : 0;
}

}  // namespace
}  // namespace weft::core

using namespace weft::core;

WEFT_EXPORT int fi_getinfo(uint32_t version, const char* node, const char* service, uint64_t flags,
                           const fi_info* hints, fi_info** info) {
  return guarded([&] {
    if (info == nullptr) return -FI_EINVAL;
    *info = nullptr;
    if (FI_VERSION_LT(fi_version(), version)) {
      log_reason(
          fmt::format("version {} requested, this library has {}", version_text(version), version_text(fi_version())));
      return -FI_ENOSYS;
    }
    if ((flags & ~(kPublicFlags | kInternalFlags)) != 0) {
      log_reason(fmt::format("unknown flags {:#x}", flags & ~(kPublicFlags | kInternalFlags)));
      return -FI_EBADFLAGS;
    }
    Infos all;
    const bool names_only = (flags & FI_PROV_ATTR_ONLY) != 0;
    int error = names_only ? get_provider_names(all) : get_info({version, node, service, flags, hints}, all);
    if (error == 0 && !names_only && (flags & kInternalCall) == 0) error = keep_address_format(all);
    if (error == 0) *info = linked(all);
    return error;
  });
}

WEFT_EXPORT void fi_freeinfo(fi_info* info) {
  weft::free_info(info);
}

WEFT_EXPORT fi_info* fi_dupinfo(const fi_info* info) {
  return info == nullptr ? weft::allocate_info() : weft::duplicate_info(info);
}
