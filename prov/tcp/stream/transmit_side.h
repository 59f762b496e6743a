// SPDX-License-Identifier: BSD-2-Clause
// The outgoing half of a stream and its socket: frames and gathers messages, keeps records of transfers until they are
// sent, acknowledged or answered, and ends the connection when it breaks.
//
// Owner: a connected endpoint or a reliable-datagram channel, as part of its Stream. The engine's mutex guards it.
#pragma once

#include <rdma/fabric.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <utility>

#include "objects/completion_routes.h"
#include "objects/memory_regions.h"
#include "objects/transfer_calls.h"
#include "tcp/engine.h"
#include "tcp/stream/data_header.h"
#include "tcp/stream/responses.h"
#include "tcp/stream/transmit.h"
#include "tcp/stream/transport.h"

namespace weft::tcp {

// The place of one message in Acknowledgements (below), from reserve() to deliver(). Owner: the message. Must not move.
struct Acknowledgement {
  Acknowledgement* earlier = nullptr;
  Acknowledgement* later = nullptr;
  unsigned held_back = 0;  // acknowledgements of delivered messages that follow this one at once
};

// Acknowledgements that a receiver must send (FI_DELIVERY_COMPLETE). They are sent in the order of the messages, since
// the peer matches them first in, first out (docs/decisions/0003).
class Acknowledgements {
 public:
  bool empty() const noexcept { return newest_ == nullptr; }
  // A message has arrived that is to be acknowledged.
  void reserve(Acknowledgement& place) noexcept {
    place = {.earlier = newest_};
    if (newest_ != nullptr) newest_->later = &place;
    newest_ = &place;
  }
  // The message is delivered. Returns how many acknowledgements may be sent now.
  unsigned deliver(Acknowledgement& place) noexcept {
    const unsigned count = 1 + place.held_back;
    (place.later != nullptr ? place.later->earlier : newest_) = place.earlier;
    if (place.earlier == nullptr) return count;
    place.earlier->later = place.later;
    place.earlier->held_back += count;
    return 0;
  }

 private:
  Acknowledgement* newest_ = nullptr;
};

// The owner of a stream in its role as receiver of incoming messages, fi_msg(3), fi_tagged(3). A connected endpoint's
// receiver and a reliable-datagram channel implement it. The engine's mutex is held during every call.
class MessageSink {
 public:
  // Destination of a payload; bytes beyond it are discarded.
  struct Destination {
    std::span<const iovec> iov;  // read before the sink is called again
    bool acknowledge = false;    // when the payload is complete
  };

  // A complete message without optional words. false: nothing was done, and begin() follows.
  virtual bool take_whole(bool tagged, std::uint64_t tag, std::span<const std::byte> payload) noexcept = 0;
  // A message, or an announced one. nullopt: it cannot be handled before the stream's resume(), after which begin() is
  // called again; or the sink has ended the stream.
  virtual std::optional<Destination> begin(const DataHeader& header) noexcept = 0;
  // The payload of the last begin(), which had this header, is complete.
  virtual void finish(const DataHeader& header) noexcept = 0;
  // A header of the reliable-datagram protocol without payload: an announcement or an idle-close message. False: as
  // begin().
  virtual bool on_control(const DataHeader& header) noexcept = 0;
  // No more bytes will arrive: receives with a partly received message fail with `error`.
  virtual void abandon(int error, int native) noexcept = 0;
  // Whether the end of the stream may be reported at once; otherwise it is after kDrainGrace or the stream's
  // finish_end().
  virtual bool drained() noexcept { return true; }
  // Every operation of the stream has completed: the peer closed (0), or the connection broke (errno). Not called after
  // the stream's stop().
  virtual void on_stream_end(int error) noexcept = 0;
  // The error of sends that are incomplete when the stream ends.
  virtual int interrupted_error() const noexcept = 0;
  // The peer sends no more messages.
  virtual void on_half_shutdown() noexcept {}
  // Called if the stream allows_wire().
  virtual LocalHost& local_host() noexcept = 0;
  // The peer's address in completions.
  virtual fi_addr_t source() noexcept { return FI_ADDR_NOTAVAIL; }

 protected:
  ~MessageSink() = default;
};

struct Gather;

// A message of 1 to kInjectSize bytes, whose header has nothing optional but a tag.
[[gnu::always_inline]] inline bool is_small(const TransmitRequest& request) noexcept {
  constexpr std::uint64_t kPlainFlags = FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE;
  return request.operation <= Operation::kTagged && (request.flags & ~kPlainFlags) == 0 && request.iov.size() == 1 &&
         request.iov[0].iov_len != 0 && request.iov[0].iov_len <= kInjectSize && request.iov[0].iov_base != nullptr &&
         request.receive_context == 0;
}

class TransmitSide : public Transport {
 public:
  bool open() const noexcept { return state_ == State::kOpen; }
  bool ended() const noexcept { return state_ == State::kEnded; }

