// SPDX-License-Identifier: BSD-2-Clause
// Calls of an imported memory monitor; see memory_monitor.h.
#include "core/memory_monitor.h"

#include <rdma/fi_errno.h>

#include "abi/ops.h"
#include "core/state.h"

namespace weft::core {
namespace {

int close_imported(fid* imported) noexcept {
  state().monitor.end(imported);
  return 0;
}

void pass_on(fid_mem_monitor* monitor, const void* addr, std::size_t len) noexcept {
  state().monitor.notify(monitor, addr, len);
}

constexpr always<FI_ENOSYS> kNoCall;
constexpr fi_ops kMonitorOps{sizeof(fi_ops), close_imported, kNoCall, kNoCall, kNoCall, kNoCall, kNoCall};
constexpr fi_ops_mem_notify kNotify{sizeof(fi_ops_mem_notify), pass_on};

}  // namespace

int MonitorImport::import(fid* imported) noexcept {
  auto& monitor = *reinterpret_cast<fid_mem_monitor*>(imported);
  const fi_ops_mem_monitor* ops = monitor.export_ops;
  if (ops == nullptr || ops->size < sizeof *ops || !ops->start || !ops->stop || !ops->subscribe || !ops->unsubscribe ||
      !ops->valid)
    return -FI_EINVAL;
  if (imported->ops == nullptr) imported->ops = slots(kMonitorOps);
  monitor.import_ops = slots(kNotify);
  std::lock_guard lock(mutex_);
  imported_ = &monitor;
  return 0;
}

void MonitorImport::end(const fid* imported) noexcept {
  std::unique_lock lock(mutex_);
  if (imported_ != nullptr && &imported_->fid == imported) imported_ = nullptr;
  if (started_ == nullptr || &started_->fid != imported) return;
  started_->export_ops->stop(started_);
  started_ = nullptr;
}

int MonitorImport::start(Notice* on_notice, void* context) noexcept {
  std::lock_guard lock(mutex_);
  if (started_ != nullptr) return -FI_EBUSY;
  if (imported_ == nullptr) return -FI_ENODATA;
  receive(on_notice, context);
  started_ = imported_;
  const int error = started_->export_ops->start(started_);
  if (error == 0) return 0;
  started_ = nullptr;
  receive(nullptr, nullptr);
  return error;
}

void MonitorImport::stop() noexcept {
  std::lock_guard lock(mutex_);
  if (started_ != nullptr) started_->export_ops->stop(started_);
  started_ = nullptr;
  receive(nullptr, nullptr);
}

int MonitorImport::subscribe(const void* addr, std::size_t len) noexcept {
  std::lock_guard lock(mutex_);
  return started_ == nullptr ? -FI_ENODATA : started_->export_ops->subscribe(started_, addr, len);
}

void MonitorImport::unsubscribe(const void* addr, std::size_t len) noexcept {
  std::lock_guard lock(mutex_);
  if (started_ != nullptr) started_->export_ops->unsubscribe(started_, addr, len);
}

bool MonitorImport::valid(const void* addr, std::size_t len) noexcept {
  std::lock_guard lock(mutex_);
  return started_ != nullptr && started_->export_ops->valid(started_, addr, len);
}

void MonitorImport::receive(Notice* on_notice, void* context) noexcept {
  std::lock_guard lock(notice_mutex_);
  on_notice_ = on_notice;
  context_ = context;
}

// A monitor that was not started may report too; one report too many only costs a registration.
void MonitorImport::notify(const fid_mem_monitor* monitor, const void* addr, std::size_t len) noexcept {
  std::lock_guard lock(notice_mutex_);
  if (monitor != nullptr && on_notice_ != nullptr) on_notice_(context_, addr, len);
}

}  // namespace weft::core
