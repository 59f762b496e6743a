// SPDX-License-Identifier: BSD-2-Clause
// Outgoing messages of a stream.
//
// The first message of a burst goes to the kernel at once. What is posted before the application comes back for
// progress is gathered and shares one system call, because a system call costs far more than a small message.
// Payloads in the application's memory are never copied, except small ones, which lie behind their header.
#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "tcp/reliable_channel.h"
#include "tcp/socket.h"
#include "tcp/stream.h"
#include "tcp/transfer_endpoint.h"

namespace weft::tcp {
namespace {

constexpr std::size_t kMaxPieces = 64;            // iovecs per system call
constexpr std::size_t kBatchBytes = 1024 * 1024;  // stop gathering there, so that accounting stays cheap

std::uint64_t completion_flags(Op op, bool fetches = false) noexcept {
  switch (op) {
    case Op::kTagged:
      return FI_TAGGED | FI_SEND;
    case Op::kReadRequest:
      return FI_RMA | FI_READ;
    case Op::kWrite:
      return FI_RMA | FI_WRITE;
    case Op::kAtomic:
      return FI_ATOMIC | (fetches ? FI_READ : FI_WRITE);
    default:
      return FI_MSG | FI_SEND;
  }
}

}  // namespace

// One system call's worth of messages: small pieces copied into scratch, large ones by reference.
struct Stream::Gather {
  std::byte* scratch;
  std::size_t used = 0;  // of scratch
  iovec iov[kMaxPieces];
  std::size_t count = 0;
  std::size_t bytes = 0;

