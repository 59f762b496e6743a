// SPDX-License-Identifier: BSD-2-Clause
// One device completion queue (ibv_cq) and the channel of its interrupts: the progress engine of a fi_cq(3) of this
// provider. Work completions are polled in batches and become entries of the queue, or go straight into a reader's
// buffer.
//
// Its lock guards polling. Polled completions are written (to the queue, to counters, to the endpoints' work queues)
// before the lock is released, so the application gets the device's order. Under it, only an endpoint's lock for
// receives and the locks of queues and counters may be taken.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/fi_domain.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>

#include "base/deadline.h"
#include "base/light_lock.h"
#include "base/list.h"
#include "base/mutex.h"
#include "base/ref.h"
#include "base/status.h"
#include "objects/completion_queue.h"
#include "verbs/device/device.h"
#include "verbs/device/verbs_handles.h"
#include "verbs/transfer/work_queue.h"

namespace weft::verbs {

class CmEngine;
class DomainServices;
class ReceiveQueue;
class SendChain;
class SharedReceive;

// The destination of polled completions: a reader's buffer while it has room and no error occurred, otherwise the
// queue.
struct CompletionSink {
  CompletionQueueCore* queue = nullptr;
  std::byte* out = nullptr;  // next entry in the reader's buffer
  size_t entry_size = 0;
  size_t limit = 0;              // entries that the reader has room for
  size_t count = 0;              // entries given to the reader
  fi_addr_t* sources = nullptr;  // the reader's array of sources; may be null

  void put(const Completion& completion) noexcept {
    // A reader's buffer has no place for sources.
    if (completion.src_addr != FI_ADDR_NOTAVAIL) [[unlikely]]
      limit = count;
    if (count != limit) [[likely]] {
      copy_entry(out, &completion, entry_size);
      out += entry_size;
      ++count;
    } else {
      put_in_queue(completion);
    }
  }
  // put() for a completion without further fields.
  void put_plain(void* context, uint64_t flags, size_t len) noexcept {
    if (count == limit) [[unlikely]]
      return put_in_queue({.context = context, .flags = flags, .len = len});
    store_plain(out, entry_size, context, flags, len);
    out += entry_size;
    ++count;
  }
  [[gnu::always_inline]] static void store_plain(std::byte* entry, size_t size, void* context, uint64_t flags,
                                                 size_t len) noexcept {
    auto* const to = reinterpret_cast<fi_cq_tagged_entry*>(entry);
    to->op_context = context;
    if (size <= sizeof(fi_cq_entry)) return;
    to->flags = flags;
    to->len = len;
    if (size <= sizeof(fi_cq_msg_entry)) return;
    to->buf = nullptr;
    to->data = 0;
    if (size > sizeof(fi_cq_data_entry)) to->tag = 0;
  }
  // Entries after an error must not overtake it.
  void put_error(const CompletionError& error) noexcept {
    limit = count;
    if (queue != nullptr) queue->write_error(error);
  }

 private:
  [[gnu::noinline]] void put_in_queue(Completion completion) noexcept {
    if (queue != nullptr) queue->write(completion);
  }
};

// The number of reads without a result between two checks of the connections: about kInterval of time, however often
// the application reads. Only a check reads the clock.
class IdleReads {
 public:
  // Counts a read. true: a check is due.
  bool count() noexcept { return --left_ == 0; }
  void looked(Clock::time_point now) noexcept {
    const Clock::duration elapsed = std::max(now - std::exchange(looked_at_, now), Clock::duration(1));
    const Clock::rep wanted = step_ * kInterval / elapsed;
    left_ = step_ = static_cast<unsigned>(std::clamp<Clock::rep>(wanted, 1, std::min(2 * step_, kMost)));
  }

 private:
  static constexpr Clock::duration kInterval = std::chrono::milliseconds(1);
  static constexpr unsigned kMost = 1024;  // bounds the delay when the application begins to read seldom

  unsigned left_ = 1;
  unsigned step_ = 1;
  Clock::time_point looked_at_{};
};

// Owner: its completion queue (release()), or the domain for the channel of endpoints without queues. Thread-safe.
// Meets ProgressEngine and ReadsDirectly.
class CompletionChannel final : public OverrunHandler {
 public:
  // `attr` may be null: no application reads it. -FI_EINVAL for a signalling vector that the device lacks.
  static Result<std::unique_ptr<CompletionChannel>> open(DomainServices& domain, const fi_cq_attr* attr);
  ~CompletionChannel();

  DomainServices& domain() const noexcept { return domain_; }
  ibv_cq* cq() const noexcept { return cq_.get(); }
  LightLock& lock() noexcept { return lock_; }  // guards polling
  // Sets the queue for completions; null: they are only counted. (The thread of a wait set that the queue has joined
  // may poll already.)
  void serve(CompletionQueueCore* queue) noexcept {
    LightGuard guard(lock_);
    queue_ = queue;
  }

