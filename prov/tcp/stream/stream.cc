// SPDX-License-Identifier: BSD-2-Clause
// A stream: incoming messages by their operations, fi_msg(3), fi_rma(3), fi_atomic(3); start and end, fi_cm(3). Every
// posted operation completes, fails or is cancelled before the owner is notified of the end.
#include "tcp/stream/stream.h"

#include <rdma/providers/fi_log.h>
#include <sys/socket.h>

#include <chrono>
#include <utility>

#include "tcp/logging.h"
#include "tcp/names.h"
#include "tcp/socket.h"

namespace weft::tcp {
namespace {

// Shorter responses to reads are rarely sent in part, and need no status behind them.
constexpr std::size_t kLeastWithStatus = 4096;

}  // namespace

Stream::Stream(MessageSink& sink, CompletionRoutes& routes, Engine& engine, MemoryRegions& regions,
               TransmitRecords& records) noexcept
    : TransmitSide([](Watch& watch) noexcept { static_cast<Stream&>(watch).run(); },
                   [](Watch& watch) noexcept { static_cast<Stream&>(watch).on_deadline_passed(); }, sink, routes,
                   engine, regions, records) {
  sends = true;
}

// ---- Start and end ----

void Stream::start(UniqueFd socket, bool swap_bytes, Watch* handshake) noexcept {
  const int opened = socket.get();
  open_socket(std::move(socket));
  swap_ = swap_bytes;
  state_ = State::kOpen;
  writable = true;  // registration reports whether it is readable
  Status watched = engine_.open_resources();
  if (watched.ok())
    watched = handshake != nullptr && handshake->fd >= 0 ? engine_.replace(*handshake, *this)
                                                         : engine_.watch_hot(*this, opened);
  if (!watched.ok()) send_error_ = watched.error();
  if (send_error_ != 0) resume();  // the end must follow the caller's FI_CONNECTED
}

void Stream::stop(int error, int reason) noexcept {
  if (state_ == State::kEnded) return;
  const bool was_open = state_ == State::kOpen;
  if (was_open) (void)send_rest();
  if (state_ == State::kEnded) return;  // the connection broke
  state_ = State::kEnded;
  engine_.unwatch(*this);
  if (was_open && sent_count() != 0) close_gently();
  close();
  cancel_transmits(reason, reason, error);
  sink_.abandon(reason, error);
}

bool Stream::send_rest() noexcept {
  if (state_ != State::kOpen) return false;
  use_overflow();
  flush();
  if (state_ != State::kOpen || !holds_injected()) return false;
  return writes_wire() ? !is_abandoned() : !hung;
}

void Stream::look_after_peer(int idle_s, bool has_keepalive) noexcept {
  if (idle_s == 0 || state_ != State::kOpen) return;
  keepalive_s_ = idle_s;
  has_keepalive_ = has_keepalive;
  plan_check();
}

// Connections are checked together, since each check wakes a thread that sleeps.
void Stream::plan_check() noexcept {
  const Clock::duration idle = std::chrono::seconds(keepalive_s_), grid = idle / 4;
  const auto at = (net::now() + idle).time_since_epoch();
  engine_.set_keepalive(*this, Clock::time_point((at / grid + 1) * grid));
}

// The system probes a peer only while nothing is under way, and repeats bytes for a quarter of an hour. A peer of this
// host is checked no more once memory is shared: its system closes the socket.
void Stream::check_peer() noexcept {
  if (!has_keepalive_) enable_keepalive(fd, keepalive_s_);
  has_keepalive_ = true;
  if (reads_wire() && writes_wire()) {
    keepalive_s_ = 0;
  } else if (net::is_unanswered(fd, std::chrono::seconds(2 * keepalive_s_))) {
    keepalive_s_ = 0;
    on_send_error(ETIMEDOUT);
  } else {
    plan_check();
  }
}

// Either the peer is to be checked, or the grace period after its close is over and the remaining unexpected messages
// are dropped.
void Stream::on_deadline_passed() noexcept {
  if (keepalive_s_ != 0 && state_ == State::kOpen) return check_peer();
  if (state_ == State::kOpen && blocked_) {
    FI_INFO(&provider(), FI_LOG_EP_DATA,
            "connection with %s closed: by the peer; %u bytes without a posted receive are dropped\n",
            peer_of(fd).to_string().c_str(), stash_len_);
    blocked_ = false;
    stash_.reset();
    end(send_error_);
  }
  if (state_ == State::kDraining) finish_end();
}

bool Stream::quiet() const noexcept {
  return state_ == State::kOpen && output_quiet() && !blocked_ && payload_left_ == 0 && header_have_ == 0 &&
         send_error_ == 0;
}

bool Stream::shut_down_half() noexcept {
  DataHeader last;
  last.op = Op::kHalfShutdown;
  if ((agreed_ & kHalfShutdown) != 0 && !try_respond(last)) return false;
  set_queue_size(0);
  return true;
}

// ---- Incoming messages ----

bool Stream::begin() noexcept {
  payload_left_ = 0;
  bool taken = true;
  switch (header_.op) {
    case Op::kMessage:
    case Op::kTagged:
    case Op::kAnnounced:
      if (header_.is_ack())
        on_ack();
      else
        taken = begin_message();
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
    case Op::kIdleClose:
      taken = has_room_for_response();
      if (!taken) break;
      set_sink(Sink::kNone);
      taken = sink_.on_control(header_);
      break;
    case Op::kClearance:
      set_sink(Sink::kNone);
      send_announced(header_);
      break;
    case Op::kScarce:
      set_sink(Sink::kNone);
      if (announcements_ != nullptr && announcements_->copies != nullptr) announcements_->scarce = header_.op_data != 0;
      break;
    case Op::kHalfShutdown:
      set_sink(Sink::kNone);
      (agreed_ & kHalfShutdown) != 0 ? sink_.on_half_shutdown()
                                     : protocol_error("half shutdown that was not announced");
      break;
    case Op::kMailbox:
      set_sink(Sink::kNone);
      share_memory(on_mailbox(sink_.local_host(), {header_.tag, header_.cq_data}));
      break;
    case Op::kSwitch:
      set_sink(Sink::kNone);
      share_memory(on_switch());
      break;
    case Op::kRefused:
      set_sink(Sink::kNone);
      refuses_ ? on_refused(header_.tag) : protocol_error("refusal that was not announced");
      break;
    case Op::kReadStatus:
      set_sink(Sink::kNone);
      finish_read();
      break;
    case Op::kAtomic:
      taken = begin_atomic();
      break;
    case Op::kAtomicAnswer:
      begin_atomic_answer();
      break;
  }
  if (!taken || state_ != State::kOpen) return false;
  payload_left_ = header_.payload;
  if (payload_left_ == 0) finish();
  return state_ == State::kOpen;
}

void Stream::propose_memory() noexcept {
  if (const auto at = propose(sink_.local_host()))
    send_control({.op = Op::kMailbox, .flags = kFlagCqData, .cq_data = at->token, .tag = at->mailbox, .rma = {}});
}

void Stream::share_memory(Step step) noexcept {
  switch (step) {
    case Step::kNothing:
      break;
    case Step::kAnnounceDatagram:
      return send_control({.op = Op::kMailbox, .rma = {}});
    case Step::kProposeAgain:
      return propose_memory();
    case Step::kSwitch:
      return send_control({.op = Op::kSwitch, .rma = {}});
    case Step::kFail:
      return protocol_error("switch to memory that is not shared");
  }
}

bool Stream::begin_message() noexcept {
  const auto destination = sink_.begin(header_);
  if (!destination) return false;
  ack_due_ = destination->acknowledge;
  if (ack_due_) reserve_ack(ack_);
  set_sink(Sink::kMessage, destination->iov);
  return true;
}

bool Stream::begin_read_request() noexcept {
  if (!has_room_for_response()) return false;
  iovec iov[kMaxRmaIov];
  std::uint64_t generation = MemoryRegions::kLatest;
  Result<std::size_t> len = translate(regions_, ranges(), FI_REMOTE_READ, iov, generation);
  if (!len) {
    protocol_error("read request for memory that is not exposed");
    return true;
  }
  set_sink(Sink::kNone);
  DataHeader response;
  response.op = Op::kReadResponse;
  response.payload = *len;
  if (refuses_ && *len >= kLeastWithStatus) response.flags = kFlagStatus;
  if (!try_respond(response, std::span(iov, header_.rma_count), ranges(), generation)) {
    end(ENOMEM);
    return true;
  }
  if (routes_.remote_read) routes_.remote_read->add(1);
  if (regions_.has_counters()) count_regions(FI_REMOTE_READ);
  return true;
}

void Stream::begin_read_response() noexcept {
  Transmit* request = oldest_awaiting(Then::kAwaitRead);
  if (request == nullptr || status_due_) return protocol_error("read response without a request");
  if (refuses_ && (header_.flags & kFlagRefused) != 0 && header_.payload == 0) {
    set_sink(Sink::kNone);
    request->unlink();
    return fail_record(*request, FI_EACCES, FI_EACCES);
  }
  const std::span<const iovec> results(request->iov, request->iov_count);
  if (total_length(results) != header_.payload) return protocol_error("read response of a wrong length");
  begin_answer(*request);
  set_sink(Sink::kReadResponse, results);
}

void Stream::begin_write() noexcept {
  iovec iov[kMaxRmaIov];
  sink_generation_ = MemoryRegions::kLatest;
  Result<std::size_t> len = translate(regions_, ranges(), FI_REMOTE_WRITE, iov, sink_generation_);
  if (!len) return protocol_error("write to memory that is not exposed");
  if (*len != header_.payload) return protocol_error("write whose length differs from its target's");
  ++writes_.taken;
  ack_due_ = header_.wants_ack();
  if (ack_due_) reserve_ack(ack_);
  set_sink(Sink::kRmaWrite, std::span(iov, header_.rma_count));
}

// The status behind the data of a read. No other response may come between the two.
void Stream::finish_read() noexcept {
  if (!std::exchange(status_due_, false)) return protocol_error("status without a read");
  Transmit& request = take_answered();
  request.refused = header_.op_data != 0;
  complete(request);
}

void Stream::count_regions(std::uint64_t access) noexcept {
  for (const fi_rma_iov& range : ranges()) regions_.count_access(range.key, access);
}

void Stream::finish() noexcept {
  const Sink kind = std::exchange(sink_kind_, Sink::kNone);
  sink_count_ = 0;
  switch (kind) {
    case Sink::kMessage:
      sink_.finish(header_);
      if (ack_due_) acknowledge(ack_);
      break;
    case Sink::kRmaWrite:
      finish_write();
      [[fallthrough]];
    case Sink::kRefusedWrite:
      if (ack_due_) acknowledge(ack_);
      break;
    case Sink::kReadResponse:
      status_due_ = refuses_ && header_.has_status();
      if (!status_due_) complete(take_answered());
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

void Stream::finish_write() noexcept {
  if (routes_.remote_write) routes_.remote_write->add(1);
  if (regions_.has_counters()) count_regions(FI_REMOTE_WRITE);
  if (header_.has_cq_data() && routes_.receive_queue)
    routes_.receive_queue->write({.flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA,
                                  .len = header_.payload,
                                  .data = header_.cq_data,
                                  .src_addr = sink_.source()});
}

void Stream::on_ack() noexcept {
  set_sink(Sink::kNone);
  Transmit* const oldest = oldest_awaiting(Then::kAwaitAck);
  if (oldest == nullptr) return protocol_error("acknowledgement without a message");
  oldest->unlink();
  complete(*oldest);
}

// ---- Atomic operations ----

// The arrays are collected, then the operation is carried out as a whole. Responses keep the order of the operations.
// False: too many responses are queued for the peer.
bool Stream::begin_atomic() noexcept {
  if (!has_atomics()) {
    protocol_error("atomic operation, although the handshake excluded them");
    return true;
  }
  if (!has_room_for_response()) return false;
  if (atomic_ == nullptr) atomic_.reset(new (std::nothrow) ArrivingAtomic);
  if (atomic_ == nullptr) {
    end(ENOMEM);
    return true;
  }
  rdm::AtomicRange ranges[kMaxRmaIov];
  for (std::size_t i = 0; i < header_.rma_count; ++i)
    ranges[i] = {header_.rma[i].addr, header_.rma[i].len, header_.rma[i].key};
  const AtomicWords words = AtomicWords::of(header_.tag);
  if (words.packed() != header_.tag ||
      !atomic_->demand.read({words.kind, words.datatype, words.operation}, {ranges, header_.rma_count}, header_.payload,
                            kMaxAtomicBytes)) {
    protocol_error("malformed atomic operation");
    return true;
  }
  const iovec iov{atomic_->arrays, static_cast<std::size_t>(header_.payload)};
  set_sink(Sink::kAtomic, {&iov, 1});
  sink_generation_ = regions_.generation();
  return true;
}

void Stream::finish_atomic() noexcept {
  DataHeader answer;
  answer.op = Op::kAtomicAnswer;
  Transmit* record = records_.take();
  if (record == nullptr) return end(ENOMEM);
  record->then = Then::kRespond;
  const std::size_t len = atomic_->demand.result_len(), head = answer.size();
  if (len > kInjectSize && !record->make_copy(len)) {
    records_.give_back(record);
    return end(ENOMEM);
  }
  std::byte* const results = len > kInjectSize ? record->copy.get() : record->inlined + head;
  const int status = atomic_->demand.execute(regions_, routes_, atomic_->arrays, results, sink_generation_);
  answer.tag = static_cast<std::uint64_t>(-status);
  answer.payload = status == 0 ? len : 0;
  if (status != 0) record->copy.reset();
  encode(answer, record->inlined);
  record->len = head + answer.payload;
  record->inline_len = static_cast<std::uint16_t>(record->copy != nullptr ? head : record->len);
  respond_with(*record);
}

void Stream::begin_atomic_answer() noexcept {
  Transmit* request = oldest_awaiting(Then::kAwaitAtomic);
  if (request == nullptr || status_due_) return protocol_error("atomic response without a request");
  const std::span<const iovec> results(request->iov, request->iov_count);
  constexpr std::uint64_t kGreatestStatus = 4095;
  if (header_.tag > kGreatestStatus || header_.payload != (header_.tag == 0 ? total_length(results) : 0))
    return protocol_error("atomic response that does not fit its request");
  begin_answer(*request);
  set_sink(Sink::kAtomicAnswer, results);
}

void Stream::finish_atomic_answer() noexcept {
  Transmit& request = take_answered();
  if (header_.tag == 0) return complete(request);
  const int error = static_cast<int>(header_.tag);
  fail_record(request, error, error);
}

}  // namespace weft::tcp
