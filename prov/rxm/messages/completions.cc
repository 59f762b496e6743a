// SPDX-License-Identifier: BSD-2-Clause
// Reading the lower provider's completion queue; see completions.h.
#include "rxm/messages/completions.h"

#include <algorithm>
#include <utility>

#include "rxm/logging.h"

namespace weft::rxm {
namespace {

constexpr int kMaxRounds = 8;  // most such reads per call

}  // namespace

[[gnu::always_inline]] inline void Completions::on_completion(const fi_cq_tagged_entry& entry) noexcept {
  auto* work = static_cast<Work*>(entry.op_context);
  if (work == nullptr || (entry.flags & FI_REMOTE_WRITE) != 0) {
    // A peer wrote to our memory with completion data, which is no message. Some providers consume a posted receive.
    const Ref<CompletionQueueCore>& queue = services_.routes.receive_queue;
    if ((entry.flags & FI_REMOTE_CQ_DATA) != 0 && queue)
      queue->write({.flags = entry.flags, .len = entry.len, .data = entry.data & services_.domain.data_mask()});
    if (work == nullptr || work->kind != Work::Kind::kReceive) return;
    posted_.returned(*work);
    return posted_.post(static_cast<PostedBuffer&>(*work));
  }
  posted_.returned(*work);
  if (work->kind == Work::Kind::kReceive) return receiver_.on_packet(static_cast<PostedBuffer&>(*work), entry);
  on_end(*work, 0);
}

// `count`: the result of the read that filled `entries`; reads on while there is more. Out of line, so that a read that
// finds nothing saves no registers.
[[gnu::noinline]] std::size_t Completions::handle(fi_cq_tagged_entry* entries, ssize_t count) noexcept {
  std::size_t found = 0;
  for (int round = 1;; ++round) {
    if (count == -FI_EAVAIL) {
      read_failure();
      ++found;
    } else if (count > 0) {
      found += static_cast<std::size_t>(count);
      for (ssize_t i = 0; i < count; ++i) on_completion(entries[i]);
      if (count < kBatch) return found;
    } else {
      if (count != -FI_EAGAIN) on_unreadable(static_cast<int>(-count));
      return found;
    }
    if (round == kMaxRounds) return found;
    count = fi_cq_read(queue_.get(), entries, kBatch);
  }
}

// There are no more entries than operations outstanding. The bound matters because peers may send meanwhile.
void Completions::drain() noexcept {
  std::size_t most = posted_.shared_posted();
  for (Channel& channel : services_.channels) most += channel.works.all();
  for (std::size_t found = 1; found != 0 && most != 0; most -= std::min(most, found)) found = read();
}

// An operation other than a receive has ended. `error` is positive, or 0.
void Completions::on_end(Work& work, int error) noexcept {
  if (work.kind == Work::Kind::kTransmit)
    sender_.on_lower_completion(static_cast<Transmit&>(work), error);
  else if (work.kind == Work::Kind::kPacket)
    sender_.on_packet_completion(static_cast<Packet&>(work), error);
  else
    rendezvous_.on_piece_completion(static_cast<RemoteCopy::Piece&>(work), error);
}

void Completions::read_failure() noexcept {
  fi_cq_err_entry error{};
  if (fi_cq_readerr(queue_.get(), &error, 0) != 1) return;
  auto* work = static_cast<Work*>(error.op_context);
  if (work == nullptr) return;
  posted_.returned(*work);
  if (work->kind == Work::Kind::kReceive) return on_failed_receive(static_cast<PostedBuffer&>(*work), error.err);
  // We did not cancel it: the connection ended. Operations that we cancel have their error already.
  on_end(*work, error.err == FI_ECANCELED ? FI_ECONNRESET : error.err);
}

// The queue was overrun and stays unreadable: the ends of operations and arrived packets are lost.
void Completions::on_unreadable(int error) noexcept {
  if (std::exchange(unreadable_, true)) return;
  FI_WARN(&provider(), FI_LOG_CQ, "the lower provider's completion queue cannot be read, completions are lost: %s\n",
          fi_strerror(error));
  services_.routes.overrun();
  for (Channel& channel : services_.channels)
    for (Transmit& transmit : channel.flight)
      if (transmit.request.routes != &services_.routes) transmit.request.routes->overrun();
}

void Completions::on_failed_receive(PostedBuffer& posted, int error) noexcept {
  Channel* sender = posted.channel;
  if (posted.shared && error == FI_ETRUNC) sender = posted_.sender_of(posted, services_.buffers.size());
  if (error == FI_ETRUNC && sender != nullptr)
    services_.links->protocol_error(*sender, "packet exceeds the packet size");
  posted.shared ? posted_.post(posted) : posted_.release(posted);
}

}  // namespace weft::rxm
