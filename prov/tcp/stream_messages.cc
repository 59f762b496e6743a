// SPDX-License-Identifier: BSD-2-Clause
// What incoming messages do: matching with posted receives, remote memory access, acknowledgements, completions.
#include <algorithm>
#include <cstring>
#include <new>

#include "tcp/reliable_channel.h"
#include "tcp/stream.h"
#include "tcp/transfer_endpoint.h"

namespace weft::tcp {

// The common case, at the cost of little more than its copy: a message without optional words, all of it at hand, and a
// receive of one buffer that waits for it. Returns the bytes of the message; 0: it goes the long way.
std::size_t Stream::take_whole(const std::byte* data, std::size_t len) noexcept {
  std::uint64_t words[2];
  if (len < sizeof words || swap_) return 0;
  std::memcpy(words, data, sizeof words);
  const bool tagged = (words[0] & kPlainMask) == kPlainTagged;
  if (!tagged && (words[0] & kPlainMask) != kPlainMessage) return 0;
  const std::size_t header = tagged ? kTaggedHeaderSize : kBaseHeaderSize;
  const std::uint64_t total = words[1];
  if (total > len || total <= header) return 0;  // an empty message may have no buffer to copy to
  std::uint64_t tag = 0;
  if (tagged) std::memcpy(&tag, data + kBaseHeaderSize, sizeof tag);
  const std::size_t payload = total - header;
  if (channel_ != nullptr) {
    if (!channel_->take_whole(tagged, tag, {data + header, payload})) return 0;
    header_.payload = payload;
    return total;
  }
  ReceiveQueue& queue = receive_queue();
  Receive* receive = queue.find(tagged && endpoint_->matches_tags(), tag);
  if (receive == nullptr || receive->iov_count != 1 || payload > receive->len || (receive->flags & FI_MULTI_RECV))
    return 0;
  header_.payload = payload;
  queue.remove(*receive);
  std::memcpy(receive->iov[0].iov_base, data + header, payload);
  routes_.received(
      {.context = receive->context, .flags = FI_RECV | (tagged ? FI_TAGGED : FI_MSG), .len = payload, .tag = tag},
      routes_.reports_received(receive->flags));
  pools_.receives.give_back(receive);
  return total;
}

bool Stream::begin(const DataHeader& header) noexcept {
  header_ = header;
  payload_left_ = 0;
  bool taken = true;
  switch (header.op) {
    case Op::kMessage:
    case Op::kTagged:
      if (header.is_ack())
        on_ack();
      else
        taken = channel_ != nullptr ? channel_->begin_message(header) : begin_message();
      break;
    case Op::kReadRequest:
      taken = begin_read_request();
      break;
    case Op::kReadResponse:
      begin_read_response();
      break;
    case Op::kWrite:
      begin_write();
      break;
    case Op::kAnnouncement:
    case Op::kAnnounced:
      if (channel_ != nullptr)
        channel_->begin_announced(header);
      else
        protocol_error("a message of reliable datagrams");
      break;
    case Op::kClearance:
      set_sink(Sink::kNone, {});
      send_announced(header.op_data);
      break;
    case Op::kAtomic:
      taken = begin_atomic();
      break;
    case Op::kAtomicAnswer:
      begin_atomic_answer();
      break;
    case Op::kFarewell:
      set_sink(Sink::kNone, {});
      if (channel_ != nullptr)
        channel_->on_farewell(static_cast<rdm::FarewellWord>(header.op_data));
      else
        protocol_error("a message of reliable datagrams");
      break;
  }
  if (!taken || state_ != State::kOpen) return false;
  payload_left_ = header_.payload;
  if (payload_left_ == 0) finish();
  return state_ == State::kOpen;
}

// An endpoint without FI_TAGGED takes tagged messages like others, in order with them: so do other implementations, and
// layers above count on it.
bool Stream::goes_by_tag() const noexcept {
  return header_.op == Op::kTagged && endpoint_->matches_tags();
}

bool Stream::begin_message() noexcept {
  ReceiveQueue& queue = receive_queue();
  Receive* receive = queue.find(goes_by_tag(), header_.tag);
  if (receive == nullptr) return begin_unexpected();
  piece_ = take_piece(*receive, header_.payload);
  if (header_.wants_ack()) ack_sequence_ = owe_ack();
  if (receive->flags & FI_MULTI_RECV) {
    const iovec iov{piece_.buf, piece_.capacity};
    set_sink(Sink::kReceive, std::span(&iov, 1));
  } else {
    set_sink(Sink::kReceive, std::span(receive->iov, receive->iov_count));
  }
  return true;
}

bool Stream::begin_unexpected() noexcept {
  ReceiveQueue& queue = receive_queue();
  const bool tagged = goes_by_tag();
  std::unique_ptr<Unexpected> message;
  if (queue.may_keep(tagged, header_.payload)) {
    message.reset(new (std::nothrow) Unexpected);
    if (message) message->payload.reset(new (std::nothrow) std::byte[header_.payload]);
  }
  if (!message || !message->payload) {
    queue.block(*this);
    return false;
  }
  message->stream = this;
  message->tagged = tagged;
  message->has_tag = header_.op == Op::kTagged;
  message->tag = header_.tag;
  message->has_cq_data = header_.has_cq_data();
  message->cq_data = header_.cq_data;
  message->wants_ack = header_.wants_ack();
  if (message->wants_ack) message->ack_sequence = owe_ack();
  message->len = header_.payload;
  unexpected_ = message.release();
  queue.keep(*unexpected_);
  const iovec iov{unexpected_->payload.get(), unexpected_->len};
  set_sink(Sink::kUnexpected, std::span(&iov, 1));
  return true;
}

bool Stream::begin_read_request() noexcept {
  if (response_count_ >= kMaxResponses) return false;
  iovec iov[kMaxRmaIov];
  Result<std::size_t> len = translate(std::span(header_.rma, header_.rma_count), FI_REMOTE_READ, iov);
  if (!len) {
    protocol_error("a peer asked to read memory that it may not");
    return true;
  }
  set_sink(Sink::kNone, {});
  DataHeader response;
  response.op = Op::kReadResponse;
  response.payload = *len;
  respond(response, std::span(iov, header_.rma_count));
  if (routes_.remote_read) routes_.remote_read->add(1);
  count_regions(FI_REMOTE_READ);
  return true;
}

void Stream::begin_read_response() noexcept {
  if (awaiting_reads_.empty()) return protocol_error("an answer to no read request");
  Transmit& request = awaiting_reads_.front();
  if (total_length(std::span(request.iov, request.iov_count)) != header_.payload)
    return protocol_error("a read was answered with another length");
  request.unlink();
  reading_ = &request;
  set_sink(Sink::kReadResponse, std::span(request.iov, request.iov_count));
}

void Stream::begin_write() noexcept {
  iovec iov[kMaxRmaIov];
  Result<std::size_t> len = translate(std::span(header_.rma, header_.rma_count), FI_REMOTE_WRITE, iov);
  if (!len) return protocol_error("a peer asked to write memory that it may not");
  if (*len != header_.payload) return protocol_error("a write whose length is not that of its target");
  if (header_.wants_ack()) ack_sequence_ = owe_ack();
  set_sink(Sink::kRmaWrite, std::span(iov, header_.rma_count));
}

Result<std::size_t> Stream::translate(std::span<const RmaRange> ranges, std::uint64_t access, iovec* out) noexcept {
  std::size_t total = 0;
  for (const RmaRange& range : ranges) {
    Result<void*> address = regions_.check(range.key, range.addr, range.len, access);
    if (!address) return failure(address.error());
    *out++ = {*address, range.len};
    if (__builtin_add_overflow(total, range.len, &total)) return failure(EPROTO);
  }
  return total;
}

void Stream::count_regions(std::uint64_t access) noexcept {
  if (!regions_.has_counters()) return;
  for (std::size_t i = 0; i < header_.rma_count; ++i) regions_.count_access(header_.rma[i].key, access);
}

void Stream::finish() noexcept {
  const Sink kind = std::exchange(sink_kind_, Sink::kNone);
  sink_count_ = 0;
  switch (kind) {
    case Sink::kReceive: {
      Unexpected seen;  // only its description is looked at
      seen.has_tag = header_.op == Op::kTagged;
      seen.tag = header_.tag;
      seen.has_cq_data = header_.has_cq_data();
      seen.cq_data = header_.cq_data;
      seen.len = header_.payload;
      complete_receive(std::exchange(piece_, {}), seen);
      if (header_.wants_ack()) pay_ack(ack_sequence_);
      break;
    }
    case Sink::kUnexpected:
      finish_unexpected();
      break;
    case Sink::kChannel:
      channel_->finish_message();
      if (header_.wants_ack()) pay_ack(ack_sequence_);
      break;
    case Sink::kRmaWrite:
      finish_write();
      break;
    case Sink::kReadResponse:
      complete(*std::exchange(reading_, nullptr));
      break;
    case Sink::kAtomic:
      finish_atomic();
      break;
    case Sink::kAtomicAnswer:
      finish_atomic_answer();
      break;
    case Sink::kNone:
      break;
  }
}

void Stream::finish_unexpected() noexcept {
  Unexpected& message = *std::exchange(unexpected_, nullptr);
  message.arrived = message.len;
  if (message.discard_on_arrival) return discard(message);
  if (message.taker.receive != nullptr) hand_over(message, message.taker);
}

void Stream::finish_write() noexcept {
  if (routes_.remote_write) routes_.remote_write->add(1);
  count_regions(FI_REMOTE_WRITE);
  if (header_.has_cq_data() && routes_.receive_queue)
    routes_.receive_queue->write({.flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA,
                                  .len = header_.payload,
                                  .data = header_.cq_data,
                                  .src_addr = channel_ != nullptr ? channel_->name() : FI_ADDR_NOTAVAIL});
  if (header_.wants_ack()) pay_ack(ack_sequence_);
}

void Stream::on_ack() noexcept {
  if (awaiting_acks_.empty()) return protocol_error("an acknowledgement of nothing");
  set_sink(Sink::kNone, {});
  complete(awaiting_acks_.pop_front());
}

// Takes the receive, or a piece of it (FI_MULTI_RECV), out of the queue for a message of `len` bytes.
Piece Stream::take_piece(Receive& receive, std::size_t len) noexcept {
  ReceiveQueue& queue = receive_queue();
  if (!(receive.flags & FI_MULTI_RECV)) {
    if (receive.linked()) queue.remove(receive);
    return {&receive, nullptr, receive.len};
  }
  const std::size_t room = receive.len - receive.used;
  Piece piece{&receive, static_cast<std::byte*>(receive.iov[0].iov_base) + receive.used, std::min(room, len)};
  receive.used += piece.capacity;
  ++receive.arriving;
  if (receive.len - receive.used < queue.min_multi_receive) {
    receive.retired = true;
    if (receive.linked()) queue.remove(receive);
  }
  return piece;
}

void Stream::complete_receive(const Piece& piece, const Unexpected& message) noexcept {
  Receive& receive = *piece.receive;
  Completion done;
  done.context = receive.context;
  done.flags = FI_RECV | (message.has_tag ? FI_TAGGED : FI_MSG);
  if (message.has_cq_data) done.flags |= FI_REMOTE_CQ_DATA;
  done.len = std::min(message.len, piece.capacity);
  done.buf = piece.buf;
  done.data = message.cq_data;
  done.tag = message.tag;
  bool report = routes_.reports_received(receive.flags);
  if (receive.flags & FI_MULTI_RECV) {
    --receive.arriving;
    // The buffer's last completion gives it back to the application; that one is never left out.
    if (receive.retired && receive.arriving == 0) {
      done.flags |= FI_MULTI_RECV;
      report = true;
    }
  }
  if (message.len > piece.capacity)
    routes_.receive_failed({done, message.len - piece.capacity, FI_ETRUNC, FI_ETRUNC});
  else
    routes_.received(done, report);
  release(receive);
}

void Stream::fail_receive(const Piece& piece, int error, int native) noexcept {
  Receive& receive = *piece.receive;
  Completion done;
  done.context = receive.context;
  done.flags = FI_RECV | (receive.tagged ? FI_TAGGED : FI_MSG);
  done.tag = receive.tag;
  if (receive.flags & FI_MULTI_RECV) {
    if (receive.arriving != 0) --receive.arriving;
    if (receive.retired && receive.arriving == 0) done.flags |= FI_MULTI_RECV;
  }
  routes_.receive_failed({done, 0, error, native});
  release(receive);
}

// Gives the record back, unless a multi-receive buffer still takes messages or waits for some.
void Stream::release(Receive& receive) noexcept {
  if ((receive.flags & FI_MULTI_RECV) && (!receive.retired || receive.arriving != 0)) return;
  pools_.receives.give_back(&receive);
}

bool Stream::deliver(Unexpected& message, Receive& receive) noexcept {
  const Piece piece = take_piece(receive, message.len);
  const bool wants_more = piece.buf != nullptr && !receive.retired;
  if (message.complete())
    hand_over(message, piece);
  else
    message.taker = piece;  // finish_unexpected() goes on
  return wants_more;
}

void Stream::hand_over(Unexpected& message, const Piece& piece) noexcept {
  std::size_t left = std::min(message.len, piece.capacity);
  const std::byte* from = message.payload.get();
  if (piece.buf != nullptr) {
    std::memcpy(piece.buf, from, left);
    left = 0;
  }
  for (const iovec* to = piece.receive->iov; left != 0; ++to) {
    const std::size_t part = std::min(left, to->iov_len);
    std::memcpy(to->iov_base, from, part);
    from += part;
    left -= part;
  }
  complete_receive(piece, message);
  forget(message);
}

void Stream::discard(Unexpected& message) noexcept {
  if (message.complete())
    forget(message);
  else
    message.discard_on_arrival = true;
}

// The message is where it belongs, or nowhere.
void Stream::forget(Unexpected& message) noexcept {
  if (message.wants_ack) pay_ack(message.ack_sequence);
  receive_queue().drop(message);
  delete &message;
  // A stream whose peer has closed ends when the last message it left is taken.
  if (state_ == State::kDraining && !receive_queue().keeps_from(*this)) finish_end();
}

std::uint64_t Stream::owe_ack() noexcept {
  acks_owed_.push_back(false);
  return first_owed_ack_ + acks_owed_.size() - 1;
}

void Stream::pay_ack(std::uint64_t sequence) noexcept {
  if (state_ != State::kOpen) return;
  acks_owed_[sequence - first_owed_ack_] = true;
  while (!acks_owed_.empty() && acks_owed_.front()) {
    acks_owed_.pop_front();
    ++first_owed_ack_;
    DataHeader ack;
    ack.op_data = kOpDataAck;
    respond(ack, {});
  }
}

}  // namespace weft::tcp
