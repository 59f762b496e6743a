// SPDX-License-Identifier: BSD-2-Clause
// The outgoing half of a stream; see transmit_side.h.
//
// The first message of a burst goes to the kernel at once. Messages posted before the application comes back for
// progress are gathered and share one system call, because a system call costs far more than a small message.
// Payloads in the application's memory are never copied, except small ones, which are copied behind their header.
#include "tcp/stream/transmit_side.h"

#include <rdma/providers/fi_log.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "tcp/limits.h"
#include "tcp/logging.h"
#include "tcp/names.h"
#include "tcp/stream/gather.h"

namespace weft::tcp {
namespace {

constexpr Op kOps[] = {Op::kMessage, Op::kTagged, Op::kReadRequest, Op::kWrite, Op::kAtomic, Op::kAtomic};
constexpr Op op_of(Operation operation) noexcept {
  return kOps[static_cast<std::size_t>(operation)];
}

// The buffers to send; for a read, the buffers that receive the data.
std::span<const iovec> sent_by(const TransmitRequest& request) noexcept {
  return request.operation >= Operation::kUpdate ? request.arrays : request.iov;
}

}  // namespace

// ---- Requests ----

ssize_t TransmitSide::transmit(const TransmitRequest& request, bool has_waited) noexcept {
  if (state_ != State::kOpen) return -FI_ENOTCONN;
  if (outstanding_ >= queue_size_) {
    if (queue_size_ == 0) return -FI_ESHUTDOWN;
    flush();
    if (state_ != State::kOpen) return -FI_ENOTCONN;
    if (outstanding_ >= queue_size_) return -FI_EAGAIN;
  }
  // An injected message must not wait here: the process may exit right after the call, and would lose it; or it may
  // wait for its peer by other means, without progress.
  if ((request.flags & FI_INJECT) != 0 && !writable && !has_waited && !wants_completion(request)) [[unlikely]] {
    writable = true;  // there may be room now
    flush();
    if (state_ != State::kOpen) return -FI_ENOTCONN;
    if (!writable && !may_offer()) return -FI_EAGAIN;
  }
  const std::size_t len = total_length(sent_by(request));
  DataHeader header;
  header.op = op_of(request.operation);
  header.cq_data = request.data;
  header.tag = request.tag;
  for (const fi_rma_iov& range : request.remote) header.rma[header.rma_count++] = range;
  header.set_receive_context(request.receive_context);
  if (request.flags & FI_REMOTE_CQ_DATA) header.flags |= kFlagCqData;
  Then then = Then::kComplete;
  if (header.op == Op::kReadRequest) {
    then = Then::kAwaitRead;
  } else if (header.payload = len; header.op == Op::kAtomic) {
    then = Then::kAwaitAtomic;  // at every completion level: the response reports that it has been carried out
  } else if (request.flags & (FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE)) {
    then = Then::kAwaitAck;
    header.flags |= kFlagDeliveryComplete;
  }
  if (announces(request, len, then)) {
    header.op = Op::kAnnouncement;
    header.announced = std::exchange(header.payload, 0);
    then = Then::kAwaitClear;
  }
  ssize_t result = 0;
  if (then == Then::kComplete && !is_scarce(announcements_) && may_go_at_once(request.flags, len)) {
    result = transmit_now(request, header, len, has_waited);
  } else if (Transmit* record = make_record(request, header, len, then); record != nullptr) {
    queue_.push_back(*record);
    may_wait(request.flags, len) ? resume() : flush();
  } else {
    result = -FI_EAGAIN;
  }
  if (in_burst_) engine_.posted_in_burst(len);
  return result;
}

[[gnu::always_inline]] inline bool TransmitSide::may_go_at_once(std::uint64_t flags, std::size_t len) noexcept {
  if (!writable || (flags & (FI_MORE | FI_FENCE)) || has_output()) return false;
  // Shared memory needs no system call, so gathering saves nothing. A long message is offered: it takes a record,
  // unless it is injected, because the offer would need a copy.
  if (writes_wire()) return len < LocalWire::kLeastOffered || (flags & FI_INJECT) != 0;
  return !continues_burst() || !engine_.may_gather(len);
}

// Whether a message was sent in this round already. If no further round will start soon (must_send_now()), every
// message is a burst of its own.
bool TransmitSide::continues_burst() noexcept {
  in_burst_ = last_round_ == engine_.round() && !engine_.must_send_now();
  last_round_ = engine_.round();
  return in_burst_;
}

// Whether the queued messages, of which the last has `len` bytes, may wait for more.
bool TransmitSide::may_wait(std::uint64_t flags, std::size_t len) noexcept {
  if (writes_wire()) return false;
  const bool more = (flags & FI_MORE) != 0;
  if (!continues_burst() && !more) return false;
  if (queue_.bytes() >= (len <= kGatherPayload ? kGatherBytes : kGatherLongBytes)) {
    engine_.end_burst();
    return false;
  }
  return (more && len <= kGatherLongPayload) || engine_.may_gather(len);
}

// Long messages of reliable datagrams wait at their sender until a receive matches. Messages with an acknowledgement
// are not announced, because peers differ in whether they acknowledge the announcement or the message.
bool TransmitSide::announces(const TransmitRequest& request, std::size_t len, Then then) const noexcept {
  return len > kAnnounceSize && then == Then::kComplete && request.operation == Operation::kTagged &&
         announcements_ != nullptr && announcements_->tickets.any_left();
}

// Most messages are small and plain, with none queued before them: they need no full header or record unless the kernel
// takes only a part.
ssize_t TransmitSide::send_small(const TransmitRequest& request) noexcept {
  const iovec payload = request.iov[0];
  if (state_ != State::kOpen || outstanding_ >= queue_size_) [[unlikely]]
    return transmit(request);
  const Op op = op_of(request.operation);
  if (!may_go_at_once(0, payload.iov_len)) {
    if (!writable && (request.flags & FI_INJECT) != 0) [[unlikely]]
      return transmit(request);
    Transmit* const record = records_.take();
    if (record == nullptr) return -FI_EAGAIN;
    record->describe(request, wants_completion(request));
    const std::size_t header = encode_plain(op, request.tag, payload.iov_len, 0, record->inlined);
    std::memcpy(record->inlined + header, payload.iov_base, payload.iov_len);
    record->len = record->inline_len = static_cast<std::uint16_t>(header + payload.iov_len);
    ++outstanding_;
    queue_.push_back(*record);
    may_wait(0, payload.iov_len) ? resume() : flush();
    return 0;
  }
  std::byte message[kTaggedHeaderSize + kInjectSize];
  const std::size_t header =
      encode_plain(op, request.tag, payload.iov_len, static_cast<std::uint8_t>(next_id_), message);
  std::memcpy(message + header, payload.iov_base, payload.iov_len);
  const ssize_t sent = Transport::send(message, header + payload.iov_len);
  if (sent != static_cast<ssize_t>(header + payload.iov_len)) [[unlikely]] {
    DataHeader full{.op = op, .payload = payload.iov_len, .tag = request.tag, .rma = {}};
    return keep_rest(request, full, payload.iov_len, sent, false);
  }
  ++next_id_;
  if (in_burst_) engine_.posted_in_burst(payload.iov_len);
  routes_of(request).transmitted(completion_flags_of(request.operation), request.context, wants_completion(request));
  return 0;
}

ssize_t TransmitSide::transmit_now(const TransmitRequest& request, DataHeader& header, std::size_t len,
                                   bool has_waited) noexcept {
  std::byte inlined[kInlineSize];
  std::size_t inline_len = encode(header, inlined);
  inlined[kIdOffset] = static_cast<std::byte>(next_id_);
  iovec iov[1 + kIovLimit];
  std::size_t count = 1;
  if (len <= kInjectSize) {
    weft::gather(request.iov, inlined + inline_len);
    inline_len += len;
  } else {
    std::copy(request.iov.begin(), request.iov.end(), iov + 1);
    count += request.iov.size();
  }
  iov[0] = {inlined, inline_len};
  const ssize_t sent = count == 1 ? Transport::send(inlined, inline_len)
                                  : Transport::send({iov, count}, (request.flags & FI_INJECT) == 0);
  if (sent != static_cast<ssize_t>(header.size() + len)) [[unlikely]]
    return keep_rest(request, header, len, sent, has_waited);
  ++next_id_;
  if (header.op == Op::kWrite) ++writes_.sent;
  routes_of(request).transmitted(completion_flags_of(request.operation), request.context, wants_completion(request));
  return 0;
}

// The kernel took only `sent` bytes, or returned an error.
ssize_t TransmitSide::keep_rest(const TransmitRequest& request, DataHeader& header, std::size_t len, ssize_t sent,
                                bool has_waited) noexcept {
  const bool injected = (request.flags & FI_INJECT) != 0 && !wants_completion(request);
  if (sent < 0 && sent != -EAGAIN) {
    on_send_error(static_cast<int>(-sent));
  } else if (sent < 0 && injected && !has_waited) {
    await_output();
    return -FI_EAGAIN;  // see transmit()
  }
  Transmit* record = make_record(request, header, len, Then::kComplete);
  if (record == nullptr) {
    if (sent <= 0) return -FI_EAGAIN;
    end(ENOMEM);  // half of the message was sent, and the other half cannot be stored
    return -FI_ENOTCONN;
  }
  await_output();
  record->sent = sent > 0 ? static_cast<std::size_t>(sent) : 0;
  give_position(*record, next_id_, writes_.sent);
  sending_.push_back(*record);
  if (injected) {
    use_overflow();
    flush();
  }
  return 0;
}

Transmit* TransmitSide::make_record(const TransmitRequest& request, DataHeader& header, std::size_t len,
                                    Then then) noexcept {
  Transmit* record = records_.take();
  if (record == nullptr) return nullptr;
  record->describe(request, wants_completion(request));
  if (then == Then::kAwaitClear) header.op_data = record->ticket = announcements_->tickets.take();
  record->then = then;
  record->fence = (request.flags & FI_FENCE) != 0;
  std::size_t inline_len = encode(header, record->inlined);
  record->len = inline_len + header.payload;
  // A payload that is copied leaves only references to result buffers in the application's memory.
  const bool atomic = then == Then::kAwaitAtomic;
  const std::span<const iovec> payload = sent_by(request);
  std::span<const iovec> refers = payload;
  if (then != Then::kAwaitRead && (len <= kInjectSize || atomic || (request.flags & FI_INJECT) != 0)) {
    refers = atomic ? request.iov : std::span<const iovec>();
    if (len > kInjectSize && !record->make_copy(len)) {
      records_.give_back(record);
      return nullptr;
    }
    weft::gather(payload, len > kInjectSize ? record->copy.get() : record->inlined + inline_len);
    if (len <= kInjectSize) inline_len += len;
  }
  std::copy(refers.begin(), refers.end(), record->iov);
  record->iov_count = static_cast<std::uint8_t>(refers.size());
  record->inline_len = static_cast<std::uint16_t>(inline_len);
  ++outstanding_;
  return record;
}

// ---- Sending ----

void TransmitSide::flush_queued() noexcept {
  settle();
  // The peer reads offered pieces from our memory without a further call here.
  if (has_offers())
    for (Transmit& record : sending_)
      if (record.then == Then::kRespond && !response_still_valid(record)) return;
  for (bool goes_on = true; goes_on && state_ == State::kOpen && (writable || may_offer()); goes_on &= has_output()) {
    Gather batch(writes_wire() ? nullptr : engine_.transmit_scratch());
    if (!gather(batch) || batch.count == 0) return;
    const ssize_t sent = batch.count == 1 ? Transport::send(batch.iov[0].iov_base, batch.iov[0].iov_len)
                                          : Transport::send({batch.iov, batch.count});
    goes_on = sent == static_cast<ssize_t>(batch.bytes);
    if (!goes_on) {
      await_output();
    } else if (batch.cut) {
      goes_on = false;
      resume();
    }
    if (sent >= 0) {
      account(static_cast<std::size_t>(sent));
    } else if (sent != -EAGAIN) {
      on_send_error(static_cast<int>(-sent));
    }
  }
}

bool TransmitSide::holds_injected() noexcept {
  const auto injected = [](const Transmit& record) {
    return (record.then == Then::kComplete || record.then == Then::kAwaitAtomic) && !record.report;
  };
  for (const Transmit& record : sending_)
    if (injected(record)) return true;
  for (const Transmit& record : queue_)
    if (injected(record)) return true;
  return false;
}

// The connection is broken, but bytes that arrived before are handled first; run() then ends the stream.
void TransmitSide::on_send_error(int error) noexcept {
  if (send_error_ == 0) send_error_ = error;  // later sends return EPIPE
  hung = readable = true;
  resume();
}

// Fills `batch`, moving messages to sending_. False when the stream ended meanwhile.
bool TransmitSide::gather(Gather& batch) noexcept {
  for (Transmit& record : sending_) {
    if (batch.full()) break;
    if (!add_to(batch, record)) return state_ == State::kOpen;
  }
  // Bytes behind Op::kSwitch do not go through the socket.
  const auto switches = [&] { return !sending_.empty() && sending_.back().then == Then::kSwitch; };
  while (state_ == State::kOpen && !batch.full() && !switches()) {
    Transmit* record = next_to_send();
    if (record == nullptr) break;
    sending_.push_back(*record);
    if (!add_to(batch, *record)) break;
  }
  return state_ == State::kOpen;
}

// Responses, and announced messages that the peer cleared, overtake the application's messages: those were posted
// later, and may be fenced. nullptr: nothing may be sent now.
[[gnu::always_inline]] inline Transmit* TransmitSide::next_to_send() noexcept {
  // The refusal of a write precedes its acknowledgement.
  const auto refuses = [&] { return !responses_.empty() && op_in(responses_.front()) == Op::kRefused; };
  if (acks_due_ != 0 && !refuses()) return make_acks();
  // FI_FENCE: earlier operations must be complete before the message is sent.
  const auto fenced = [&](const Transmit& record) {
    return record.fence && (answered_ != nullptr || !sending_.empty() || awaits_answer());
  };
  const bool respond = !responses_.empty();
  if (!respond && (queue_.empty() || fenced(queue_.front()))) return nullptr;
  Transmit& record = respond ? responses_.pop_front() : queue_.pop_front();
  if (is_scarce(announcements_)) [[unlikely]]
    announce(record);
  give_position(record, next_id_, writes_.sent);
  return &record;
}

// As many of the acknowledgements that are due as a record holds. nullptr: memory has run out, which ends the stream.
Transmit* TransmitSide::make_acks() noexcept {
  Transmit* record = records_.take();
  if (record == nullptr) {
    end(ENOMEM);
    return nullptr;
  }
  record->then = Then::kRespond;
  DataHeader ack;
  ack.op_data = kOpDataAck;
  for (; acks_due_ != 0 && record->len + kBaseHeaderSize <= kInlineSize; --acks_due_) {
    std::byte* const at = record->inlined + record->len;
    record->len += encode(ack, at);
    at[kIdOffset] = static_cast<std::byte>(next_id_++);
  }
  record->inline_len = static_cast<std::uint16_t>(record->len);
  count_response(*record);
  return record;
}

// Adds the unsent rest of `record`. False when its memory was deregistered, which ends the stream, at process exit, and
// when the batch ends within it.
bool TransmitSide::add_to(Gather& batch, Transmit& record) noexcept {
  if (record.then == Then::kRespond && !response_still_valid(record)) return false;
  // At the exit the application's memory may be gone, or be used for something else.
  if (engine_.exits() && record.copy == nullptr && !record.payload().empty()) return false;
  std::size_t skip = record.sent;
  if (skip < record.inline_len) {
    batch.copy(record.inlined + skip, record.inline_len - skip);
    skip = 0;
  } else {
    skip -= record.inline_len;
  }
  if (record.refused && record.then == Then::kRespond) {
    if (!add_zeros(batch, skip, total_length(record.payload()))) return true;
  } else {
    for (const iovec& piece : record.payload()) {
      if (skip >= piece.iov_len) {
        skip -= piece.iov_len;
        continue;
      }
      if (record.then == Then::kRespond)
        batch.refer_part(piece, skip);
      else
        batch.refer(piece, skip);
      if (batch.cut) return false;
      skip = 0;
    }
  }
  if (record.status) add_status(batch, record);
  return true;
}

void TransmitSide::account(std::size_t sent) noexcept {
  while (sent != 0 && !sending_.empty()) {
    Transmit& record = sending_.front();
    const std::size_t left = record.len - record.sent;
    if (sent < left) {
      record.sent += sent;
      return;
    }
    sent -= left;
    record.sent = record.len;
    record.unlink();
    on_written(record);
  }
}

void TransmitSide::settle() noexcept {
  if (!has_fetched()) return;
  const ssize_t fetched = take_fetched();
  fetched < 0 ? on_send_error(static_cast<int>(-fetched)) : account(static_cast<std::size_t>(fetched));
}

[[gnu::always_inline]] inline void TransmitSide::on_written(Transmit& record) noexcept {
  if (engine_.exits() && record.then != Then::kSwitch) [[unlikely]]
    return;  // completions are not read any more
  switch (record.then) {
    case Then::kComplete:
      return complete(record);
    case Then::kSwitch:
      switch_output();
      [[fallthrough]];
    case Then::kRespond: {
      const bool held_back = blocked_ && response_bytes_ >= kResponseShare;
      const std::size_t memory = record.memory();
      response_bytes_ -= memory;
      records_.response_bytes -= memory;
      records_.give_back(&record);
      if (held_back && has_room_for_response()) resume();  // for the peer's next requests
      return;
    }
    case Then::kKept:
      announcements_->kept.push_back(record);
      return report_sent(record);
    default:
      awaiting(record.then).push_back(record);
      if (blocked_) resume();  // because of awaits_answer()
      return;
  }
}

// The peer's memory for unexpected messages is scarce: an eager message that is about to be sent is announced instead.
// It completes as before if it can be copied: the copies for a peer may occupy as much as the peer's messages may here.
// Otherwise it completes when it is fetched.
void TransmitSide::announce(Transmit& record) noexcept {
  if (record.then != Then::kComplete || static_cast<Op>(record.inlined[1]) > Op::kTagged) return;
  DataHeader header = *decode(record.inlined, false);
  const std::size_t len = std::exchange(header.payload, 0);
  if (len < kLeastAnnounced || announcements_->numbers.assign(record) == 0) return;
  const std::size_t size = sizeof record + len;
  if (len <= kAnnounceSize && announcements_->copies->takes(size) && record.copy_payload()) {
    announcements_->copies->add(record.kept = size);
    record.then = Then::kKept;
  } else {
    record.then = Then::kAwaitClear;
  }
  if (header.op == Op::kMessage) header.flags |= kFlagUntagged;
  header.op = Op::kAnnouncement;
  header.announced = len;
  header.number = record.message;
  record.len = record.inline_len = static_cast<std::uint16_t>(encode(header, record.inlined));
}

void TransmitSide::complete(Transmit& record) noexcept {
  if (record.refused) return fail_record(record, FI_EACCES, FI_EACCES);
  report_sent(record);
  release(record);
}

void TransmitSide::report_sent(Transmit& record) noexcept {
  if (std::exchange(record.reported, true)) return;
  routes_of(record).transmitted(record.completion_flags, record.context, record.report);
  record.routes = nullptr;  // routes may end before the record
  --outstanding_;
}

void TransmitSide::fail_record(Transmit& record, int error, int native) noexcept {
  if (!record.reported) {
    routes_of(record).transmit_failed(record.completion_flags, record.context, error, native);
    --outstanding_;
  }
  release(record);
}

[[gnu::always_inline]] inline void TransmitSide::release(Transmit& record) noexcept {
  if ((record.ticket | record.message | record.kept) != 0) [[unlikely]] {
    if (record.ticket != 0) announcements_->tickets.give_back(record.ticket);
    if (record.message != 0) announcements_->numbers.release(record);
    if (record.kept != 0) announcements_->copies->release(record.kept);
  }
  records_.give_back(&record);
}

bool TransmitSide::carries(const CompletionRoutes& routes) noexcept {
  const auto completes_there = [&](List<Transmit>& list) {
    for (Transmit& record : list)
      if (record.routes == &routes) return true;
    return false;
  };
  return (answered_ != nullptr && answered_->routes == &routes) ||
         std::any_of(std::begin(awaiting_), std::end(awaiting_), completes_there) || completes_there(sending_) ||
         completes_there(responses_) || completes_there(queue_);
}

// ---- The peer's answers ----

void TransmitSide::send_announced(const DataHeader& clearance) noexcept {
  Transmit* record = nullptr;
  if (!clearance.has_number()) {
    for (Transmit& each : awaiting(Then::kAwaitClear))
      if (each.ticket == clearance.op_data) record = &each;
  } else if (announcements_ != nullptr) {
    record = announcements_->numbers.find(clearance.number);
  }
  // Only if the announcement is sent, and only once.
  if (record == nullptr || record->then == Then::kComplete || record->sent != record->len)
    return protocol_error("clearance for an unknown message");
  record->unlink();
  record->then = Then::kComplete;
  DataHeader header;
  header.op = Op::kAnnounced;
  header.op_data = clearance.op_data;
  header.number = clearance.number;
  header.payload = total_length(record->payload());
  record->inline_len = static_cast<std::uint16_t>(encode(header, record->inlined));
  record->len = record->inline_len + header.payload;
  record->sent = 0;
  responses_.push_back(*record);
}

// ---- The end ----

void TransmitSide::protocol_error(const char* what) noexcept {
  FI_WARN(&provider(), FI_LOG_EP_DATA, "connection with %s closed: %s\n", peer_of(fd).to_string().c_str(), what);
  end(EPROTO);
}

void TransmitSide::end(int error) noexcept {
  if (state_ != State::kOpen) return;
  state_ = State::kDraining;
  end_error_ = error;
  engine_.unwatch(*this);
  close();
  cancel_transmits(sink_.interrupted_error(), FI_ECONNRESET, error);
  sink_.abandon(FI_ECONNRESET, error);
  if (sink_.drained())
    finish_end();
  else
    engine_.set_deadline(*this, net::now() + kDrainGrace);
}

void TransmitSide::finish_end() noexcept {
  state_ = State::kEnded;
  engine_.clear_deadline(*this);
  sink_.on_stream_end(end_error_);
}

void TransmitSide::cancel_transmits(int error, int answered_error, int native) noexcept {
  const auto fail_all = [&](auto& list) {
    while (!list.empty()) fail_record(list.pop_front(), error, native);
  };
  for (List<Transmit>& list : awaiting_) fail_all(list);
  if (announcements_ != nullptr) fail_all(announcements_->kept);
  for (List<Transmit>* list : {&sending_, &responses_}) {
    while (!list->empty()) {
      Transmit& record = list->pop_front();
      if (record.then >= Then::kRespond)
        records_.give_back(&record);
      else
        fail_record(record, error, native);
    }
  }
  fail_all(queue_);
  records_.response_bytes -= std::exchange(response_bytes_, 0);
  acks_due_ = 0;
  if (answered_ != nullptr) fail_record(take_answered(), answered_error, native);
}

}  // namespace weft::tcp
