// SPDX-License-Identifier: BSD-2-Clause
// Shared receive contexts; see shared_receive.h.
#include "verbs/transfer/shared_receive.h"

#include <algorithm>
#include <memory>

#include "abi/ops.h"
#include "objects/info.h"
#include "verbs/device/limits.h"
#include "verbs/device/logging.h"

namespace weft::verbs {
namespace {

constexpr uint64_t kLargestMessage = uint64_t{1} << 31;

}  // namespace

int SharedReceive::open(DomainServices& domain, const fi_rx_attr* attr, fid_ep** srx, void* context) {
  if (srx == nullptr) return -FI_EINVAL;
  std::unique_ptr<SharedReceive> shared(new SharedReceive(domain, attr, context));
  const size_t iov = or_none(attr).iov_limit != 0 ? attr->iov_limit : kDefaultIovLimit;
  if (Status status = shared->create(queue_size(attr, kDefaultQueueSize), iov); !status.ok()) return status.code();
  *srx = &shared.release()->abi;
  return 0;
}

SharedReceive::SharedReceive(DomainServices& domain, const fi_rx_attr* attr, void* context) noexcept
    : PostedReceives({.longest_message = kLargestMessage}, 1, domain.spill(), or_none(attr).op_flags), domain_(domain) {
  identify<SharedReceive>(abi, FI_CLASS_SRX_CTX, context);
  abi.msg = ops_of<SharedReceive>;
}

Status SharedReceive::create(size_t size, size_t iov) noexcept {
  const ibv_device_attr& device = domain_->device().attr().orig_attr;
  if (device.max_srq <= 0 || device.max_srq_wr <= 0) return Status(-FI_ENOSYS);
  size = std::min({size, static_cast<size_t>(device.max_srq_wr), kMaxQueueSize});
  const auto sges = static_cast<size_t>(std::clamp(device.max_srq_sge, 1, static_cast<int>(kMaxIov)));
  limits_.iov = std::min(iov, sges);
  straight_.sges = static_cast<uint16_t>(std::min(iov + (straight_.spill().length != 0 ? 1 : 0), sges));
  if (Status status = slots_.open(size, *this); !status.ok()) return status;
  straight_.prepare();
  // The receiving endpoint's binding decides whether completions are selective.
  straight_.flags = static_cast<uint32_t>(flags_ & FI_COMPLETION);
  straight_.allowed = (flags_ & FI_MULTI_RECV) == 0;
  static_assert(Posted::kReport == FI_COMPLETION);
  ibv_srq_init_attr attr{};
  attr.attr.max_wr = static_cast<uint32_t>(size);
  attr.attr.max_sge = straight_.sges;
  queue_.srq.reset(ibv_create_srq(domain_->pd(), &attr));
  if (queue_.srq != nullptr) return {};
  const Status status = Status::last_errno();
  FI_WARN(&provider(), FI_LOG_EP_CTRL, "cannot create a shared receive queue of %zu on %s: %s\n", size,
          domain_->device().name(), fi_strerror(status.error()));
  return status;
}

// Receives that are still posted have no endpoint in whose queue they could be reported.
int SharedReceive::close() {
  if (in_use()) return -FI_EBUSY;
  delete this;
  return 0;
}

ssize_t SharedReceive::cancel(void* context) noexcept {
  LightGuard guard(lock_);
  return slots_.find(context) != nullptr ? -FI_EBUSY : -FI_ENOENT;
}

int SharedReceive::getopt(int level, int option, void* value, size_t* len) noexcept {
  return level == FI_OPT_ENDPOINT && option == FI_OPT_MIN_MULTI_RECV ? get_minimum(value, len) : -FI_ENOPROTOOPT;
}

int SharedReceive::setopt(int level, int option, const void* value, size_t len) noexcept {
  return level == FI_OPT_ENDPOINT && option == FI_OPT_MIN_MULTI_RECV ? set_minimum(value, len) : -FI_ENOPROTOOPT;
}

ssize_t SharedReceive::rx_size_left() noexcept {
  LightGuard guard(lock_);
  return static_cast<ssize_t>(slots_.room());
}

ssize_t SharedReceive::post_list(const iovec* iov, void* const* desc, size_t count, void* context,
                                 uint64_t flags) noexcept {
  ReceiveList<kMaxIov> list;
  ReceiveWork work;
  if (const int error = describe(list, work, iov, desc, count, context, flags); error != 0) return error;
  LightGuard guard(lock_);
  return post_locked(work);
}

}  // namespace weft::verbs
