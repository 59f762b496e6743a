// SPDX-License-Identifier: BSD-2-Clause
// Posted receives of a queue of the device, that of a queue pair (receive_queue.h) or a shared one (shared_receive.h).
// ibv_post_recv(3), ibv_post_srq_recv(3).
#pragma once

#include <infiniband/verbs.h>
#include <rdma/fi_errno.h>
#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/data_path.h"
#include "base/light_lock.h"
#include "messages/posted_receive.h"
#include "objects/endpoint_options.h"
#include "verbs/device/limits.h"
#include "verbs/transfer/memory_region.h"
#include "verbs/transfer/work_queue.h"

namespace weft::verbs {

// The limits of receives in a queue.
struct ReceiveLimits {
  std::size_t iov = 1;
  std::uint64_t longest_message = 0;  // bytes
};

// The prepared work request of a receive of one buffer; only the variable fields are written.
struct StraightReceive {
  ibv_recv_wr request{};
  ibv_sge pieces[2]{};      // the application's, and that for the excess of long messages; length 0: no such memory
  std::uint32_t flags = 0;  // as in Posted
  std::uint16_t sges = 1;   // the most of a receive, with that for the excess
  bool allowed = false;

  const ibv_sge& spill() const noexcept { return pieces[1]; }
  void prepare() noexcept {
    request.sg_list = pieces;
    request.num_sge = spill().length != 0 && sges > 1 ? 2 : 1;
  }
  // Writes the record, too.
  [[gnu::always_inline]] ibv_recv_wr* fill(Posted& slot, void* buf, std::size_t len, const void* desc,
                                           void* context) noexcept {
    slot.context = context;
    slot.flags = flags;
    slot.len = static_cast<std::uint32_t>(len);
    pieces[0] = {reinterpret_cast<std::uintptr_t>(buf), static_cast<std::uint32_t>(len), lkey_of(desc)};
    slot.busy.store(true, std::memory_order_relaxed);
    request.wr_id = reinterpret_cast<std::uintptr_t>(&slot);
    return &request;
  }
};

// The parameters of a receive, fi_msg(3).
struct ReceiveWork {
  ibv_sge* sges;
  int count;
  std::uint32_t len;    // bytes the application's buffers hold
  std::uint32_t flags;  // as in Posted
  void* context;
  MultiReceive multi;  // FI_MULTI_RECV
};

// The scatter list of a receive of up to N buffers, with the spill element last. Buffers that are NULL or have no
// descriptor hold nothing: the spill element is repeated for their lengths, as often as the queue has room.
template <std::size_t N>
struct ReceiveList {
  ibv_sge sges[N + 1];
  int count = 0;
  std::uint64_t len = 0;
  std::uint64_t dropped = 0;  // bytes of buffers that hold nothing

  void add(void* buf, std::size_t size, std::uint32_t lkey, const ReceiveLimits& limits) noexcept {
    if (buf == nullptr || lkey == 0) [[unlikely]] {
      dropped += size;
      return;
    }
    if (size == 0) return;  // some devices take a length of 0 for 2 GiB
    const auto taken = static_cast<std::uint32_t>(std::min<std::uint64_t>(size, limits.longest_message));
    sges[count++] = {reinterpret_cast<std::uintptr_t>(buf), taken, lkey};
    len += taken;
  }
  // After the buffers. `flags`: FI_COMPLETION and FI_MULTI_RECV count.
  ReceiveWork work(const StraightReceive& straight, std::uint64_t flags, void* context) noexcept {
    const ibv_sge& spill = straight.spill();
    std::uint64_t spilled = 0;
    while (spilled <= dropped && spill.length != 0 && count < straight.sges) {
      sges[count++] = spill;
      spilled += spill.length;
    }
    ReceiveWork result;
    result.sges = count != 0 ? sges : nullptr;  // irdma takes the first of a list that is empty
    result.count = count;
    result.len = static_cast<std::uint32_t>(std::min<std::uint64_t>(len, UINT32_MAX));
    result.flags = static_cast<std::uint32_t>(flags & (FI_COMPLETION | FI_MULTI_RECV));
    result.context = context;
    return result;
  }
};

// Queue: the queue of the device, with post(ibv_recv_wr*), which returns an errno or 0, and kManyCompleters: several
// channels complete its receives. lock_ guards posting; completions are handled under their channel's lock.
template <class Queue>
class PostedReceives {
 public:
  // ---- Posting ----

  LightLock& lock() noexcept { return lock_; }
  uint64_t& flags() noexcept { return flags_; }  // for calls without flags; with the lock held
  // FI_OPT_MIN_MULTI_RECV.
  int get_minimum(void* value, size_t* len) const noexcept {
    return report_option(min_multi_receive_.load(), value, len);
  }
  int set_minimum(const void* value, size_t len) noexcept {
    size_t minimum = 0;
    const int result = read_option(value, len, minimum);
    if (result == 0) min_multi_receive_ = minimum;
    return result;
  }

