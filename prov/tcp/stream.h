// SPDX-License-Identifier: BSD-2-Clause
// An established connection: frames outgoing messages, parses incoming ones, and completes each operation exactly once.
// One Stream is embedded in each endpoint; it costs no buffer while idle (scratch space and records are the domain's).
// The engine's mutex guards everything here.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/ring.h"
#include "base/unique_fd.h"
#include "objects/completion_routes.h"
#include "objects/memory_regions.h"
#include "tcp/data_header.h"
#include "tcp/engine.h"
#include "tcp/receive_queue.h"
#include "tcp/transmit.h"

namespace weft::tcp {

class Channel;
class TransferEndpoint;
struct TransferPools;

class Stream final : public Watch, public ListHook<BlockedTag> {
 public:
  // Of a connected endpoint; or of a channel of reliable datagrams, whose messages that one takes.
  Stream(TransferEndpoint& endpoint, Engine& engine, MemoryRegions& regions, TransferPools& pools) noexcept;
  Stream(Channel& channel, CompletionRoutes& routes, Engine& engine, MemoryRegions& regions,
         TransferPools& pools) noexcept;

  // The socket is connected and non-blocking; `early` was read behind the handshake.
  // `handshake`: what watched the socket so far, if anything.
  void start(UniqueFd socket, bool swap_bytes, std::span<const std::byte> early, Watch* handshake) noexcept;
  // Local end: sends what was gathered if the kernel takes it, closes, fails everything with `reason`. Idempotent.
  void stop(int error, int reason = FI_ECANCELED) noexcept;
  // After start(), for a socket that did not inherit it: the system is told to ask a silent peer whether it is there,
  // once there may have been so long a silence, because telling it takes four system calls. 0: never.
  void ask_when_silent(int idle_s) noexcept;
  bool open() const noexcept { return state_ == State::kOpen; }
  bool ended() const noexcept { return state_ == State::kEnded; }

  // 0, or -FI_EAGAIN when the queue is full, -FI_ENOTCONN when the stream ended.
  ssize_t transmit(const TransmitRequest& request) noexcept;
  ssize_t send_small(const SmallMessage& small) noexcept;  // the same
  std::size_t outstanding() const noexcept { return outstanding_; }
  // Something is under way that completes there.
  bool carries(const CompletionRoutes& routes) noexcept;
  void set_queue_size(std::size_t size) noexcept { queue_size_ = size; }
  std::size_t queue_size() const noexcept { return queue_size_; }

  // Gives an unexpected message that came from this stream to `receive`, at once or when all of it is here. Whether
  // `receive` (FI_MULTI_RECV) takes further messages; if not, it may be gone.
  bool deliver(Unexpected& message, Receive& receive) noexcept;
  // The application wants no data of it (FI_DISCARD).
  void discard(Unexpected& message) noexcept;
  // The peer may send the message that it announced under this ticket.
  void clear(std::uint8_t ticket) noexcept { say(Op::kClearance, ticket); }
  // Sends a header that is all there is to it, before what the application sends.
  void say(Op op, std::uint8_t op_data) noexcept;
  // Nothing is on its way, in either direction, and nothing is owed.
  bool quiet() const noexcept;
  std::uint32_t sent_count() const noexcept { return next_id_; }
  void resume() noexcept {
    retry_ = true;
    engine_.make_ready(*this);
  }

 private:
  friend Channel;
  enum class State : std::uint8_t { kIdle, kOpen, kDraining, kEnded };
  enum class Sink : std::uint8_t {
    kNone,
    kReceive,
    kUnexpected,
    kChannel,
    kRmaWrite,
    kReadResponse,
    kAtomic,
    kAtomicAnswer
  };

  void run() noexcept;
  void on_deadline_passed() noexcept;

  // stream_transmit.cc
  ssize_t transmit_now(const TransmitRequest& request, const DataHeader& header, std::size_t len) noexcept;
  ssize_t keep_rest(const TransmitRequest& request, const DataHeader& header, std::size_t len, ssize_t sent) noexcept;
  ssize_t enqueue(const TransmitRequest& request, const DataHeader& header, std::size_t len, Then then) noexcept;
  Transmit* make_record(const TransmitRequest& request, const DataHeader& header, std::size_t len, Then then) noexcept;
  bool may_go_at_once(std::uint64_t flags, std::size_t len) noexcept;
  bool continues_burst() noexcept;
  bool may_wait(std::uint64_t flags, std::size_t len) noexcept;
  void flush() noexcept {
    if (!sending_.empty() || !queue_.empty() || !responses_.empty()) flush_queued();
  }
  void flush_queued() noexcept;
  void on_send_error(int error) noexcept;
  struct Gather;
  bool gather(Gather& batch) noexcept;
  bool add_to(Gather& batch, Transmit& record) noexcept;
  void account(std::size_t sent) noexcept;
  void on_written(Transmit& record) noexcept;
  bool fence_holds(const Transmit& record) noexcept;
  void complete(Transmit& record) noexcept;
  void fail_record(Transmit& record, int error, int native) noexcept;
  void respond(const DataHeader& header, std::span<const iovec> payload) noexcept;
  void respond_with(Transmit& record) noexcept;
  bool announces(const TransmitRequest& request, std::size_t len, Then then) const noexcept;
  void send_announced(std::uint8_t ticket) noexcept;
  bool wants_completion(const TransmitRequest& request) const noexcept {
    return !request.silent && routes_of(request).reports_sent(request.flags);
  }
  template <class Operation>
  CompletionRoutes& routes_of(const Operation& operation) const noexcept {
    return operation.routes != nullptr ? *operation.routes : routes_;
  }
  bool response_still_valid(Transmit& record) noexcept;
  void cancel_transmits(int error, int native) noexcept;

