// SPDX-License-Identifier: BSD-2-Clause
// Shared receive contexts; see shared_receive.h.
#include "verbs/shared_receive.h"

#include <algorithm>
#include <cerrno>
#include <memory>

#include "abi/ep_ops.h"
#include "abi/fid_ops.h"
#include "abi/msg_ops.h"
#include "base/unremembered.h"
#include "objects/endpoint_options.h"
#include "verbs/device.h"
#include "verbs/domain.h"
#include "verbs/limits.h"
#include "verbs/provider.h"
#include "verbs/receive_work.h"

namespace weft::verbs {
namespace {

constexpr uint64_t kLargestMessage = uint64_t{1} << 31;

}  // namespace

const fi_ops* SharedReceive::fid_ops() noexcept {
  static constexpr fi_ops kOps = make_fid_ops<SharedReceive>();
  return &kOps;
}

int SharedReceive::open(Domain& domain, const fi_rx_attr* attr, fid_ep** srx, void* context) {
  if (srx == nullptr) return -FI_EINVAL;
  std::unique_ptr<SharedReceive> shared(new SharedReceive(domain, attr, context));
  const size_t size = attr != nullptr && attr->size != 0 ? attr->size : kDefaultQueueSize;
  if (Status status = shared->create(size); !status.ok()) return status.code();
  *srx = &shared.release()->abi;
  return 0;
}

SharedReceive::SharedReceive(Domain& domain, const fi_rx_attr* attr, void* context) noexcept
    : domain_(domain),
      domain_ref_(domain),
      op_flags_(attr != nullptr ? attr->op_flags : 0),
      iov_limit_(attr != nullptr && attr->iov_limit != 0 ? attr->iov_limit : kDefaultIovLimit),
      min_multi_receive_(kDefaultMinMultiReceive) {
  static constexpr fi_ops_ep kEpOps = make_ep_ops<SharedReceive>();
  static constexpr fi_ops_msg kMsgOps = make_msg_ops<SharedReceive>();
  abi.fid = {FI_CLASS_SRX_CTX, context, const_cast<fi_ops*>(fid_ops())};
  abi.ops = const_cast<fi_ops_ep*>(&kEpOps);
  abi.msg = const_cast<fi_ops_msg*>(&kMsgOps);
}

Status SharedReceive::create(size_t size) noexcept {
  const ibv_device_attr& device = domain_.device().attr().orig_attr;
  if (device.max_srq <= 0 || device.max_srq_wr <= 0) return Status(-FI_ENOSYS);
  size = std::min({size, static_cast<size_t>(device.max_srq_wr), kMaxQueueSize});
  const auto sges = static_cast<size_t>(std::clamp(device.max_srq_sge, 1, static_cast<int>(kMaxIov)));
  iov_limit_ = std::min(iov_limit_, sges);
  sge_limit_ = static_cast<uint32_t>(std::min(iov_limit_ + (domain_.spill().length != 0 ? 1 : 0), sges));
  if (Status status = slots_.open(size, nullptr, this); !status.ok()) return status;
  ibv_srq_init_attr attr{};
  attr.attr.max_wr = static_cast<uint32_t>(size);
  attr.attr.max_sge = sge_limit_;
  straight_.flags = static_cast<uint32_t>(op_flags_ & (FI_COMPLETION | FI_MULTI_RECV));
  straight_.allowed = (op_flags_ & FI_MULTI_RECV) == 0;
  straight_.pieces[1] = domain_.spill();
  straight_.request.sg_list = straight_.pieces;
  straight_.request.num_sge = domain_.spill().length != 0 && sge_limit_ > 1 ? 2 : 1;
  srq_.reset(ibv_create_srq(domain_.pd(), &attr));
  if (srq_ != nullptr) return {};
  const Status status = Status::last_errno();
  FI_WARN(&provider(), FI_LOG_EP_CTRL, "cannot create a shared receive queue of %zu on %s: %s\n", size,
          domain_.device().name(), fi_strerror(status.error()));
  return status;
}

// Receives that are still posted belong to nobody whose queue could be told.
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
  if (level != FI_OPT_ENDPOINT || option != FI_OPT_MIN_MULTI_RECV) return -FI_ENOPROTOOPT;
  return report_option(min_multi_receive_.load(), value, len);
}

int SharedReceive::setopt(int level, int option, const void* value, size_t len) noexcept {
  size_t minimum = 0;
  if (level != FI_OPT_ENDPOINT || option != FI_OPT_MIN_MULTI_RECV) return -FI_ENOPROTOOPT;
  if (int result = read_option(value, len, minimum); result != 0) return result;
  min_multi_receive_ = minimum;
  return 0;
}

ssize_t SharedReceive::rx_size_left() noexcept {
  LightGuard guard(lock_);
  return static_cast<ssize_t>(slots_.room());
}

