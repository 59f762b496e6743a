// SPDX-License-Identifier: BSD-2-Clause
// Send queues: the rare cases of posting, chains, completions, the end; see send_queue.h.
#include "verbs/transfer/send_queue.h"

#include <rdma/providers/fi_log.h>

#include <cstring>
#include <new>
#include <utility>

#include "verbs/device/logging.h"
#include "verbs/device/verbs_handles.h"
#include "verbs/transfer/completion_status.h"

namespace weft::verbs {
namespace {

constexpr std::chrono::milliseconds kMarkerPatience{200};  // with a marker that is refused or not flushed

}  // namespace

SendQueue::SendQueue(CompletionRoutes& routes, const TransferSizes& sizes, uint64_t flags) noexcept
    : routes_(routes), sizes_(sizes), flags_(flags), inline_bytes_(sizes.inline_bytes) {}

// ---- Life ----

void SendQueue::enable() noexcept {
  LightGuard guard(lock_);
  follow_bindings();
}

void SendQueue::follow_bindings() noexcept {
  may_report_ = routes_.transmit_queue ? Posted::kReport : 0;
  always_report_ = routes_.transmit_selective ? 0 : may_report_;
  if (routes_.send) counted_kinds_ |= FI_SEND;
  if (routes_.read) counted_kinds_ |= FI_READ;
  if (routes_.write) counted_kinds_ |= FI_WRITE;
  choose_way();
}

void SendQueue::choose_way() noexcept {
  constexpr uint64_t kPlain = FI_COMPLETION | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE;
  straight_report_ = always_report_ | (static_cast<uint32_t>(flags_ & FI_COMPLETION) & may_report_);
  straight_signal_ = straight_report_ != 0 ? IBV_SEND_SIGNALED : 0;
  straight_allowed_ = (flags_ & ~kPlain) == 0 && counted_kinds_ == 0;
  ring_.block();
}

// After a failure, release() or another try finds the reserved entries.
Status SendQueue::prepare() noexcept {
  if (reserved_ != 0) return {};
  const unsigned entries = sizes_.transmits + 1;  // the marker at the end
  if (Status status = routes_.transmit_channel->reserve(entries); !status.ok()) return status;
  if (straight_ == nullptr) straight_.reset(new (std::nothrow) StraightSend);
  Status status = straight_ != nullptr ? ring_.open(sizes_.transmits, *this) : Status(-FI_ENOMEM);
  if (!status.ok()) {
    routes_.transmit_channel->give_back(entries);
    return status;
  }
  reserved_ = entries;
  return {};
}

void SendQueue::use(ibv_qp* qp) noexcept {
  LightGuard guard(lock_);
  qp_ = qp;
  ring_.block();
}

void SendQueue::stop() noexcept {
  LightGuard guard(lock_);
  flush_staged();
  ring_.close();
  refusal_ = -FI_ENOTCONN;
}

bool SendQueue::idle() noexcept {
  if (probing_.load(std::memory_order_acquire)) return false;
  LightGuard guard(lock_);
  return ring_.outstanding() == 0;
}

// Unsignalled work requests get a work completion when they are flushed, but not if they succeed and no signalled one
// follows. So a marker follows them. Only in a queue pair that sends nothing more.
void SendQueue::mark_end() noexcept {
  LightGuard guard(lock_);
  if (marker_tried_ || qp_ == nullptr) return;
  // The caller may have done this already, but some devices flush late receives only then.
  const bool broken = break_queue_pair(qp_);
  if (broken && probing_.load(std::memory_order_acquire)) return;  // the probe occupies own_ until it is flushed
  marker_tried_ = true;
  if (!broken || ring_.outstanding() == 0) return;
  (void)post_own(Posted::Role::kMarker, IBV_WR_SEND);
  marker_limit_ = Clock::now() + kMarkerPatience;
}

bool SendQueue::post_own(Posted::Role role, ibv_wr_opcode opcode) noexcept {
  own_.role = role;
  own_.sends = this;
  ibv_send_wr wr{};
  wr.wr_id = reinterpret_cast<uintptr_t>(&own_);
  wr.opcode = opcode;
  wr.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(qp_, &wr, &bad) == 0;
}

// In a broken queue pair cxgb4 and erdma refuse the marker, and siw and mana never flush it. Then silent operations
// that succeeded stay outstanding; those that failed are flushed soon.
bool SendQueue::drained() noexcept {
  if (probing_.load(std::memory_order_acquire)) return false;
  LightGuard guard(lock_);
  if (marker_seen_.load(std::memory_order_acquire)) return true;
  return ring_.is_silent() && Clock::now() >= marker_limit_;
}

// Silent transmissions may have succeeded, and are not reported. Those of a chain were never posted.
void SendQueue::cancel_left() noexcept {
  if (chain_ != nullptr && !chain_->empty()) {
    routes_.transmit_channel->unstage(*chain_);
    chain_->clear();
  }
  if (marker_seen_.load(std::memory_order_acquire)) ring_.complete_all();
  while (Posted* slot = ring_.take_oldest()) {
    if ((slot->flags & Posted::kFirstHalf) != 0 || (slot->flags & (Posted::kCount | Posted::kReport)) == 0) continue;
    routes_.transmit_failed(slot->flags & ~uint64_t{Posted::kOurs}, slot->context, FI_ECANCELED, IBV_WC_WR_FLUSH_ERR);
  }
}

void SendQueue::release() noexcept {
  if (reserved_ != 0) routes_.transmit_channel->give_back(std::exchange(reserved_, 0));
  if (std::exchange(probe_reserved_, false)) routes_.transmit_channel->give_back(1);
}

// Operations posted since the last call need no probe: the device retries them.
bool SendQueue::probe() noexcept {
  if (probing_.load(std::memory_order_acquire)) {
    routes_.transmit_channel->make_room();  // the application may not be reading the queue
    return probing_.load(std::memory_order_acquire);
  }
  LightGuard guard(lock_);
  if (refusal_ == -FI_ENOTCONN || std::exchange(position_at_probe_, ring_.now()) != ring_.now()) return false;
  if (!probe_reserved_) probe_reserved_ = routes_.transmit_channel->reserve(1).ok();
  if (!probe_reserved_) return false;
  probing_.store(true, std::memory_order_release);
  const bool posted = post_own(Posted::Role::kProbe, IBV_WR_RDMA_WRITE);
  if (!posted) probing_.store(false, std::memory_order_release);
  return posted;
}

// ---- Posting ----

ssize_t SendQueue::room() noexcept {
  LightGuard guard(lock_);
  return static_cast<ssize_t>(refusal_ == -FI_ENOTCONN || reserved_ != 0 ? ring_.room() : sizes_.transmits);
}

ssize_t SendQueue::post(const SendWork& work) noexcept {
  if (const ssize_t refusal = check(work); refusal != 0) [[unlikely]]
    return refusal;
  LightGuard guard(lock_);
  return post_locked(work);
}

[[gnu::noinline, gnu::cold]] ssize_t SendQueue::refuse_straight(int error) noexcept {
  give_up();
  return unlock_refused(lock_, error);
}

Posted* SendQueue::first_record() noexcept {
  if (reserved_ != 0 || refusal_ == -FI_ENOTCONN) return nullptr;
  const Status status = prepare();
  refusal_ = status.code();
  return status.ok() ? ring_.next() : nullptr;
}

// Completions may not have been polled yet, and an application that sends without completions never reads the queue.
ssize_t SendQueue::on_no_room(uint64_t kind, void* context) noexcept {
  if (ring_.closed()) {
    if (refusal_ != -FI_ENOTCONN || routes_.refuses_after_end) return refusal_;
    routes_.transmit_failed(kind, context, FI_ENOTCONN, IBV_WC_WR_FLUSH_ERR);
    return 0;
  }
  routes_.transmit_channel->make_room();
  return -FI_EAGAIN;
}

[[gnu::noinline]] int SendQueue::post_gathered(ibv_send_wr& first, ibv_send_wr** bad) noexcept {
  std::byte data[kMaxInjectSize];
  ibv_sge whole{reinterpret_cast<uintptr_t>(data), 0, 0};
  for (int i = 0; i < first.num_sge; ++i) {
    const ibv_sge& part = first.sg_list[i];
    std::memcpy(data + whole.length, reinterpret_cast<const void*>(part.addr), part.length);
    whole.length += part.length;
  }
  first.sg_list = &whole;
  first.num_sge = 1;
  return ibv_post_send(qp_, &first, bad);
}

// Two work requests with two records. The first is silent, and passes its failure to the second. A read of no bytes
// needs no right of the region: the peer's device does not check its key (IBA C9-88). It has the write's key, for
// devices that search for the region when they repeat an answer.
ssize_t SendQueue::post_delivered(const SendWork& work) noexcept {
  if (const ssize_t refusal = check(work); refusal != 0) return refusal;
  LightGuard guard(lock_);
  flush_staged();
  Posted* const first = next_record();
  Posted* const second = ring_.next(1);
  if (second == nullptr) return on_no_room(work.kind, work.context);
  ibv_send_wr wr[2];
  build(wr[0], work);
  wr[0].wr_id = reinterpret_cast<uintptr_t>(first);
  wr[0].next = &wr[1];
  wr[0].send_flags = fill(*first, work) & ~unsigned{IBV_SEND_SIGNALED};
  first->flags = work.kind | Posted::kFirstHalf;
  ibv_sge nothing{};
  SendWork read = work;
  read.opcode = IBV_WR_RDMA_READ;
  read.sges = &nothing;
  read.count = 0;
  read.len = 0;
  build(wr[1], read);
  wr[1].wr_id = reinterpret_cast<uintptr_t>(second);
  wr[1].next = nullptr;
  wr[1].send_flags = fill(*second, read) | IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  const int error = post_requests(wr[0], &bad);
  if (error != 0 && bad != &wr[1]) return refused(error);
  ring_.push(false);
  ring_.push(error == 0);
  if (error == 0) return 0;
  // The device took the write but refused the read that proves it: the operation is reported as failed. The second
  // record stays, silent as well, because the first one's status is passed to it.
  second->flags = first->flags;
  routes_.transmit_failed(work.kind, work.context, errno_of(error), IBV_WC_GENERAL_ERR);
  return 0;
}

// A work request for each `read_sges` buffers. All but the last are silent, and pass their failures on to the next.
ssize_t SendQueue::post_split_read(const SendWork& work) noexcept {
  if (const ssize_t refusal = check(work); refusal != 0) return refusal;
  LightGuard guard(lock_);
  flush_staged();
  if (next_record() == nullptr) return on_no_room(work.kind, work.context);
  const int per_request = sizes_.read_sges;
  const auto parts = static_cast<std::uint32_t>((work.count + per_request - 1) / per_request);
  if (ring_.next(parts - 1) == nullptr) return on_no_room(work.kind, work.context);
  ibv_send_wr wr[kMaxIov];
  SendWork part = work;
  for (std::uint32_t i = 0; i < parts; ++i) {
    const bool last = i + 1 == parts;
    part.count = std::min(per_request, work.count - static_cast<int>(i) * per_request);
    part.len = 0;
    for (int piece = 0; piece < part.count; ++piece) part.len += part.sges[piece].length;
    Posted* const slot = ring_.next(i);
    build(wr[i], part);
    wr[i].wr_id = reinterpret_cast<uintptr_t>(slot);
    wr[i].next = last ? nullptr : &wr[i + 1];
    wr[i].send_flags = fill(*slot, part) | IBV_SEND_SIGNALED;
    if (!last) {
      wr[i].send_flags &= ~unsigned{IBV_SEND_SIGNALED};
      slot->flags = work.kind | Posted::kFirstHalf;
    }
    part.sges += part.count;
    part.address += part.len;
    part.flags &= ~FI_FENCE;
  }
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(qp_, wr, &bad);
  if (error != 0 && bad == wr) return refused(error);
  for (std::uint32_t i = 0; i < parts; ++i) ring_.push(error == 0 && i + 1 == parts);
  if (error == 0) return 0;
  // Some parts are under way, and must not reach the buffers once the failure is reported: the connection ends.
  ring_.youngest(0).flags = work.kind | Posted::kFirstHalf;
  break_queue_pair(qp_);
  routes_.transmit_failed(work.kind, work.context, errno_of(error), IBV_WC_GENERAL_ERR);
  routes_.owner.on_transfer_failed(IBV_WC_GENERAL_ERR);
  return 0;
}

// ---- FI_MORE ----

ssize_t SendQueue::post_in_chain(const SendWork& work) noexcept {
  if (chain_ == nullptr) chain_ = SendChain::make(*this, sizes_.transmit_iov, sizes_.inline_bytes);
  if (chain_ == nullptr) return -FI_EAGAIN;
  Posted* const slot = next_record();
  if (slot == nullptr) {
    flush_staged();
    return on_no_room(work.kind, work.context);
  }
  const bool was_empty = chain_->empty();
  ring_.block();
  // Other operations may use the application's buffers until they complete, except for inline data in several.
  const bool scattered = work.count > 1 && work.len <= inline_bytes_;
  const bool copy = (work.silent || (work.flags & FI_INJECT) != 0 || scattered) && carries_data(work.opcode);
  ibv_send_wr& wr = chain_->append(work, copy);
  wr.wr_id = reinterpret_cast<uintptr_t>(slot);
  wr.send_flags = fill(*slot, work);
  ring_.push((wr.send_flags & IBV_SEND_SIGNALED) != 0);
  if ((work.flags & FI_MORE) != 0 && !chain_->full()) {
    if (was_empty) routes_.transmit_channel->stage(*chain_);
    return 0;
  }
  if (!was_empty) routes_.transmit_channel->unstage(*chain_);
  flush_chain();
  return 0;
}

// With the lock held. Requests that the device refuses were accepted from the application: they complete as failed.
void SendQueue::flush_chain() noexcept {
  ibv_send_wr* bad = nullptr;
  const int error = qp_ != nullptr ? errno_of(ibv_post_send(qp_, chain_->first(), &bad)) : ENOTCONN;
  if (error != 0) [[unlikely]] {
    const uint32_t left = bad != nullptr ? chain_->left_from(bad) : chain_->count();
    FI_WARN(&provider(), FI_LOG_EP_DATA, "the device refused %u work requests of a chain: %s\n", left,
            fi_strerror(error));
    for (uint32_t age = left; age-- != 0;) {
      const Posted& slot = ring_.youngest(age);
      routes_.transmit_failed(slot.flags & ~uint64_t{Posted::kOurs}, slot.context, error, IBV_WC_GENERAL_ERR);
    }
    ring_.take_back(left);
  }
  chain_->clear();
}

void SendQueue::flush_staged() noexcept {
  if (chain_ == nullptr) return;
  // An empty one, too: the thread that has posted it may still have to unlink it.
  routes_.transmit_channel->unstage(*chain_);
  if (!chain_->empty()) flush_chain();
}

bool SendQueue::try_flush() noexcept {
  if (!lock_.try_lock()) return false;
  if (!chain_->empty()) flush_chain();
  lock_.unlock();
  return true;
}

// ---- Completions ----

void SendQueue::on_completed(Posted& slot, ibv_wc_status status, CompletionSink& sink) noexcept {
  if (status != IBV_WC_SUCCESS) [[unlikely]]
    return on_failed(slot, status, sink);
  const uint32_t flags = slot.flags;
  void* const context = slot.context;
  ring_.complete_through(slot);
  if ((flags & Posted::kCount) != 0) routes_.transmit_counter(flags)->add(1);
  if ((flags & Posted::kReport) != 0) sink.put_plain(context, flags & ~uint64_t{Posted::kOurs}, 0);
}

// A failure is reported whether or not a completion was requested.
void SendQueue::on_failed(Posted& slot, ibv_wc_status status, CompletionSink& sink) noexcept {
  if (status != IBV_WC_WR_FLUSH_ERR) routes_.owner.on_transfer_failed(status);
  if ((slot.flags & Posted::kFirstHalf) != 0) {
    ring_.after(slot).status = static_cast<uint8_t>(status);
    ring_.complete_through(slot);
    return;
  }
  if (slot.status != 0) status = static_cast<ibv_wc_status>(std::exchange(slot.status, uint8_t{0}));
  const CompletionError failed{{.context = slot.context, .flags = slot.flags & ~uint64_t{Posted::kOurs}},
                               0,
                               from_wc_status(status, false),
                               status};
  const bool counted = (slot.flags & Posted::kCount) != 0;
  ring_.complete_through(slot);
  if (counted) routes_.transmit_counter(failed.flags)->add_error();
  sink.put_error(failed);
}

void SendQueue::on_own_completed(const Posted& slot, ibv_wc_status status) noexcept {
  if (slot.role == Posted::Role::kMarker) return marker_seen_.store(true, std::memory_order_release);
  if (status != IBV_WC_SUCCESS && status != IBV_WC_WR_FLUSH_ERR) routes_.owner.on_transfer_failed(status);
  probing_.store(false, std::memory_order_release);
}

}  // namespace weft::verbs