  bool full() const noexcept {
    return count + kIovLimit + 1 > kMaxPieces || used + kInlineSize > Engine::kScratchSize || bytes >= kBatchBytes;
  }
  void copy(const std::byte* data, std::size_t len) noexcept {
    std::byte* to = scratch + used;
    std::memcpy(to, data, len);
    used += len;
    bytes += len;
    if (count != 0 && static_cast<std::byte*>(iov[count - 1].iov_base) + iov[count - 1].iov_len == to)
      iov[count - 1].iov_len += len;
    else
      iov[count++] = {to, len};
  }
  void refer(const iovec& piece, std::size_t skip) noexcept {
    iov[count++] = {static_cast<std::byte*>(piece.iov_base) + skip, piece.iov_len - skip};
    bytes += piece.iov_len - skip;
  }
};

ssize_t Stream::transmit(const TransmitRequest& request) noexcept {
  if (state_ != State::kOpen) return -FI_ENOTCONN;
  if (outstanding_ >= queue_size_) {
    flush();
    if (state_ != State::kOpen) return -FI_ENOTCONN;
    if (outstanding_ >= queue_size_) return -FI_EAGAIN;
  }
  const std::size_t len = total_length(request.local);
  DataHeader header;
  header.op = request.op;
  header.cq_data = request.cq_data;
  header.tag = request.tag;
  header.rma_count = static_cast<std::uint8_t>(request.remote.size());
  std::copy(request.remote.begin(), request.remote.end(), header.rma);
  header.name_context(request.receive_context);
  if (request.flags & FI_REMOTE_CQ_DATA) header.flags |= kFlagCqData;
  Then then = Then::kComplete;
  if (request.op == Op::kReadRequest) {
    then = Then::kAwaitRead;
  } else if (header.payload = len; request.op == Op::kAtomic) {
    then = Then::kAwaitAtomic;  // whatever level is asked for: the answer says that it has been carried out
  } else if (request.flags & (FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE)) {
    then = Then::kAwaitAck;
    header.flags |= kFlagDeliveryComplete;
  }
  if (announces(request, len, then)) {
    header.op = Op::kAnnouncement;
    header.announced = std::exchange(header.payload, 0);
    then = Then::kAwaitClear;
  }
  const bool at_once = then == Then::kComplete && may_go_at_once(request.flags, len);
  const ssize_t result = at_once ? transmit_now(request, header, len) : enqueue(request, header, len, then);
  if (in_burst_ && len > kGatherPayload && len <= kGatherLongPayload) engine_.posted_long();
  return result;
}

bool Stream::may_go_at_once(std::uint64_t flags, std::size_t len) noexcept {
  if (!writable || (flags & (FI_MORE | FI_FENCE))) return false;
  if (!queue_.empty() || !sending_.empty() || !responses_.empty()) return false;
  return !continues_burst() || len > (engine_.comes_back_at_once() ? kGatherLongPayload : kGatherPayload);
}

// Whether something was sent in this round already. That nobody will soon start the next one makes every message the
// only one of its burst.
bool Stream::continues_burst() noexcept {
  in_burst_ = last_round_ == engine_.round() && !engine_.must_send_now();
  last_round_ = engine_.round();
  return in_burst_;
}

// Whether what waits, the last of it a message of `len` bytes, may wait for more.
bool Stream::may_wait(std::uint64_t flags, std::size_t len) noexcept {
  const bool more = (flags & FI_MORE) != 0;
  if (!continues_burst() && !more) return false;
  if (len <= kGatherPayload) return gathered_ < kGatherBytes;
  return (more || engine_.comes_back_at_once()) && len <= kGatherLongPayload && gathered_ < kGatherLongBytes;
}

// Long messages of reliable datagrams wait at their sender until somebody receives them; one that is acknowledged goes
// at once, for the peer may or may not take the acknowledgement for the announcement's.
bool Stream::announces(const TransmitRequest& request, std::size_t len, Then then) const noexcept {
  return len > kAnnounceSize && then == Then::kComplete && request.op == Op::kTagged && channel_ != nullptr &&
         channel_->may_announce();
}

// Most messages are small and plain, and nothing is before them: no request, full header or record is made of one
// unless the kernel takes less than all.
ssize_t Stream::send_small(const SmallMessage& small) noexcept {
  if (state_ != State::kOpen || outstanding_ >= queue_size_ || !may_go_at_once(0, small.len)) {
    const iovec iov{const_cast<void*>(small.data), small.len};
    return transmit(small.request({&iov, 1}));
  }
  std::byte message[kTaggedHeaderSize + kInjectSize];
  const std::size_t header = encode_plain(small.op, small.tag, small.len, static_cast<std::uint8_t>(next_id_), message);
  std::memcpy(message + header, small.data, small.len);
  const ssize_t sent = net::send(fd, message, header + small.len);
  if (sent != static_cast<ssize_t>(header + small.len)) [[unlikely]] {
    const iovec iov{const_cast<void*>(small.data), small.len};
    const DataHeader full{.op = small.op, .payload = small.len, .tag = small.tag, .rma = {}};
    return keep_rest(small.request({&iov, 1}), full, small.len, sent);
  }
  ++next_id_;
  routes_of(small).transmitted(completion_flags(small.op), small.context, small.report);
  return 0;
}

ssize_t Stream::transmit_now(const TransmitRequest& request, const DataHeader& header, std::size_t len) noexcept {
  std::byte inlined[kInlineSize];
  std::size_t inline_len = encode(header, inlined);
  inlined[kIdOffset] = static_cast<std::byte>(next_id_);
  iovec iov[1 + kIovLimit];
  std::size_t count = 1;
  if (len <= kInjectSize) {
    weft::gather(request.local, inlined + inline_len);
    inline_len += len;
  } else {
    std::copy(request.local.begin(), request.local.end(), iov + 1);
    count += request.local.size();
  }
  iov[0] = {inlined, inline_len};
  const ssize_t sent = count == 1 ? net::send(fd, inlined, inline_len) : net::sendv(fd, iov, static_cast<int>(count));
  if (sent != static_cast<ssize_t>(header.size() + len)) [[unlikely]]
    return keep_rest(request, header, len, sent);
  ++next_id_;
  routes_of(request).transmitted(completion_flags(request.op), request.context, wants_completion(request));
  return 0;
}

// The kernel took `sent` bytes only, or gave an error.
ssize_t Stream::keep_rest(const TransmitRequest& request, const DataHeader& header, std::size_t len,
                          ssize_t sent) noexcept {
  if (sent < 0 && sent != -EAGAIN) on_send_error(static_cast<int>(-sent));
  Transmit* record = make_record(request, header, len, Then::kComplete);
  if (record == nullptr) {
    if (sent <= 0) return -FI_EAGAIN;
    end(ENOMEM);  // half a message has left, and nothing can remember the other half
    return -FI_ENOTCONN;
  }
  engine_.await_output(*this);
  record->sent = sent > 0 ? static_cast<std::size_t>(sent) : 0;
  record->inlined[kIdOffset] = static_cast<std::byte>(next_id_++);
  sending_.push_back(*record);
  return 0;
}

ssize_t Stream::enqueue(const TransmitRequest& request, const DataHeader& header, std::size_t len, Then then) noexcept {
  Transmit* record = make_record(request, header, len, then);
  if (record == nullptr) return -FI_EAGAIN;
  queue_.push_back(*record);
  gathered_ += static_cast<std::uint32_t>(std::min(record->len, kGatherLongBytes));
  if (may_wait(request.flags, len))
    resume();
  else
    flush();
  return 0;
}

Transmit* Stream::make_record(const TransmitRequest& request, const DataHeader& what, std::size_t len,
                              Then then) noexcept {
  Transmit* record = pools_.transmits.take();
  if (record == nullptr) return nullptr;
  DataHeader header = what;
  if (then == Then::kAwaitClear) header.op_data = record->ticket = channel_->take_ticket();
  record->then = then;
  record->fence = (request.flags & FI_FENCE) != 0;
  record->report = wants_completion(request);
  record->completion_flags = completion_flags(request.op, !request.results.empty());
  record->context = request.context;
  record->routes = request.routes;
  std::size_t inline_len = encode(header, record->inlined);
  record->len = inline_len + header.payload;
  // What waits behind the header in memory of its own refers to nothing of the application's but to where results go.
  const bool atomic = then == Then::kAwaitAtomic;
  std::span<const iovec> refers = request.local;
  if (then != Then::kAwaitRead && (len <= kInjectSize || atomic || (request.flags & FI_INJECT) != 0)) {
    refers = request.results;
    if (len > kInjectSize && !record->make_copy(len)) {
      pools_.transmits.give_back(record);
      return nullptr;
    }
    weft::gather(request.local, len > kInjectSize ? record->copy.get() : record->inlined + inline_len);
    if (len <= kInjectSize) inline_len += len;
  }
  std::copy(refers.begin(), refers.end(), record->iov);
  record->iov_count = static_cast<std::uint8_t>(refers.size());
  record->inline_len = static_cast<std::uint16_t>(inline_len);
  ++outstanding_;
  return record;
}

void Stream::flush_queued() noexcept {
  while (state_ == State::kOpen && writable) {
    Gather batch;
    batch.scratch = engine_.transmit_scratch();
    if (!gather(batch) || batch.count == 0) return;
    const ssize_t sent = batch.count == 1 ? net::send(fd, batch.iov[0].iov_base, batch.iov[0].iov_len)
                                          : net::sendv(fd, batch.iov, static_cast<int>(batch.count));
    if (sent < static_cast<ssize_t>(batch.bytes)) engine_.await_output(*this);
    if (sent >= 0) {
      account(static_cast<std::size_t>(sent));
    } else if (sent != -EAGAIN) {
      on_send_error(static_cast<int>(-sent));
    }
  }
}

// The connection is broken, but what arrived before the break is read and reported first; run() then ends the stream.
void Stream::on_send_error(int error) noexcept {
  send_error_ = error;
  hung = readable = true;
  resume();
}

// Fills `batch`, moving messages to sending_. False when the stream ended meanwhile.
bool Stream::gather(Gather& batch) noexcept {
  for (Transmit& record : sending_)
    if (batch.full() || !add_to(batch, record)) break;
  while (state_ == State::kOpen && !batch.full()) {
    const bool respond = !responses_.empty();
    if (!respond && (queue_.empty() || fence_holds(queue_.front()))) break;
    Transmit& record = respond ? responses_.pop_front() : queue_.pop_front();
    if (!respond) gathered_ -= static_cast<std::uint32_t>(std::min(record.len, kGatherLongBytes));
    record.inlined[kIdOffset] = static_cast<std::byte>(next_id_++);
    sending_.push_back(record);
    add_to(batch, record);
  }
  return state_ == State::kOpen;
}

// Adds what is left of `record`. False when its memory is gone, which ends the stream.
bool Stream::add_to(Gather& batch, Transmit& record) noexcept {
  if (record.then == Then::kRespond && !response_still_valid(record)) return false;
  std::size_t skip = record.sent;
  if (skip < record.inline_len) {
    batch.copy(record.inlined + skip, record.inline_len - skip);
    skip = 0;
  } else {
    skip -= record.inline_len;
  }
  for (const iovec& piece : record.payload()) {
    if (skip >= piece.iov_len) {
      skip -= piece.iov_len;
      continue;
    }
    batch.refer(piece, skip);
    skip = 0;
  }
  return true;
}

void Stream::account(std::size_t sent) noexcept {
  while (sent != 0 && !sending_.empty()) {
    Transmit& record = sending_.front();
    const std::size_t left = record.len - record.sent;
    if (sent < left) {
      record.sent += sent;
      return;
    }
    sent -= left;
    record.unlink();
    on_written(record);
  }
}

void Stream::on_written(Transmit& record) noexcept {
  switch (record.then) {
    case Then::kComplete:
      complete(record);
      break;
    case Then::kAwaitClear:
      awaiting_clearance_.push_back(record);
      break;
    case Then::kAwaitAck:
      awaiting_acks_.push_back(record);
      break;
    case Then::kAwaitRead:
      awaiting_reads_.push_back(record);
      break;
    case Then::kAwaitAtomic:
      awaiting_atomics_.push_back(record);
      break;
    case Then::kRespond:
      pools_.transmits.give_back(&record);
      // A peer whose read requests were held back may go on.
      if (response_count_-- == kMaxResponses) resume();
      break;
  }
}

// FI_FENCE: nothing of before may be unfinished when the message leaves.
bool Stream::fence_holds(const Transmit& record) noexcept {
  return record.fence && (reading_ != nullptr || !sending_.empty() || !awaiting_acks_.empty() ||
                          !awaiting_reads_.empty() || !awaiting_atomics_.empty() || !awaiting_clearance_.empty());
}

void Stream::send_announced(std::uint8_t ticket) noexcept {
  for (Transmit& record : awaiting_clearance_) {
    if (record.ticket != ticket) continue;
    record.unlink();
    DataHeader header;
    header.op = Op::kAnnounced;
    header.op_data = ticket;
    header.payload = total_length(std::span(record.iov, record.iov_count));
    record.then = Then::kComplete;
    record.inline_len = static_cast<std::uint16_t>(encode(header, record.inlined));
    record.len = record.inline_len + header.payload;
    record.sent = 0;
    queue_.push_back(record);
    gathered_ += static_cast<std::uint32_t>(std::min(record.len, kGatherLongBytes));
    return;
  }
  protocol_error("a clearance for no message");
}

void Stream::say(Op op, std::uint8_t op_data) noexcept {
  DataHeader header;
  header.op = op;
  header.op_data = op_data;
  respond(header, {});
}

void Stream::complete(Transmit& record) noexcept {
  if (record.ticket != 0) channel_->give_back_ticket(record.ticket);
  routes_of(record).transmitted(record.completion_flags, record.context, record.report);
  --outstanding_;
  pools_.transmits.give_back(&record);
}

void Stream::fail_record(Transmit& record, int error, int native) noexcept {
  routes_of(record).transmit_failed(record.completion_flags, record.context, error, native);
  --outstanding_;
  pools_.transmits.give_back(&record);
}

bool Stream::carries(const CompletionRoutes& routes) noexcept {
  if (reading_ != nullptr && reading_->routes == &routes) return true;
  for (List<Transmit>* list :
       {&awaiting_acks_, &awaiting_reads_, &awaiting_atomics_, &awaiting_clearance_, &sending_, &queue_})
    for (Transmit& record : *list)
      if (record.routes == &routes) return true;
  return false;
}

void Stream::respond(const DataHeader& header, std::span<const iovec> payload) noexcept {
  Transmit* record = pools_.transmits.take();
  if (record == nullptr) return end(ENOMEM);
  record->then = Then::kRespond;
  record->inline_len = static_cast<std::uint16_t>(encode(header, record->inlined));
  record->len = record->inline_len + header.payload;
  record->region_generation = regions_.generation();
  std::copy(payload.begin(), payload.end(), record->iov);
  record->iov_count = static_cast<std::uint8_t>(payload.size());
  // What a read was granted is kept behind the header, to be checked again if a registration is closed meanwhile.
  static_assert(kBaseHeaderSize + sizeof header.rma <= kInlineSize);
  if (!payload.empty()) std::memcpy(record->inlined + kBaseHeaderSize, header_.rma, sizeof header_.rma);
  respond_with(*record);
}

void Stream::respond_with(Transmit& record) noexcept {
  ++response_count_;
  responses_.push_back(record);
  resume();
}

bool Stream::response_still_valid(Transmit& record) noexcept {
  if (record.iov_count == 0 || record.region_generation == regions_.generation()) return true;
  record.region_generation = regions_.generation();
  RmaRange ranges[kMaxRmaIov];
  iovec iov[kMaxRmaIov];
  std::memcpy(ranges, record.inlined + kBaseHeaderSize, sizeof ranges);
  if (translate(std::span(ranges, record.iov_count), FI_REMOTE_READ, iov)) return true;
  protocol_error("a memory region was closed while a peer was reading it");
  return false;
}

void Stream::cancel_transmits(int error, int native) noexcept {
  end_error_ = native;
  for (List<Transmit>* list :
       {&awaiting_acks_, &awaiting_reads_, &awaiting_atomics_, &awaiting_clearance_, &sending_, &queue_, &responses_}) {
    while (!list->empty()) {
      Transmit& record = list->pop_front();
      if (record.then == Then::kRespond)
        pools_.transmits.give_back(&record);
      else
        fail_record(record, error, native);
    }
  }
  gathered_ = 0;
  response_count_ = 0;
}

}  // namespace weft::tcp
