// SPDX-License-Identifier: BSD-2-Clause
// Receive queues: their life, keeping receives, the calls that do not go straight; see receive_queue.h.
#include "verbs/transfer/receive_queue.h"

#include <algorithm>
#include <new>
#include <utility>

namespace weft::verbs {

ReceiveQueue::ReceiveQueue(CompletionRoutes& routes, const TransferSizes& sizes, const ibv_sge& spill,
                           uint64_t flags) noexcept
    : PostedReceives({.iov = sizes.receive_iov, .longest_message = sizes.longest_message}, sizes.receive_sges, spill,
                     flags),
      routes_(routes),
      sizes_(sizes) {}

// ---- Life ----

Status ReceiveQueue::enable() noexcept {
  if (shared_ && reserved_ == 0) {
    const auto entries = static_cast<unsigned>(shared_->size());
    if (Status status = routes_.receive_channel->reserve(*shared_, entries); !status.ok()) return status;
    reserved_ = entries;
  }
  LightGuard guard(lock_);
  straight_.prepare();
  follow_bindings();
  return {};
}

void ReceiveQueue::follow_bindings() noexcept {
  plain_ = !routes_.receive_selective && !routes_.receive;
  if (routes_.receive) {
    slots_.mark_posted(Posted::kCount);
    for (size_t i = 0; i < kept_count(); ++i) (*kept_)[i].work.flags |= Posted::kCount;
  }
  choose_way();
}

void ReceiveQueue::choose_way() noexcept {
  straight_.flags = record_flags(flags_);
  straight_.allowed = queue_.is_open() && !shared_ && (flags_ & FI_MULTI_RECV) == 0;
}

Status ReceiveQueue::prepare() noexcept {
  if (Status status = routes_.receive_channel->reserve(sizes_.receives); !status.ok()) return status;
  Status status;
  {
    LightGuard guard(lock_);
    if (!slots_.opened() && !slots_.closed()) {
      status = slots_.open(sizes_.receives, *this);
      if (status.ok()) {
        reserved_ = sizes_.receives;
        return status;
      }
    }
  }
  routes_.receive_channel->give_back(sizes_.receives);
  return status;
}

Status ReceiveQueue::use(ibv_qp& qp) noexcept {
  qp_number_ = qp.qp_num;
  if (shared_)
    if (Status status = routes_.receive_channel->add_receiver(qp_number_, *this); !status.ok()) return status;
  for (;;) {
    {
      LightGuard guard(lock_);
      if (kept_count() == 0 || slots_.opened()) {
        queue_.qp = &qp;
        choose_way();
        post_kept();
        return {};
      }
    }
    if (Status status = prepare(); !status.ok()) return status;
  }
}

std::vector<KeptReceive> ReceiveQueue::take_kept() noexcept {
  const auto kept = std::move(kept_);
  return kept != nullptr ? std::move(*kept) : std::vector<KeptReceive>();
}

void ReceiveQueue::post_kept() noexcept {
  for (const KeptReceive& kept : take_kept())
    if (post_locked(kept.work) != 0) report_cancelled(kept.work.context, kept.work.flags);
}

void ReceiveQueue::stop() noexcept {
  LightGuard guard(lock_);
  slots_.close();
  for (const KeptReceive& kept : take_kept()) report_cancelled(kept.work.context, kept.work.flags);
}

bool ReceiveQueue::idle() noexcept {
  LightGuard guard(lock_);
  return slots_.outstanding() == 0;
}

void ReceiveQueue::detach() noexcept {
  LightGuard guard(lock_);
  queue_.qp = nullptr;
  choose_way();
}

void ReceiveQueue::cancel_left() noexcept {
  while (const Posted* slot = slots_.take_left()) report_cancelled(slot->context, slot->flags);
}

void ReceiveQueue::release() noexcept {
  if (shared_) routes_.receive_channel->remove_receiver(qp_number_, *this);
  if (std::exchange(reserved_, 0) == 0) return;
  if (shared_)
    routes_.receive_channel->give_back(*shared_);
  else
    routes_.receive_channel->give_back(sizes_.receives);
}

// ---- Posting ----

ssize_t ReceiveQueue::rx_size_left() noexcept {
  if (shared_) return shared_->rx_size_left();
  LightGuard guard(lock_);
  const size_t room = slots_.opened() || slots_.closed() ? slots_.room() : sizes_.receives;
  return static_cast<ssize_t>(room - std::min(room, kept_count()));
}

uint32_t ReceiveQueue::record_flags(uint64_t flags) const noexcept {
  uint32_t result = static_cast<uint32_t>(flags & FI_MULTI_RECV);
  if (routes_.receive_queue && routes_.reports_received(flags)) result |= Posted::kReport;
  if (routes_.receive) result |= Posted::kCount;
  return result;
}

ssize_t ReceiveQueue::post(ReceiveWork& work) noexcept {
  const uint64_t asked = work.flags;
  {
    LightGuard guard(lock_);
    work.flags = record_flags(asked);
    if (!queue_.is_open() || slots_.closed()) [[unlikely]]
      return keep(work);
    if (shared_) [[unlikely]]
      return -FI_EOPBADSTATE;  // receives belong in the shared context
    const ssize_t result = post_locked(work);
    if (result == 0) [[likely]]
      return 0;
    if (slots_.opened()) return result;
  }
  if (Status status = prepare(); !status.ok()) return status.code();
  LightGuard guard(lock_);
  work.flags = record_flags(asked);
  return slots_.closed() ? keep(work) : post_locked(work);  // the connection may have ended meanwhile
}

ssize_t ReceiveQueue::keep(const ReceiveWork& work) noexcept try {
  if (shared_) return -FI_EOPBADSTATE;
  if (slots_.closed() && routes_.refuses_after_end) return -FI_ENOTCONN;
  if (kept_count() == sizes_.receives) return -FI_EAGAIN;
  if (kept_ == nullptr) kept_ = std::make_unique<std::vector<KeptReceive>>();
  const auto count = static_cast<size_t>(work.count);
  KeptReceive kept{work, std::make_unique<ibv_sge[]>(count)};
  kept.work.sges = count != 0 ? kept.sges.get() : nullptr;
  std::copy_n(work.sges, count, kept.work.sges);
  kept_->push_back(std::move(kept));
  return 0;
} catch (const std::bad_alloc&) {
  return -FI_EAGAIN;
}

ssize_t ReceiveQueue::post_list(const iovec* iov, void* const* desc, size_t count, void* context,
                                uint64_t flags) noexcept {
  ReceiveList<kMaxIov> list;
  ReceiveWork work;
  const int error = describe(list, work, iov, desc, count, context, flags);
  return error != 0 ? error : post(work);
}

// ---- fi_cancel ----

ssize_t ReceiveQueue::cancel(void* context) noexcept {
  LightGuard guard(lock_);
  for (size_t i = 0; i < kept_count(); ++i) {
    const ReceiveWork& work = (*kept_)[i].work;
    if (work.context != context) continue;
    report_cancelled(context, work.flags);
    kept_->erase(kept_->begin() + static_cast<ptrdiff_t>(i));
    return 0;
  }
  return !shared_ && slots_.find(context) != nullptr ? -FI_EBUSY : -FI_ENOENT;
}

// `flags`: of the record.
void ReceiveQueue::report_cancelled(void* context, uint64_t flags) noexcept {
  routes_.receive_failed({{.context = context, .flags = FI_RECV | FI_MSG | (flags & FI_MULTI_RECV)},
                          0,
                          FI_ECANCELED,
                          IBV_WC_WR_FLUSH_ERR});
}

}  // namespace weft::verbs