  // Reserves entries in the device queue for operations that may be outstanding; the queue grows up to the device's
  // limit. Beyond it the application must leave depth unused or read in time; otherwise it gets the overrun. A shared
  // context counts once, however many endpoints draw from it.
  Status reserve(unsigned entries) noexcept;
  void give_back(unsigned entries) noexcept;
  Status reserve(const SharedReceive& shared, unsigned entries) noexcept;
  void give_back(const SharedReceive& shared) noexcept;

  // Registers the endpoint of a queue pair, to which its completions of shared receives belong.
  Status add_receiver(std::uint32_t qp_number, ReceiveQueue& receiver) noexcept;
  // Unless another endpoint has the number by now.
  void remove_receiver(std::uint32_t qp_number, const ReceiveQueue& receiver) noexcept;

  // Meets ProgressEngine. drive() also drives connections, unless a thread does that.
  void drive() noexcept;
  bool prepare_wait() noexcept;
  // The descriptor for transfers; wait_fds() adds that of connections where no thread drives them.
  int wait_fd() const noexcept { return wait_fds_[0]; }
  std::span<const int> wait_fds() const noexcept { return {wait_fds_.data(), watches_connections_ ? size_t{2} : 1}; }

  // Meets ReadsDirectly. The fast path of reading: up to `room` entries from the device into `buf` if the queue holds
  // no older ones.
  ssize_t read_into(CompletionQueueCore& queue, void* buf, size_t room, fi_addr_t* sources) noexcept;
  // The completion queue was closed.
  void release() noexcept { delete this; }

  void on_overrun() noexcept override;

  // Transfers only: posts staged chains, writes completions.
  void progress() noexcept;
  // Empties the device queue.
  void poll_all() noexcept;
  // A work queue is full: polls, unless the application's queue is full, too.
  void make_room() noexcept;

  // A chain of work requests waits for more (FI_MORE): the next progress posts it, unless it is taken back. Called with
  // the queue's lock held.
  void stage(SendChain& chain) noexcept;
  void unstage(SendChain& chain) noexcept;

 private:
  struct Reading;
  CompletionChannel(DomainServices& domain, bool owned_by_queue) noexcept;
  Status create(const fi_cq_attr& attr);
  Status open_descriptors(const fi_cq_attr& attr);
  Status grow_locked(unsigned entries) noexcept;
  void poll_all_locked() noexcept;
  void flush_staged() noexcept;

  // work_completion.cc: handling of work completions.
  int poll_locked(CompletionSink& sink) noexcept;
  ssize_t deliver_one_shared(Reading& reading, const ibv_wc* wc) noexcept;
  ssize_t deliver_shared(Reading& reading, const ibv_wc* wc) noexcept;
  ssize_t deliver_to_another(Reading& reading, const ibv_wc* wc) noexcept;
  ssize_t deliver_datagrams(Reading& reading, const ibv_wc* wc) noexcept;
  template <class Store>
  const ibv_wc* deliver_plain(Reading& reading, const ibv_wc* wc, Store store) noexcept;
  ssize_t end_tier(Reading& reading, const ibv_wc* wc) noexcept;
  ssize_t deliver_rest(Reading& reading, const ibv_wc* next) noexcept;
  ssize_t progress_and_read(CompletionQueueCore& queue, void* buf, size_t count, fi_addr_t* sources) noexcept;
  ssize_t unlock_and_read(CompletionQueueCore& queue, void* buf, size_t count, fi_addr_t* sources) noexcept;
  void drive_connections() noexcept;
  void take(const ibv_wc& wc, CompletionSink& sink) noexcept;
  void dispatch(const ibv_wc& wc, Posted& slot, CompletionSink& sink) noexcept;
  ReceiveQueue* receiver_of(std::uint32_t qp_number) noexcept;

  DomainServices& domain_;
  const Ref<DomainServices> domain_ref_;  // unless the domain owns it
  CmEngine* cm_engine_ = nullptr;         // driven by readers of completions; null: by a thread
  CompletionQueueCore* queue_ = nullptr;
  bool watches_connections_ = false;
  std::array<int, 2> wait_fds_{-1, -1};  // descriptors of events_ and cm_engine_
  CompletionChannelHandle events_;
  CompletionQueueHandle cq_;

  LightLock lock_;  // guards cq_ and the rest up to staged_count_
  IdleReads idle_reads_;
  unsigned reserved_ = 0;
  unsigned unacknowledged_ = 0;  // events
  struct SharedUse {
    unsigned entries = 0;
    unsigned endpoints = 0;
  };
  std::unordered_map<const SharedReceive*, SharedUse> shared_;
  std::unordered_map<std::uint32_t, ReceiveQueue*> receivers_;  // by queue pair, if they draw from a shared context
  std::uint32_t last_receiver_number_ = 0;                      // queue pair of the last message to a shared receive
  ReceiveQueue* last_receiver_ = nullptr;                       // null: look it up

  std::atomic<unsigned> staged_count_{0};
  LightLock staged_lock_;  // after an endpoint's lock for sends, which is only tried under it
  List<SendChain> staged_;
};

}  // namespace weft::verbs