  // A receive of one buffer goes straight to the device if may_go(), if the lock is free, and if is_clear().
  bool may_go(const void* buf, size_t len, const void* desc) const noexcept {
    return buf != nullptr && lkey_of(desc) != 0 && within(len, limits_.longest_message);
  }
  bool is_clear() const noexcept { return straight_.allowed && slots_.is_clear(); }
  // Returns an errno or 0 for end_straight(), which releases the lock. Callers reload() their object between the two.
  int post_straight(void* buf, size_t len, const void* desc, void* context) noexcept {
    return queue_.post(straight_.fill(slots_.front(), buf, len, desc, context));
  }
  ssize_t end_straight(int error) noexcept {
    if (error != 0) [[unlikely]]
      return refuse_straight(error);
    slots_.push();
    lock_.unlock();
    return 0;
  }

  // ---- Completions, with the channel's lock held ----

  void give_back(Posted& slot) noexcept {
    if constexpr (Queue::kManyCompleters) {
      LightGuard guard(lock_);
      slots_.give_back(slot);
    } else {
      slots_.give_back(slot);
    }
  }
  MultiReceive& multi(const Posted& slot) noexcept { return slots_.multi(slot); }
  // A message has taken `used` bytes of a multi-receive buffer. true: the rest is large enough, and was posted again
  // under the same record.
  bool post_rest(Posted& slot, std::uint32_t used) noexcept;

 protected:
  PostedReceives(const ReceiveLimits& limits, std::uint16_t sges, const ibv_sge& spill, uint64_t flags) noexcept
      : limits_(limits), flags_(flags), straight_{.pieces = {{}, spill}, .sges = sges} {}
  ~PostedReceives() = default;

  // The scatter list and record of any receive; -FI_EINVAL.
  int describe(ReceiveList<kMaxIov>& list, ReceiveWork& work, const iovec* iov, void* const* desc, size_t count,
               void* context, uint64_t flags) const noexcept;
  // With the lock held.
  ssize_t post_locked(const ReceiveWork& work) noexcept;

  ReceiveLimits limits_;
  uint64_t flags_;
  Queue queue_;
  ReceiveSlots slots_;
  StraightReceive straight_;
  std::atomic<size_t> min_multi_receive_{messages::kDefaultMinMultiReceive};
  LightLock lock_;

 private:
  ssize_t refuse_straight(int error) noexcept;
  int post(Posted& slot, const ReceiveWork& work) noexcept;
};

template <class Queue>
int PostedReceives<Queue>::describe(ReceiveList<kMaxIov>& list, ReceiveWork& work, const iovec* iov, void* const* desc,
                                    size_t count, void* context, uint64_t flags) const noexcept {
  if (count > limits_.iov || (iov == nullptr && count != 0)) return -FI_EINVAL;
  const bool multi = (flags & FI_MULTI_RECV) != 0;
  const auto lkey = [&](size_t i) { return lkey_of(desc != nullptr ? desc[i] : nullptr); };
  if (multi && (count != 1 || iov->iov_len == 0 || iov->iov_base == nullptr || lkey(0) == 0)) return -FI_EINVAL;
  for (size_t i = 0; i < count; ++i) list.add(iov[i].iov_base, iov[i].iov_len, lkey(i), limits_);
  work = list.work(straight_, flags, context);
  if (multi) work.multi = {static_cast<std::byte*>(iov->iov_base), iov->iov_len, lkey_of(desc[0])};
  return 0;
}

template <class Queue>
int PostedReceives<Queue>::post(Posted& slot, const ReceiveWork& work) noexcept {
  ibv_recv_wr request;
  request.wr_id = reinterpret_cast<uintptr_t>(&slot);
  request.next = nullptr;
  request.sg_list = work.sges;
  request.num_sge = work.count;
  return queue_.post(&request);
}

template <class Queue>
ssize_t PostedReceives<Queue>::post_locked(const ReceiveWork& work) noexcept {
  Posted* const slot = slots_.take();
  if (slot == nullptr) [[unlikely]]
    return slots_.closed() ? -FI_ENOTCONN : -FI_EAGAIN;
  slot->context = work.context;
  slot->flags = work.flags;
  slot->len = work.len;
  int error = 0;
  if ((work.flags & FI_MULTI_RECV) != 0) [[unlikely]] {
    MultiReceive* const multi = slots_.make_multi(*slot);
    if (multi != nullptr)
      *multi = work.multi;
    else
      error = ENOMEM;
  }
  if (error == 0) error = post(*slot, work);
  if (error == 0) [[likely]]
    return 0;
  slots_.take_back(*slot);
  return refused(error);
}

template <class Queue>
bool PostedReceives<Queue>::post_rest(Posted& slot, std::uint32_t used) noexcept {
  MultiReceive& rest = slots_.multi(slot);
  const uint64_t left = rest.left - used;
  if (left == 0 || left < min_multi_receive_) return false;
  rest.next += used;
  rest.left = left;
  LightGuard guard(lock_);
  if (!queue_.is_open() || slots_.closed()) return false;
  ReceiveList<1> list;
  list.add(rest.next, rest.left, rest.lkey, limits_);
  const ReceiveWork work = list.work(straight_, 0, nullptr);
  slot.len = static_cast<std::uint32_t>(list.len);
  return post(slot, work) == 0;
}

template <class Queue>
[[gnu::noinline, gnu::cold]] ssize_t PostedReceives<Queue>::refuse_straight(int error) noexcept {
  slots_.front().busy.store(false, std::memory_order_relaxed);
  return unlock_refused(lock_, error);
}

}  // namespace weft::verbs
