// SPDX-License-Identifier: BSD-2-Clause
// Handling of work completions: the entry in the completion queue, the counters, and room in the work queue. It runs
// with the channel's lock held. fi_cq(3), ibv_poll_cq(3).
//
// A reader's call goes through tiers, each a function of its own, so that the frequent ones save no registers:
// - read_into polls, and delivers plain messages and sends at the front of a batch, in a loop without calls;
// - deliver_one_shared and deliver_shared continue with plain messages of queue pairs that share receives,
//   deliver_datagrams with plain datagrams;
// - deliver_rest handles everything else, with a dispatch() of each work completion.
// progress_and_read() and unlock_and_read() serve readers that find staged chains, a taken lock or older entries.
#include <arpa/inet.h>

#include <algorithm>

#include "base/data_path.h"
#include "verbs/cm/cm_engine.h"
#include "verbs/transfer/completion_channel.h"
#include "verbs/transfer/completion_status.h"
#include "verbs/transfer/datagram_receives.h"
#include "verbs/transfer/receive_queue.h"
#include "verbs/transfer/send_queue.h"

namespace weft::verbs {
namespace {

// Whether only the length of the message is to be reported: no error, no immediate data, not truncated. The next two
// are for the receives of a queue pair, and of a shared context as far as the record shows.
bool is_plain_message(const Posted& slot, const ibv_wc& wc) noexcept {
  return wc.status == IBV_WC_SUCCESS && (wc.wc_flags & IBV_WC_WITH_IMM) == 0 && wc.byte_len <= slot.len;
}
bool is_plain_receive(const Posted& slot, const ibv_wc& wc) noexcept {
  return slot.role == Posted::Role::kReceive && slot.flags == Posted::kReport && is_plain_message(slot, wc);
}
bool is_plain_shared_receive(const Posted& slot, const ibv_wc& wc) noexcept {
  return slot.role == Posted::Role::kSharedReceive && (slot.flags & FI_MULTI_RECV) == 0 && is_plain_message(slot, wc);
}
bool is_plain_send(const Posted& slot, const ibv_wc& wc) noexcept {
  return slot.role == Posted::Role::kTransmit && wc.status == IBV_WC_SUCCESS && (slot.flags & Posted::kCount) == 0;
}
// False: the success of the send is not reported.
[[gnu::always_inline]] inline bool take_plain_send(const Posted& slot, std::byte* entry, size_t size) noexcept {
  const bool report = (slot.flags & Posted::kReport) != 0;
  if (report) CompletionSink::store_plain(entry, size, slot.context, slot.flags & ~uint64_t{Posted::kOurs}, 0);
  slot.sends->complete_through(slot);
  return report;
}
// Takes a datagram that needs nothing beyond its length reported; sets the context of its receive. False: not such a
// datagram, nothing was taken.
[[gnu::always_inline]] inline bool take_plain_datagram(const ibv_wc& wc, Posted& slot, void*& taker,
                                                       size_t& len) noexcept {
  return slot.role == Posted::Role::kDatagram && slot.datagrams->take_plain(wc, slot, taker, len);
}
Posted& slot_of(const ibv_wc& wc) noexcept {
  return *reinterpret_cast<Posted*>(static_cast<uintptr_t>(wc.wr_id));
}

uint64_t received_flags(const ibv_wc& wc) noexcept {
  const uint64_t data = (wc.wc_flags & IBV_WC_WITH_IMM) != 0 ? FI_REMOTE_CQ_DATA : 0;
  if (wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM) return FI_RMA | FI_REMOTE_WRITE | data;
  return FI_RECV | FI_MSG | data;
}

}  // namespace

// One call of a reader, with the work completions polled for it.
struct CompletionChannel::Reading {
  static constexpr size_t kBatch = 16;
  CompletionQueueCore* queue;
  std::byte* out;  // next entry in the reader's buffer
  size_t room;     // entries, as passed by the reader
  size_t count;    // entries given to the reader
  fi_addr_t* sources;
  int polled;
  ibv_wc completions[kBatch];