  // 0, or -FI_EAGAIN when the queue is full, -FI_ESHUTDOWN after a half shutdown, -FI_ENOTCONN when the stream ended.
  // `has_waited`: for the connection; although the message is injected, it may wait for room, too.
  ssize_t transmit(const TransmitRequest& request, bool has_waited = false) noexcept;
  // transmit() for a request that is_small().
  ssize_t send_small(const TransmitRequest& request) noexcept;
  // Sends a header without payload, ahead of the application's messages. Without memory the stream ends.
  void send_control(const DataHeader& header) noexcept {
    if (!try_respond(header)) end(ENOMEM);
  }
  // Sends a response whose `payload` was granted for `granted`, which is checked again if a registration is closed.
  // False when memory runs out.
  bool try_respond(const DataHeader& header, std::span<const iovec> payload = {},
                   std::span<const fi_rma_iov> granted = {}, std::uint64_t generation = 0) noexcept;
  // Long tagged messages are announced from now on: the peer supports it. Without memory for tickets, none is.
  // `copies`: the peer supports numbers as well; the memory of messages that complete before it fetches them.
  void enable_announcements(messages::PeerMemory* copies) noexcept {
    announcements_.reset(new (std::nothrow) Announcements);
    if (announcements_ != nullptr) announcements_->copies = copies;
  }

  // For the sink, which acknowledges a message itself if the message is delivered later than it arrives.
  void reserve_ack(Acknowledgement& place) noexcept { acks_.reserve(place); }
  void acknowledge(Acknowledgement& place) noexcept;
  // The peer violated the protocol: the connection ends.
  void protocol_error(const char* what) noexcept;
  // The sink can handle the message that begin() refused. Also runs the stream for queued messages.
  void resume() noexcept {
    retry_ = true;
    engine_.make_ready(*this);
  }
  // The peer closed and the sink has delivered its last message: reports the end before kDrainGrace is over.
  void finish_end() noexcept;
  bool draining() const noexcept { return state_ == State::kDraining; }

  // An operation waits for the peer's answer, which follows other bytes of the peer.
  bool awaits_answer() noexcept {
    return !std::all_of(std::begin(awaiting_), std::end(awaiting_), [](auto& list) { return list.empty(); });
  }

  // The application's operations without a completion.
  std::size_t outstanding() const noexcept { return outstanding_; }
  // Whether an operation that has not completed reports to `routes`.
  bool carries(const CompletionRoutes& routes) noexcept;
  void set_queue_size(std::size_t size) noexcept { queue_size_ = size; }
  std::size_t queue_size() const noexcept { return queue_size_; }
  std::uint32_t sent_count() const noexcept { return next_id_; }

 protected:
  enum class State : std::uint8_t { kIdle, kOpen, kDraining, kEnded };

  TransmitSide(Watch::Handler ready, Watch::Handler deadline_passed, MessageSink& sink, CompletionRoutes& routes,
               Engine& engine, MemoryRegions& regions, TransmitRecords& records) noexcept
      : Transport(ready, deadline_passed, engine), sink_(sink), routes_(routes), regions_(regions), records_(records) {}
  ~TransmitSide() = default;

  bool has_output() const noexcept {
    return !sending_.empty() || !queue_.empty() || !responses_.empty() || acks_due_ != 0;
  }
  void flush() noexcept {
    if (has_output()) flush_queued();
  }
  // Messages are queued that are complete for the application.
  bool holds_injected() noexcept;
  // Accounts for the bytes that the peer fetched from our memory.
  void settle() noexcept;
  bool has_room_for_response() const noexcept {
    return response_bytes_ < (records_.response_bytes < kAllResponseBytes ? kMaxResponseBytes : kResponseShare);
  }
  void respond_with(Transmit& record) noexcept;
  void count_response(const Transmit& record) noexcept {
    response_bytes_ += record.memory();
    records_.response_bytes += record.memory();
  }
  void send_announced(const DataHeader& clearance) noexcept;
  // The peer discards the write of that number, which fails unless it is complete.
  void on_refused(std::uint64_t number) noexcept;
  // The oldest operation that waits for such an answer; null: none.
  Transmit* oldest_awaiting(Then then) noexcept { return awaiting(then).empty() ? nullptr : &awaiting(then).front(); }
  // The answer to `record` is arriving, until take_answered().
  void begin_answer(Transmit& record) noexcept {
    record.unlink();
    answered_ = &record;
  }
  Transmit& take_answered() noexcept { return *std::exchange(answered_, nullptr); }
  void complete(Transmit& record) noexcept;
  void report_sent(Transmit& record) noexcept;
  void release(Transmit& record) noexcept;
  void fail_record(Transmit& record, int error, int native) noexcept;
  // `answered_error`: for the operation whose answer is arriving.
  void cancel_transmits(int error, int answered_error, int native) noexcept;
  // Nothing is queued, and no acknowledgement is due.
  bool output_quiet() const noexcept {
    return outstanding_ == 0 && (announcements_ == nullptr || announcements_->kept.empty()) && response_bytes_ == 0 &&
           responses_.empty() && sending_.empty() && queue_.empty() && acks_.empty() && acks_due_ == 0;
  }