int SharedReceive::post_list(Posted& slot, ibv_sge* sges, int count) noexcept {
  ibv_recv_wr wr;
  wr.wr_id = reinterpret_cast<uintptr_t>(&slot);
  wr.next = nullptr;
  wr.sg_list = sges;
  wr.num_sge = count;
  ibv_recv_wr* bad;
  return ibv_post_srq_recv(srq_.get(), &wr, &bad);
}

ssize_t SharedReceive::post(const iovec* iov, void* const* desc, size_t count, void* context, uint64_t flags) noexcept {
  if (count > iov_limit_ || (iov == nullptr && count != 0)) return -FI_EINVAL;
  const bool multi = (flags & FI_MULTI_RECV) != 0;
  if (multi && (count != 1 || iov->iov_len == 0)) return -FI_EINVAL;
  ReceiveList<kMaxIov> list;
  for (size_t i = 0; i < count; ++i)
    if (list.add(iov[i].iov_base, iov[i].iov_len, desc != nullptr ? desc[i] : nullptr, kLargestMessage) != 0)
      return -FI_EINVAL;
  const auto len = static_cast<uint32_t>(std::min<uint64_t>(list.len, UINT32_MAX));
  list.add_spill(domain_.spill(), sge_limit_);

  LightGuard guard(lock_);
  Posted* const slot = slots_.take();
  if (slot == nullptr) return -FI_EAGAIN;
  slot->context = context;
  slot->len = len;
  // Whether completions are selective is the receiving endpoint's affair.
  slot->flags = static_cast<uint32_t>(flags & (FI_COMPLETION | FI_MULTI_RECV));
  static_assert(Posted::kReport == FI_COMPLETION);
  MultiReceive* const piece = multi ? slots_.make_multi(*slot) : nullptr;
  if (piece != nullptr) *piece = {static_cast<std::byte*>(iov->iov_base), iov->iov_len, lkey_of(desc[0])};
  const int error = multi && piece == nullptr ? ENOMEM : post_list(*slot, list.sges, list.count);
  if (error == 0) return 0;
  slots_.take_back(*slot);
  return error == ENOMEM ? -FI_EAGAIN : Status::from_errno(error).code();
}

bool SharedReceive::post_again(Posted& slot, const MultiReceive& multi) noexcept {
  ReceiveList<1> list;
  list.add(multi.next, multi.left, reinterpret_cast<const void*>(uintptr_t{multi.lkey}), kLargestMessage);
  list.add_spill(domain_.spill(), sge_limit_);
  slot.len = static_cast<uint32_t>(list.len);
  return post_list(slot, list.sges, list.count) == 0;
}

ssize_t SharedReceive::recv(void* buf, size_t len, void* desc, fi_addr_t, void* context) noexcept {
  if (!straight_.allowed || len - 1 >= kLargestMessage || lkey_of(desc) == 0) [[unlikely]]
    return recv_slowly(buf, len, desc, context);
  lock_.lock();
  if (!slots_.is_clear()) [[unlikely]] {
    lock_.unlock();
    return recv_slowly(buf, len, desc, context);
  }
  Posted& slot = slots_.front();
  slot.context = context;
  slot.flags = straight_.flags;
  slot.len = static_cast<uint32_t>(len);
  slot.busy.store(true, std::memory_order_relaxed);
  straight_.pieces[0] = {reinterpret_cast<uintptr_t>(buf), static_cast<uint32_t>(len), lkey_of(desc)};
  straight_.request.wr_id = reinterpret_cast<uintptr_t>(&slot);
  ibv_recv_wr* bad;
  const int error = ibv_post_srq_recv(srq_.get(), &straight_.request, &bad);
  SharedReceive& self = unremembered(*this);
  if (error != 0) [[unlikely]]
    return self.refused(error);
  self.slots_.push();
  self.lock_.unlock();
  return 0;
}

[[gnu::noinline, gnu::cold]] ssize_t SharedReceive::refused(int error) noexcept {
  slots_.front().busy.store(false, std::memory_order_relaxed);
  lock_.unlock();
  return error == ENOMEM ? -FI_EAGAIN : Status::from_errno(error).code();
}

[[gnu::noinline]] ssize_t SharedReceive::recv_slowly(void* buf, size_t len, void* desc, void* context) noexcept {
  const iovec iov{buf, len};
  return post(&iov, &desc, 1, context, op_flags_);
}

ssize_t SharedReceive::recvv(const iovec* iov, void** desc, size_t count, fi_addr_t, void* context) noexcept {
  return post(iov, desc, count, context, op_flags_);
}
ssize_t SharedReceive::recvmsg(const fi_msg* msg, uint64_t flags) noexcept {
  if (msg == nullptr) return -FI_EINVAL;
  if ((flags & (FI_PEEK | FI_CLAIM | FI_DISCARD)) != 0) return -FI_EBADFLAGS;
  return post(msg->msg_iov, msg->desc, msg->iov_count, msg->context, flags);
}

}  // namespace weft::verbs
