// SPDX-License-Identifier: BSD-2-Clause
// What one work completion leads to: the entry in the completion queue, the counters, and room in the work queue it
// came from. Everything here runs with the channel's lock held. fi_cq(3), ibv_poll_cq(3).
#include <arpa/inet.h>

#include <algorithm>
#include <utility>

#include "base/unremembered.h"
#include "verbs/cm_engine.h"
#include "verbs/completion_channel.h"
#include "verbs/completion_sink.h"
#include "verbs/datagram_endpoint.h"
#include "verbs/shared_receive.h"
#include "verbs/transfer_endpoint.h"

namespace weft::verbs {
namespace {

constexpr unsigned kIdleReads = 4096;  // a reader that finds nothing looks after connections so often
constexpr uint64_t kNativeFlags = ~uint64_t{Posted::kOurs};

// The record's receive has taken a message, and there is nothing else to say of it.
bool is_plain_receive(const Posted& slot, const ibv_wc& wc) noexcept {
  return slot.role == Posted::Role::kReceive && slot.flags == Posted::kReport && wc.status == IBV_WC_SUCCESS &&
         (wc.wc_flags & IBV_WC_WITH_IMM) == 0 && wc.byte_len <= slot.len;
}
// The same of a receive of a shared context, as far as the record knows.
bool is_plain_shared_receive(const Posted& slot, const ibv_wc& wc) noexcept {
  return slot.role == Posted::Role::kSharedReceive && (slot.flags & FI_MULTI_RECV) == 0 &&
         wc.status == IBV_WC_SUCCESS && (wc.wc_flags & IBV_WC_WITH_IMM) == 0 && wc.byte_len <= slot.len;
}
bool is_plain_send(const Posted& slot, const ibv_wc& wc) noexcept {
  return slot.role == Posted::Role::kTransmit && wc.status == IBV_WC_SUCCESS && (slot.flags & Posted::kCount) == 0;
}
// Whether it is a datagram of which there is nothing to say but its length: then the receive with that context has it.
[[gnu::always_inline]] inline bool take_datagram(const ibv_wc& wc, Posted& slot, void*& taker, size_t& len) noexcept {
  return slot.role == Posted::Role::kDatagram &&
         static_cast<DatagramEndpoint&>(*slot.endpoint).take_plain(wc, slot, taker, len);
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

// ---- Polling ----

inline void CompletionChannel::take(const ibv_wc& wc, Sink& sink) noexcept {
  Posted& slot = slot_of(wc);
  void* taker = nullptr;
  size_t len = 0;
  if (take_datagram(wc, slot, taker, len)) return sink.put_plain(taker, FI_RECV | FI_MSG, len);
  void* const context = slot.context;
  if (!is_plain_receive(slot, wc)) return dispatch(wc, slot, sink);
  slot.endpoint->receives_.give_back(slot);
  sink.put_plain(context, FI_RECV | FI_MSG, wc.byte_len);
}

int CompletionChannel::poll_locked(Sink& sink) noexcept {
  ibv_wc completions[Reading::kBatch];
  const int count = ibv_poll_cq(cq_.get(), Reading::kBatch, completions);
  for (int i = 0; i < count; ++i) take(completions[i], sink);
  return count;
}

// Rarely the reader has to wait for the device queue, or for what is staged.
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
  if (cm_engine_ != nullptr) cm_engine_->drive();
}

// Three functions, each for what is rarer than before, so that the first two need to save no registers: many readers
// find nothing, and most work completions tell of plain operations.

// Whatever else was polled, from `next` on, and more while the reader has room. Releases the lock.
[[gnu::noinline]] ssize_t CompletionChannel::give_rest_and_unlock(Reading& reading, const ibv_wc* next,
                                                                  int polled) noexcept {
  Sink& sink = reading.sink;
  sink.entry_size = sink.queue->entry_size();
  int wanted = static_cast<int>(std::min(reading.room, Reading::kBatch));
  for (;;) {
    for (; next != reading.completions + polled; ++next) take(*next, sink);
    if (polled < wanted || sink.count == sink.limit) break;
    wanted = reading.batch();
    polled = std::max(ibv_poll_cq(cq_.get(), wanted, reading.completions), 0);
    next = reading.completions;
  }
  lock_.unlock();
  if (sink.count == 0) return sink.queue->take_ready(sink.out, reading.room, sink.sources);
  if (sink.sources != nullptr) std::fill_n(sink.sources, sink.count, FI_ADDR_NOTAVAIL);
  return static_cast<ssize_t>(sink.count);
}

// Whether it is a message to such a receive of which there is nothing to say but its length. Datagrams are taken then.
template <Posted::Role kReceives>
[[gnu::always_inline]] inline bool CompletionChannel::is_plain(const ibv_wc& wc, Posted& slot, void*& taker,
                                                               size_t& len) noexcept {
  if constexpr (kReceives == Posted::Role::kDatagram) return take_datagram(wc, slot, taker, len);
  if constexpr (kReceives == Posted::Role::kReceive) return is_plain_receive(slot, wc);
  if (!is_plain_shared_receive(slot, wc)) return false;
  const TransferEndpoint* const endpoint = endpoint_of(wc, slot);
  return endpoint != nullptr && !endpoint->routes.receive_selective && !endpoint->routes.receive;
}

// There are `polled` work completions, of which those before `next` have been given. Releases the lock. Who has to look
// for other messages than those of receives of the endpoint's own is another function, because that takes registers.
template <Posted::Role kReceives>
[[gnu::noinline]] ssize_t CompletionChannel::give_and_unlock(Reading& reading, const ibv_wc* next,
                                                             int polled) noexcept {
  Sink& sink = reading.sink;
  const size_t size = sink.queue->entry_size();
  std::byte* out = sink.out;
  const ibv_wc* wc = next;
  const ibv_wc* const end = reading.completions + polled;
  do {
    Posted& slot = slot_of(*wc);
    void* taker = nullptr;
    size_t len = 0;
    if (is_plain<kReceives>(*wc, slot, taker, len)) {
      constexpr bool kDatagrams = kReceives == Posted::Role::kDatagram;
      Sink::store_plain(out, size, kDatagrams ? taker : slot.context, FI_RECV | FI_MSG,
                        kDatagrams ? len : wc->byte_len);
      if constexpr (kReceives == Posted::Role::kReceive) slot.endpoint->receives_.give_back(slot);
      if constexpr (kReceives == Posted::Role::kSharedReceive) slot.shared->give_back(slot);
      out += size;
      ++sink.count;
    } else if (is_plain_send(slot, *wc)) {
      if ((slot.flags & Posted::kReport) != 0) {
        Sink::store_plain(out, size, slot.context, slot.flags & kNativeFlags, 0);
        out += size;
        ++sink.count;
      }
      slot.endpoint->sends_.complete_through(slot);
    } else {
      break;
    }
  } while (++wc != end);
  if (wc != end || polled == reading.kBatch || sink.count == 0 || sink.sources != nullptr) [[unlikely]] {
    sink.out = out;
    if (kReceives == Posted::Role::kReceive && wc != end) {
      if (slot_of(*wc).role == Posted::Role::kDatagram)
        return give_and_unlock<Posted::Role::kDatagram>(reading, wc, polled);
      if (slot_of(*wc).role == Posted::Role::kSharedReceive)
        return give_and_unlock<Posted::Role::kSharedReceive>(reading, wc, polled);
    }
    return give_rest_and_unlock(reading, wc, polled);
  }
  lock_.unlock();
  return static_cast<ssize_t>(sink.count);
}

ssize_t CompletionChannel::read_into(CompletionQueueCore& queue, void* buf, size_t count, fi_addr_t* sources) noexcept {
  if (staged_count_.load(std::memory_order_relaxed) != 0 || !lock_.try_lock()) [[unlikely]]
    return progress_and_read(queue, buf, count, sources);
  // Whoever polled into the queue did so under the lock: what is there is older.
  if (queue.ready()) [[unlikely]]
    return unlock_and_read(queue, buf, count, sources);
  Reading reading;
  reading.room = count;
  reading.sink.queue = &queue;
  reading.sink.out = static_cast<std::byte*>(buf);
  reading.sink.limit = count;
  reading.sink.count = 0;
  reading.sink.sources = sources;
  const int polled = ibv_poll_cq(cq_.get(), static_cast<int>(std::min(count, Reading::kBatch)), reading.completions);
  if (polled > 0) return give_and_unlock<Posted::Role::kReceive>(reading, reading.completions, polled);
  CompletionChannel& self = unremembered(*this);
  const bool look_around = self.idle_reads_++ % kIdleReads == 0;
  self.lock_.unlock();
  if (look_around) [[unlikely]]
    self.drive_connections();
  return -FI_EAGAIN;
}

// ---- One work completion ----

void CompletionChannel::dispatch(const ibv_wc& wc, Posted& slot, Sink& sink) noexcept {
  switch (slot.role) {
    case Posted::Role::kTransmit:
      if (wc.status == IBV_WC_SUCCESS) [[likely]]
        return on_transmitted(slot, sink);
      return on_transmit_failed(slot, wc.status, sink);
    case Posted::Role::kReceive:
    case Posted::Role::kSharedReceive:
      if (wc.status == IBV_WC_SUCCESS) [[likely]]
        return on_received(wc, slot, sink);
      return on_receive_failed(wc, slot, sink);
    case Posted::Role::kDatagram:
      return on_datagram(wc, slot, sink);
    case Posted::Role::kMarker:
      slot.endpoint->marker_seen_.store(true, std::memory_order_release);
      return;
    case Posted::Role::kProbe:
      return slot.endpoint->on_probed(wc.status);
  }
}

void CompletionChannel::on_datagram(const ibv_wc& wc, Posted& slot, Sink& sink) noexcept {
  struct Routes {
    void received(const Completion& completion, bool report) noexcept {
      if (routes.receive) routes.receive->add(1);
      if (report) sink.put(completion);
    }
    void receive_failed(const CompletionError& error) noexcept {
      if (routes.receive) routes.receive->add_error(1);
      sink.put_error(error);
    }
    CompletionRoutes& routes;
    Sink& sink;
    const bool receive_selective = routes.receive_selective;
  };
  auto& endpoint = static_cast<DatagramEndpoint&>(*slot.endpoint);
  Routes to{endpoint.routes, sink};
  endpoint.on_datagram(wc, slot, to);
}

void CompletionChannel::on_transmitted(Posted& slot, Sink& sink) noexcept {
  TransferEndpoint& endpoint = *slot.endpoint;
  const uint32_t flags = slot.flags;
  void* const context = slot.context;
  endpoint.sends_.complete_through(slot);
  if ((flags & Posted::kCount) != 0) endpoint.routes.transmit_counter(flags)->add(1);
  if ((flags & Posted::kReport) != 0) sink.put_plain(context, flags & kNativeFlags, 0);
}

// A failure is reported whether or not a completion was asked for.
void CompletionChannel::on_transmit_failed(Posted& slot, ibv_wc_status status, Sink& sink) noexcept {
  TransferEndpoint& endpoint = *slot.endpoint;
  if (status != IBV_WC_WR_FLUSH_ERR) endpoint.on_transfer_failed(status);
  if ((slot.flags & Posted::kFirstHalf) != 0) {
    endpoint.sends_.after(slot).status = static_cast<uint8_t>(status);
    endpoint.sends_.complete_through(slot);
    return;
  }
  if (slot.status != 0) status = static_cast<ibv_wc_status>(std::exchange(slot.status, uint8_t{0}));
  CompletionError failed;
  failed.context = slot.context;
  failed.flags = slot.flags & kNativeFlags;
  failed.err = from_wc_status(status, false);
  failed.prov_errno = status;
  const bool counted = (slot.flags & Posted::kCount) != 0;
  endpoint.sends_.complete_through(slot);
  if (counted) endpoint.routes.transmit_counter(failed.flags)->add_error(1);
  sink.put_error(failed);
}

// Null for a shared receive of a queue pair that ended meanwhile.
TransferEndpoint* CompletionChannel::endpoint_of(const ibv_wc& wc, const Posted& slot) noexcept {
  if (slot.role == Posted::Role::kReceive) return slot.endpoint;
  if (last_sender_ != nullptr && last_sender_number_ == wc.qp_num) return last_sender_;
  const auto found = endpoints_.find(wc.qp_num);
  if (found == endpoints_.end()) return nullptr;
  last_sender_number_ = wc.qp_num;
  return last_sender_ = found->second;
}

void CompletionChannel::free_receive(Posted& slot) noexcept {
  if (slot.role == Posted::Role::kReceive) return slot.endpoint->receives_.give_back(slot);
  slot.shared->give_back(slot);
}

// The message that `wc` tells of lies in a multi-receive buffer. true: the rest of it was posted again, because it is
// worth it. (A write with immediate data took the work request and none of the buffer.)
bool CompletionChannel::continue_multi(const ibv_wc& wc, Posted& slot, MultiReceive& multi) noexcept {
  const uint32_t used = wc.opcode == IBV_WC_RECV ? wc.byte_len : 0;
  const uint64_t left = multi.left - used;
  const bool shared = slot.role == Posted::Role::kSharedReceive;
  const size_t minimum = shared ? slot.shared->min_multi_receive_ : slot.endpoint->min_multi_receive_;
  if (left == 0 || left < minimum) return false;
  multi.next += used;
  multi.left = left;
  return shared ? slot.shared->post_again(slot, multi) : slot.endpoint->post_again(slot, multi);
}

void CompletionChannel::on_received(const ibv_wc& wc, Posted& slot, Sink& sink) noexcept {
  TransferEndpoint* const endpoint = endpoint_of(wc, slot);
  Completion completion{.context = slot.context, .flags = received_flags(wc), .len = wc.byte_len};
  if ((wc.wc_flags & IBV_WC_WITH_IMM) != 0) completion.data = ntohl(wc.imm_data);
  const bool message = (completion.flags & FI_RECV) != 0;
  bool report = (slot.flags & Posted::kReport) != 0 || !message;
  // Only now it is known whose binding decides.
  if (slot.role == Posted::Role::kSharedReceive && endpoint != nullptr && !endpoint->routes.receive_selective)
    report = true;
  const uint32_t room = slot.len;
  const bool truncated = message && wc.byte_len > room;

  bool keeps_record = false;
  if ((slot.flags & FI_MULTI_RECV) != 0) [[unlikely]] {
    MultiReceive& multi =
        slot.role == Posted::Role::kReceive ? slot.endpoint->receives_.multi(slot) : slot.shared->slots_.multi(slot);
    if (message) completion.buf = multi.next;
    keeps_record = !truncated && continue_multi(wc, slot, multi);
    if (!keeps_record) completion.flags |= FI_MULTI_RECV;
    report = report || !keeps_record;
  }
  if (!keeps_record) free_receive(slot);
  CounterCore* counter = nullptr;
  if (endpoint != nullptr) counter = message ? endpoint->routes.receive.get() : endpoint->routes.remote_write.get();
  if (truncated) [[unlikely]] {
    // The rest lies in the domain's spill memory, so that the connection lives.
    CompletionError error;
    static_cast<Completion&>(error) = completion;
    error.len = room;
    error.olen = wc.byte_len - room;
    error.err = FI_ETRUNC;
    error.prov_errno = IBV_WC_LOC_LEN_ERR;
    if (counter != nullptr) counter->add_error(1);
    return sink.put_error(error);
  }
  if (counter != nullptr) counter->add(1);
  if (report) sink.put(completion);
}

void CompletionChannel::on_receive_failed(const ibv_wc& wc, Posted& slot, Sink& sink) noexcept {
  TransferEndpoint* const endpoint = endpoint_of(wc, slot);
  CompletionError failed;
  failed.context = slot.context;
  failed.flags = FI_RECV | FI_MSG | (slot.flags & FI_MULTI_RECV);
  failed.err = from_wc_status(wc.status, true);
  failed.prov_errno = wc.status;
  free_receive(slot);
  if (endpoint != nullptr) {
    if (wc.status != IBV_WC_WR_FLUSH_ERR) endpoint->on_transfer_failed(wc.status);
    if (endpoint->routes.receive) endpoint->routes.receive->add_error(1);
  }
  sink.put_error(failed);
}

}  // namespace weft::verbs