  // stream_receive.cc
  void receive() noexcept;
  std::size_t read_some() noexcept;
  std::size_t read_direct(std::size_t ahead) noexcept;
  std::size_t nothing_read(ssize_t result) noexcept;
  std::size_t read_on(std::size_t bytes, std::size_t wanted) noexcept;
  std::size_t feed_payload(const std::byte* data, std::size_t len) noexcept;
  void parse(const std::byte* data, std::size_t len) noexcept;
  bool parse_header(const std::byte*& data, std::size_t& len) noexcept;
  void advance_sink(std::size_t len) noexcept;
  void set_sink(Sink sink, std::span<const iovec> iov) noexcept;
  bool sink_still_valid() noexcept;
  void replay_stash() noexcept;
  void block(const std::byte* data, std::size_t len) noexcept;

  // stream_messages.cc
  std::size_t take_whole(const std::byte* data, std::size_t len) noexcept;
  bool begin(const DataHeader& header) noexcept;  // false: cannot go on before something is posted or sent
  bool goes_by_tag() const noexcept;
  bool begin_message() noexcept;
  bool begin_unexpected() noexcept;
  bool begin_read_request() noexcept;
  void begin_read_response() noexcept;
  void begin_write() noexcept;
  void finish() noexcept;
  void finish_unexpected() noexcept;
  void hand_over(Unexpected& message, const Piece& piece) noexcept;
  void forget(Unexpected& message) noexcept;
  void finish_write() noexcept;
  void on_ack() noexcept;
  Piece take_piece(Receive& receive, std::size_t len) noexcept;
  void complete_receive(const Piece& piece, const Unexpected& message) noexcept;
  void fail_receive(const Piece& piece, int error, int native) noexcept;
  void release(Receive& receive) noexcept;
  void count_regions(std::uint64_t access) noexcept;

  // stream_atomics.cc
  bool begin_atomic() noexcept;
  void finish_atomic() noexcept;
  void begin_atomic_answer() noexcept;
  void finish_atomic_answer() noexcept;

  std::uint64_t owe_ack() noexcept;
  void pay_ack(std::uint64_t sequence) noexcept;
  Result<std::size_t> translate(std::span<const RmaRange> ranges, std::uint64_t access, iovec* out) noexcept;

  // stream.cc
  void protocol_error(const char* what) noexcept;
  ReceiveQueue& receive_queue() noexcept;
  void end(int error) noexcept;  // the peer closed (0) or the connection broke
  void finish_end() noexcept;
  void close_socket() noexcept;
  void cancel_receives(int arriving_error, int native) noexcept;

  TransferEndpoint* const endpoint_;  // one of the two
  Channel* const channel_;
  CompletionRoutes& routes_;
  Engine& engine_;
  MemoryRegions& regions_;
  TransferPools& pools_;
  UniqueFd socket_;
  State state_ = State::kIdle;
  bool swap_ = false;
  bool blocked_ = false;  // the stash holds bytes that cannot be handled yet
  bool retry_ = false;    // something was posted or sent since
  int end_error_ = 0;     // errno behind the cancellations
  int send_error_ = 0;
  int keepalive_s_ = 0;  // the deadline is that of ask_when_silent()

  // Outgoing. Records move from queue_ (or responses_) to sending_, whose order is the order on the wire.
  std::uint32_t next_id_ = 0;   // messages that have a place on the wire; its low byte travels with each
  std::uint32_t gathered_ = 0;  // bytes waiting in queue_
  std::uint32_t response_count_ = 0;
  std::size_t outstanding_ = 0;  // the application's operations without a completion
  std::size_t queue_size_ = kDefaultQueueSize;
  std::uint64_t last_round_ = ~std::uint64_t{0};  // the engine's round in which a message left last
  bool in_burst_ = false;                         // the last message was not the first one of its round
  List<Transmit> queue_;
  List<Transmit> responses_;
  List<Transmit> sending_;
  List<Transmit> awaiting_acks_;
  List<Transmit> awaiting_reads_;
  List<Transmit> awaiting_atomics_;
  List<Transmit> awaiting_clearance_;

  // Incoming: the message that is arriving; after it, at least header_.payload still tells how long it was.
  DataHeader header_;
  Sink sink_kind_ = Sink::kNone;
  std::uint8_t sink_count_ = 0;
  std::uint8_t header_have_ = 0;
  std::uint64_t payload_left_ = 0;
  std::uint32_t sink_generation_ = 0;
  iovec sink_[kIovLimit];
  Piece piece_;
  std::uint64_t ack_sequence_ = 0;
  Unexpected* unexpected_ = nullptr;
  Transmit* reading_ = nullptr;
  std::byte partial_header_[kMaxHeaderSize];
  std::vector<std::byte> stash_;

  // Acknowledgements leave in the order of their requests: the peer matches them first in, first out.
  Ring<bool> acks_owed_;              // true: delivered
  std::uint64_t first_owed_ack_ = 0;  // sequence number of acks_owed_[0]
};

// Records shared by the endpoints of a domain, so that an idle endpoint owns none.
struct TransferPools {
  Pool<Transmit> transmits;
  Pool<Receive> receives;
};

}  // namespace weft::tcp