  const ibv_wc* end() const noexcept { return completions + polled; }
};

// ---- Polling ----

inline void CompletionChannel::take(const ibv_wc& wc, CompletionSink& sink) noexcept {
  Posted& slot = slot_of(wc);
  void* taker = nullptr;
  size_t len = 0;
  if (take_plain_datagram(wc, slot, taker, len)) return sink.put_plain(taker, FI_RECV | FI_MSG, len);
  void* const context = slot.context;
  if (!is_plain_receive(slot, wc)) return dispatch(wc, slot, sink);
  slot.receives->give_back(slot);
  sink.put_plain(context, FI_RECV | FI_MSG, wc.byte_len);
}

int CompletionChannel::poll_locked(CompletionSink& sink) noexcept {
  ibv_wc completions[Reading::kBatch];
  const int count = ibv_poll_cq(cq_.get(), Reading::kBatch, completions);
  for (int i = 0; i < count; ++i) take(completions[i], sink);
  return count;
}

// Rare: chains are staged, or another thread polls.
[[gnu::noinline]] ssize_t CompletionChannel::progress_and_read(CompletionQueueCore& queue, void* buf, size_t count,
                                                               fi_addr_t* sources) noexcept {
  progress();
  return queue.take_ready(buf, count, sources);
}

[[gnu::noinline]] ssize_t CompletionChannel::unlock_and_read(CompletionQueueCore& queue, void* buf, size_t count,
                                                             fi_addr_t* sources) noexcept {
  lock_.unlock();
  return queue.take_ready(buf, count, sources);
}

[[gnu::noinline]] void CompletionChannel::drive_connections() noexcept {
  {
    LightGuard guard(lock_);
    idle_reads_.looked(Clock::now());
  }
  if (cm_engine_ != nullptr) cm_engine_->drive();
}

// Handles the remaining work completions from `next` on, and polls more while the reader has room. Releases the lock.
[[gnu::noinline]] ssize_t CompletionChannel::deliver_rest(Reading& reading, const ibv_wc* next) noexcept {
  CompletionQueueCore& queue = *reading.queue;
  CompletionSink sink{&queue, reading.out, queue.entry_size(), reading.room, reading.count, reading.sources};
  int wanted = static_cast<int>(std::min(reading.room, Reading::kBatch));
  for (;;) {
    for (; next != reading.end(); ++next) take(*next, sink);
    if (reading.polled < wanted || sink.count == sink.limit) break;
    wanted = static_cast<int>(std::min(sink.limit - sink.count, Reading::kBatch));
    reading.polled = std::max(ibv_poll_cq(cq_.get(), wanted, reading.completions), 0);
    next = reading.completions;
  }
  lock_.unlock();
  if (sink.count == 0) return queue.take_ready(sink.out, reading.room, sink.sources);
  if (sink.sources != nullptr) std::fill_n(sink.sources, sink.count, FI_ADDR_NOTAVAIL);
  return static_cast<ssize_t>(sink.count);
}

// The end of a tier that has stopped at `wc`. Releases the lock.
[[gnu::always_inline]] inline ssize_t CompletionChannel::end_tier(Reading& reading, const ibv_wc* wc) noexcept {
  if (wc != reading.end() || reading.polled == Reading::kBatch || reading.count == 0 || reading.sources != nullptr)
      [[unlikely]]
    return deliver_rest(reading, wc);
  lock_.unlock();
  return static_cast<ssize_t>(reading.count);
}

// Delivers plain sends, and what `store` takes and writes to its second argument, from `wc` on, in a loop without
// calls. Returns where it stopped.
template <class Store>
[[gnu::always_inline]] inline const ibv_wc* CompletionChannel::deliver_plain(Reading& reading, const ibv_wc* wc,
                                                                             Store store) noexcept {
  const size_t size = reading.queue->entry_size();
  std::byte* out = reading.out;
  for (const ibv_wc* const end = reading.end(); wc != end; ++wc) {
    if (!store(*wc, out, size)) {
      Posted& slot = slot_of(*wc);
      if (!is_plain_send(slot, *wc)) break;
      if (!take_plain_send(slot, out, size)) continue;
    }
    out += size;
    ++reading.count;
  }
  reading.out = out;
  return wc;
}

// The message at `wc` came to another queue pair than the last one.
[[gnu::noinline]] ssize_t CompletionChannel::deliver_to_another(Reading& reading, const ibv_wc* wc) noexcept {
  return receiver_of(wc->qp_num) != nullptr ? deliver_shared(reading, wc) : deliver_rest(reading, wc);
}

// Continues at `wc`, where read_into() stopped. Releases the lock.
[[gnu::noinline]] ssize_t CompletionChannel::deliver_shared(Reading& reading, const ibv_wc* wc) noexcept {
  bool to_another = false;
  wc = deliver_plain(reading, wc, [&](const ibv_wc& each, std::byte* out, size_t size) noexcept {
    Posted& slot = slot_of(each);
    if (!is_plain_shared_receive(slot, each)) return false;
    to_another = last_receiver_ == nullptr || last_receiver_number_ != each.qp_num;
    if (to_another || !last_receiver_->is_plain()) [[unlikely]]
      return false;
    CompletionSink::store_plain(out, size, slot.context, FI_RECV | FI_MSG, each.byte_len);
    slot.shared->give_back(slot);
    return true;
  });
  return to_another ? deliver_to_another(reading, wc) : end_tier(reading, wc);
}

// Mostly one such message comes at a time.
[[gnu::noinline]] ssize_t CompletionChannel::deliver_one_shared(Reading& reading, const ibv_wc* wc) noexcept {
  Posted& slot = slot_of(*wc);
  if (reading.polled != 1 || reading.sources != nullptr || !is_plain_shared_receive(slot, *wc) ||
      last_receiver_ == nullptr || last_receiver_number_ != wc->qp_num || !last_receiver_->is_plain()) [[unlikely]]
    return deliver_shared(reading, wc);
  CompletionSink::store_plain(reading.out, reading.queue->entry_size(), slot.context, FI_RECV | FI_MSG, wc->byte_len);
  slot.shared->give_back(slot);
  lock_.unlock();
  return 1;
}

// deliver_shared() for datagrams.
[[gnu::noinline]] ssize_t CompletionChannel::deliver_datagrams(Reading& reading, const ibv_wc* wc) noexcept {
  wc = deliver_plain(reading, wc, [](const ibv_wc& each, std::byte* out, size_t size) noexcept {
    void* taker = nullptr;
    size_t len = 0;
    if (!take_plain_datagram(each, slot_of(each), taker, len)) return false;
    CompletionSink::store_plain(out, size, taker, FI_RECV | FI_MSG, len);
    return true;
  });
  return end_tier(reading, wc);
}

ssize_t CompletionChannel::read_into(CompletionQueueCore& queue, void* buf, size_t room, fi_addr_t* sources) noexcept {
  if (staged_count_.load(std::memory_order_relaxed) != 0 || !lock_.try_lock()) [[unlikely]]
    return progress_and_read(queue, buf, room, sources);
  // Entries in the queue were written under the lock: they are older.
  if (queue.ready()) [[unlikely]]
    return unlock_and_read(queue, buf, room, sources);
  Reading reading;
  reading.queue = &queue;
  reading.out = static_cast<std::byte*>(buf);
  reading.room = room;
  reading.sources = sources;
  const int polled = ibv_poll_cq(cq_.get(), static_cast<int>(std::min(room, Reading::kBatch)), reading.completions);
  CompletionChannel& self = reload(*this);
  if (polled <= 0) {
    const bool polls_sources = self.idle_reads_.count();
    self.lock_.unlock();
    if (polls_sources) [[unlikely]]
      self.drive_connections();
    return -FI_EAGAIN;
  }
  reading.polled = polled;
  const size_t size = reading.queue->entry_size();
  std::byte* out = reading.out;
  auto count = static_cast<size_t>(polled);
  const ibv_wc* wc = reading.completions;
  const ibv_wc* const end = reading.end();
  const auto stop = [&]() noexcept {
    reading.out = out;
    reading.count = count - static_cast<size_t>(end - wc);
    const bool shares = wc != end && slot_of(*wc).role == Posted::Role::kSharedReceive;
    return shares ? self.deliver_one_shared(reading, wc) : self.deliver_datagrams(reading, wc);
  };
  do {
    Posted& slot = slot_of(*wc);
    if (slot.role == Posted::Role::kTransmit) {
      if (!is_plain_send(slot, *wc)) [[unlikely]]
        return stop();
      if (!take_plain_send(slot, out, size)) {
        --count;
        continue;
      }
    } else {
      if (slot.role != Posted::Role::kReceive || slot.flags != Posted::kReport || !is_plain_message(slot, *wc))
          [[unlikely]]
        return stop();
      CompletionSink::store_plain(out, size, slot.context, FI_RECV | FI_MSG, wc->byte_len);
      slot.receives->give_back(slot);
    }
    out += size;
  } while (++wc != end);
  if (count == 0 || reading.polled == Reading::kBatch || reading.sources != nullptr) [[unlikely]]
    return stop();
  self.lock_.unlock();
  return static_cast<ssize_t>(count);
}

// ---- Chains of work requests ----

void CompletionChannel::stage(SendChain& chain) noexcept {
  LightGuard guard(staged_lock_);
  if (chain.linked()) return;
  staged_.push_back(chain);
  staged_count_.fetch_add(1, std::memory_order_relaxed);
}

void CompletionChannel::unstage(SendChain& chain) noexcept {
  LightGuard guard(staged_lock_);
  if (!chain.linked()) return;
  chain.unlink();
  staged_count_.fetch_sub(1, std::memory_order_relaxed);
}

void CompletionChannel::flush_staged() noexcept {
  LightGuard guard(staged_lock_);
  staged_.for_each([&](SendChain& chain) noexcept {
    if (!chain.owner().try_flush()) return;
    chain.unlink();
    staged_count_.fetch_sub(1, std::memory_order_relaxed);
  });
}

// ---- One work completion ----

namespace {

void take_datagram(const ibv_wc& wc, Posted& slot, CompletionSink& sink) noexcept {
  struct Routes {
    void received(const Completion& completion, bool report) noexcept {
      if (routes.receive) routes.receive->add(1);
      if (report) sink.put(completion);
    }
    void receive_failed(const CompletionError& error) noexcept {
      if (routes.receive) routes.receive->add_error();
      sink.put_error(error);
    }
    CompletionRoutes& routes;
    CompletionSink& sink;
    const bool receive_selective = routes.receive_selective;
  };
  Routes to{slot.datagrams->routes(), sink};
  slot.datagrams->on_completed(wc, slot, to);
}

template <class Receives>
void fail_receive(const ibv_wc& wc, Posted& slot, Receives& from, ReceiveQueue* to, CompletionSink& sink) noexcept {
  const CompletionError failed{{.context = slot.context, .flags = FI_RECV | FI_MSG | (slot.flags & FI_MULTI_RECV)},
                               0,
                               from_wc_status(wc.status, true),
                               wc.status};
  from.give_back(slot);
  if (to != nullptr) {
    if (wc.status != IBV_WC_WR_FLUSH_ERR) to->routes().owner.on_transfer_failed(wc.status);
    if (to->routes().receive) to->routes().receive->add_error();
  }
  sink.put_error(failed);
}

// A receive that was posted to `from` has completed. `to`: of the endpoint that got the message; null: it has ended.
template <class Receives>
void take_receive(const ibv_wc& wc, Posted& slot, Receives& from, ReceiveQueue* to, CompletionSink& sink) noexcept {
  if (wc.status != IBV_WC_SUCCESS) [[unlikely]]
    return fail_receive(wc, slot, from, to, sink);
  Completion completion{.context = slot.context, .flags = received_flags(wc), .len = wc.byte_len};
  if ((wc.wc_flags & IBV_WC_WITH_IMM) != 0) completion.data = ntohl(wc.imm_data);
  const bool message = (completion.flags & FI_RECV) != 0;
  bool report = (slot.flags & Posted::kReport) != 0 || !message;
  // The binding of the receiving endpoint decides.
  if (slot.role == Posted::Role::kSharedReceive && to != nullptr && !to->routes().receive_selective) report = true;
  const uint32_t room = slot.len;
  const bool truncated = message && wc.byte_len > room;

  bool keeps_record = false;
  if ((slot.flags & FI_MULTI_RECV) != 0) [[unlikely]] {
    if (message) completion.buf = from.multi(slot).next;
    // A write with immediate data used the work request and none of the buffer.
    keeps_record = !truncated && from.post_rest(slot, wc.opcode == IBV_WC_RECV ? wc.byte_len : 0);
    if (!keeps_record) completion.flags |= FI_MULTI_RECV;
    report = report || !keeps_record;
  }
  if (!keeps_record) from.give_back(slot);
  CounterCore* counter = nullptr;
  if (to != nullptr) counter = message ? to->routes().receive.get() : to->routes().remote_write.get();
  if (truncated) [[unlikely]] {
    // The excess is in the domain's spill memory, and the connection survives.
    completion.len = room;
    if (counter != nullptr) counter->add_error();
    return sink.put_error({completion, wc.byte_len - room, FI_ETRUNC, IBV_WC_LOC_LEN_ERR});
  }
  if (counter != nullptr) counter->add(1);
  if (report) sink.put(completion);
}

}  // namespace

void CompletionChannel::dispatch(const ibv_wc& wc, Posted& slot, CompletionSink& sink) noexcept {
  switch (slot.role) {
    case Posted::Role::kTransmit:
      return slot.sends->on_completed(slot, wc.status, sink);
    case Posted::Role::kMarker:
    case Posted::Role::kProbe:
      return slot.sends->on_own_completed(slot, wc.status);
    case Posted::Role::kReceive:
      return take_receive(wc, slot, *slot.receives, slot.receives, sink);
    case Posted::Role::kSharedReceive:
      return take_receive(wc, slot, *slot.shared, receiver_of(wc.qp_num), sink);
    case Posted::Role::kDatagram:
      return take_datagram(wc, slot, sink);
  }
}

// Null: a queue pair that has ended.
ReceiveQueue* CompletionChannel::receiver_of(std::uint32_t qp_number) noexcept {
  if (last_receiver_ != nullptr && last_receiver_number_ == qp_number) return last_receiver_;
  const auto found = receivers_.find(qp_number);
  if (found == receivers_.end()) return nullptr;
  last_receiver_number_ = qp_number;
  return last_receiver_ = found->second;
}

}  // namespace weft::verbs