  void on_send_error(int error) noexcept;
  void end(int error) noexcept;  // the peer closed (0) or the connection broke
  // Whether an access that was granted by translate() may continue.
  bool still_granted(std::span<const fi_rma_iov> ranges, std::uint64_t access, std::uint64_t& generation) noexcept;

  MessageSink& sink_;
  CompletionRoutes& routes_;
  MemoryRegions& regions_;
  TransmitRecords& records_;
  std::unique_ptr<Announcements> announcements_;
  State state_ = State::kIdle;
  bool retry_ = false;    // resume() was called
  bool blocked_ = false;  // bytes arrived that cannot be handled yet
  bool refuses_ = false;  // both ends have Extension::kRefusals
  int send_error_ = 0;
  int end_error_ = 0;  // errno behind the cancellations
  struct {
    std::uint32_t sent = 0, taken = 0;
  } writes_;  // remote writes of both directions so far, for Op::kRefused

 private:
  ssize_t transmit_now(const TransmitRequest& request, DataHeader& header, std::size_t len, bool has_waited) noexcept;
  ssize_t keep_rest(const TransmitRequest& request, DataHeader& header, std::size_t len, ssize_t sent,
                    bool has_waited) noexcept;
  Transmit* make_record(const TransmitRequest& request, DataHeader& header, std::size_t len, Then then) noexcept;
  bool may_go_at_once(std::uint64_t flags, std::size_t len) noexcept;
  bool continues_burst() noexcept;
  bool may_wait(std::uint64_t flags, std::size_t len) noexcept;
  bool announces(const TransmitRequest& request, std::size_t len, Then then) const noexcept;
  void announce(Transmit& record) noexcept;
  bool wants_completion(const TransmitRequest& request) const noexcept {
    return !request.silent && routes_of(request).reports_sent(request.flags);
  }
  template <class Operation>
  CompletionRoutes& routes_of(const Operation& operation) const noexcept {
    return operation.routes != nullptr ? *operation.routes : routes_;
  }

  Transmit* make_acks() noexcept;
  Transmit* next_to_send() noexcept;
  void flush_queued() noexcept;
  bool gather(Gather& batch) noexcept;
  bool add_to(Gather& batch, Transmit& record) noexcept;
  void account(std::size_t sent) noexcept;
  void on_written(Transmit& record) noexcept;
  bool response_still_valid(Transmit& record) noexcept;
  List<Transmit>& awaiting(Then then) noexcept { return awaiting_[static_cast<std::size_t>(then)]; }

  std::uint32_t next_id_ = 0;       // messages with a position on the wire; the low byte travels with each
  std::size_t response_bytes_ = 0;  // memory of responses that are not sent
  std::size_t outstanding_ = 0;
  std::size_t queue_size_ = kDefaultQueueSize;    // 0: shut down
  std::uint64_t last_round_ = ~std::uint64_t{0};  // the engine's round of the last message sent
  // Records move from queue_ (or responses_) to sending_, whose order is the order on the wire, and then to awaiting_.
  TransmitQueue queue_;
  List<Transmit> responses_;  // and announced messages that the peer cleared
  List<Transmit> sending_;
  List<Transmit> awaiting_[kAnswerKinds];  // by Then
  Transmit* answered_ = nullptr;           // its answer is arriving
  Acknowledgements acks_;
  std::uint64_t acks_due_ = 0;  // acknowledgements to be sent; only counted, since a peer may cause any number
  bool in_burst_ = false;       // the last message was not the first one of its round
};

}  // namespace weft::tcp
