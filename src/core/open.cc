// SPDX-License-Identifier: BSD-2-Clause
// fi_open: objects of the library itself, by name; fi_open(3). Through "logging" an application replaces the log with
// its own functions, through "mr_cache" it reports changes of memory to the cache of registrations.
#include <rdma/fi_errno.h>
#include <rdma/fi_ext.h>

#include <memory>
#include <string_view>

#include "abi/ops.h"
#include "core/boundary.h"
#include "core/log.h"
#include "core/state.h"
#include "objects/monitor_source.h"

namespace weft::core {
namespace {

constexpr uint32_t kFirstApi = FI_VERSION(1, 13);

// The object that fi_open returns. The caller owns it and releases it with fi_close; an import outlives it.
class LoggingObject : public Object<fid> {
 public:
  explicit LoggingObject(void* context);
  int close();
  int bind(fid* imported, uint64_t flags);
};

// The object that fi_open returns for memory monitors. `ops_open` gives the table of MonitorSource.
class CacheObject : public Object<fid> {
 public:
  explicit CacheObject(void* context) { abi = {FI_CLASS_MR_CACHE, context, ops_of<CacheObject>}; }
  int close() {
    delete this;
    return 0;
  }
  int bind(fid* imported, uint64_t flags);
  int ops_open(const char* name, uint64_t flags, void** ops, void* context);
};

static_assert(
    requires { &LoggingObject::bind; } && requires { &LoggingObject::close; });

// For an imported fid_logging without ops: closing it ends the import.
int end_import(fid* imported) noexcept {
  return guarded([&] {
    Log& log = state().log;
    if (log.handler() == reinterpret_cast<fid_logging*>(imported)->ops) log.install(nullptr);
    return 0;
  });
}
constexpr always<FI_ENOSYS> kNone;
constexpr fi_ops kImportedOps{sizeof(fi_ops), end_import, kNone, kNone, kNone, kNone, kNone};

LoggingObject::LoggingObject(void* context) {
  abi = {FI_CLASS_LOG, context, ops_of<LoggingObject>};
}

int LoggingObject::close() {
  delete this;
  return 0;
}

// fi_import_fid.
int LoggingObject::bind(fid* imported, uint64_t flags) {
  if (flags != 0) return -FI_EBADFLAGS;
  if (imported == nullptr || imported->fclass != FI_CLASS_LOG || imported->ops == &kOps<fi_ops, LoggingObject>)
    return -FI_EINVAL;
  const fi_ops_log* ops = reinterpret_cast<fid_logging*>(imported)->ops;
  if (ops == nullptr || ops->size < sizeof(fi_ops_log) || !ops->enabled || !ops->ready || !ops->log) return -FI_EINVAL;
  if (imported->ops == nullptr) imported->ops = slots(kImportedOps);
  state().log.install(ops);
  return 0;
}

int CacheObject::bind(fid* imported, uint64_t flags) {
  if (flags != 0) return -FI_EBADFLAGS;
  if (imported == nullptr || imported->fclass != FI_CLASS_MEM_MONITOR) return -FI_EINVAL;
  return state().monitor.import(imported);
}

int CacheObject::ops_open(const char* name, uint64_t flags, void** ops, void*) {
  if (name == nullptr || ops == nullptr) return -FI_EINVAL;
  if (flags != 0) return -FI_EBADFLAGS;
  if (std::string_view(name) != kMonitorSource) return -FI_ENOSYS;
  static MonitorSource source{
      .size = sizeof source,
      .start = [](MonitorImport::Notice* on_notice, void* to) { return state().monitor.start(on_notice, to); },
      .stop = [] { state().monitor.stop(); },
      .subscribe = [](const void* addr, std::size_t len) { return state().monitor.subscribe(addr, len); },
      .unsubscribe = [](const void* addr, std::size_t len) { state().monitor.unsubscribe(addr, len); },
      .valid = [](const void* addr, std::size_t len) { return state().monitor.valid(addr, len); }};
  *ops = &source;
  return 0;
}

int open(uint32_t version, const char* name, const void* attr, std::size_t attr_len, uint64_t flags, fid** result,
         void* context) {
  if (name == nullptr || result == nullptr || attr != nullptr || attr_len != 0) return -FI_EINVAL;
  if (FI_VERSION_LT(version, kFirstApi)) return -FI_EINVAL;
  if (FI_VERSION_LT(fi_version(), version)) return -FI_ENOSYS;
  if (flags != 0) return -FI_EBADFLAGS;
  if (std::string_view(name) == "logging") {
    *result = &std::make_unique<LoggingObject>(context).release()->abi;
    return 0;
  }
  if (std::string_view(name) == "mr_cache") {
    *result = &std::make_unique<CacheObject>(context).release()->abi;
    return 0;
  }
  FI_WARN(&core_provider(), FI_LOG_CORE, "fi_open: unknown name %s\n", name);
  return -FI_ENOSYS;
}

}  // namespace
}  // namespace weft::core

WEFT_EXPORT int fi_open(uint32_t version, const char* name, void* attr, size_t attr_len, uint64_t flags, fid** fid,
                        void* context) {
  return weft::guarded([&] { return weft::core::open(version, name, attr, attr_len, flags, fid, context); });
}
