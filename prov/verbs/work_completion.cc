// SPDX-License-Identifier: BSD-2-Clause
// What one work completion leads to: the entry in the completion queue, the counters, and room in the work queue it
// came from. Everything here runs with the channel's lock held. fi_cq(3), ibv_poll_cq(3).
#include <arpa/inet.h>

#include "verbs/completion_channel.h"
#include "verbs/completion_sink.h"
#include "verbs/datagram_endpoint.h"
#include "verbs/shared_receive.h"
#include "verbs/transfer_endpoint.h"

namespace weft::verbs {
namespace {

constexpr uint64_t kNativeFlags = ~uint64_t{Posted::kOurs};

uint64_t received_flags(const ibv_wc& wc) noexcept {
  const uint64_t data = (wc.wc_flags & IBV_WC_WITH_IMM) != 0 ? FI_REMOTE_CQ_DATA : 0;
  if (wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM) return FI_RMA | FI_REMOTE_WRITE | data;
  return FI_RECV | FI_MSG | data;
}

}  // namespace

void CompletionChannel::dispatch(const ibv_wc& wc, Sink& sink) noexcept {
  Posted& slot = *reinterpret_cast<Posted*>(static_cast<uintptr_t>(wc.wr_id));
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
  if ((flags & Posted::kReport) != 0) sink.put({.context = context, .flags = flags & kNativeFlags});
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
  if (slot.status != 0) status = static_cast<ibv_wc_status>(slot.status);
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
  const auto found = endpoints_.find(wc.qp_num);
  return found != endpoints_.end() ? found->second : nullptr;
}

void CompletionChannel::free_receive(Posted& slot) noexcept {
  if (slot.role == Posted::Role::kReceive) [[likely]]
    return slot.endpoint->receives_.give_back(slot);
  LightGuard guard(slot.shared->lock_);
  slot.shared->slots_.give_back(slot);
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
