// SPDX-License-Identifier: BSD-2-Clause
// An established connection: parses incoming messages, hands their payloads to a MessageSink, serves remote memory
// access and atomic operations, and completes each operation exactly once. Its base class is the outgoing half.
//
// Owner: a connected endpoint or a reliable-datagram channel. An idle stream owns no buffer: scratch space and records
// are the domain's. The engine's mutex guards everything here.
#pragma once

#include <memory>
#include <span>

#include "rdm/atomics.h"
#include "tcp/stream/transmit_side.h"

namespace weft::tcp {

// A peer's atomic operation while its arrays arrive: it is carried out as a whole.
struct ArrivingAtomic {
  rdm::ReceivedAtomic demand;
  alignas(16) std::byte arrays[kMaxAtomicBytes];
};

class Stream final : public TransmitSide {
 public:
  Stream(MessageSink& sink, CompletionRoutes& routes, Engine& engine, MemoryRegions& regions,
         TransmitRecords& records) noexcept;

  // The socket is connected and non-blocking. `handshake`: the watch of the socket so far.
  void start(UniqueFd socket, bool swap_bytes, Watch* handshake) noexcept;
  // Local end: sends gathered messages if the kernel takes them, closes, fails everything with `reason`. Idempotent.
  void stop(int error, int reason = FI_ECANCELED) noexcept;
  // Before stop(): sends as much as there is room for. True: messages that were reported as complete wait for the peer
  // to make room.
  bool send_rest() noexcept;
  // After start(): detects that the peer's host is dead, within two to four times `idle_s`; 0: never. Enables keepalive
  // once the connection is `idle_s` old, unless the socket `has_keepalive`: it takes four system calls, which short
  // connections save.
  void look_after_peer(int idle_s, bool has_keepalive) noexcept;
  // The handshake agreed on atomic operations.
  void enable_atomics() noexcept { agreed_ |= kAtomics; }
  bool has_atomics() const noexcept { return (agreed_ & kAtomics) != 0; }
  // The handshake agreed on half shutdown.
  void enable_half_shutdown() noexcept { agreed_ |= kHalfShutdown; }
  // The handshake agreed on refusals of accesses to memory that is deregistered meanwhile.
  void enable_refusals() noexcept { refuses_ = true; }
  // Reports that no messages follow those of the application, if the peer supports that. False when memory runs out.
  bool shut_down_half() noexcept;
  // The rest of the message that is arriving is discarded.
  void discard_rest() noexcept { sink_count_ = 0; }
  // Nothing is on its way in either direction, and no acknowledgement is due.
  bool quiet() const noexcept;

 private:
  static constexpr std::uint8_t kAtomics = 1, kHalfShutdown = 2;
  enum class Sink : std::uint8_t { kNone, kMessage, kRmaWrite, kRefusedWrite, kReadResponse, kAtomic, kAtomicAnswer };

  void run() noexcept;
  void on_deadline_passed() noexcept;
  void check_peer() noexcept;
  void plan_check() noexcept;

  // stream_receive.cc
  void receive() noexcept;
  std::size_t read_some() noexcept;
  std::size_t read_direct(std::size_t ahead) noexcept;
  void mark_hot() noexcept;
  void await_input() noexcept;
  std::size_t nothing_read(ssize_t result) noexcept;
  std::size_t read_on(std::size_t bytes, std::size_t wanted) noexcept;
  std::size_t feed_payload(const std::byte* data, std::size_t len) noexcept;
  std::size_t take_whole(const std::byte* data, std::size_t len) noexcept;
  void parse(const std::byte* data, std::size_t len) noexcept;
  bool parse_header(const std::byte*& data, std::size_t& len) noexcept;
  void advance_sink(std::size_t len) noexcept;
  void set_sink(Sink sink, std::span<const iovec> iov = {}) noexcept;
  void check_sink() noexcept;
  void replay_stash() noexcept;
  void block(const std::byte* header, const std::byte* data, std::size_t len) noexcept;

  // Incoming messages.
  bool begin() noexcept;  // false: blocked until resume(), or the stream ended
  void propose_memory() noexcept;
  void share_memory(Step step) noexcept;
  bool begin_message() noexcept;
  bool begin_read_request() noexcept;
  void begin_read_response() noexcept;
  void finish_read() noexcept;
  void begin_write() noexcept;
  void on_ack() noexcept;
  void finish() noexcept;
  void finish_write() noexcept;
  void count_regions(std::uint64_t access) noexcept;
  std::span<const fi_rma_iov> ranges() const noexcept { return {header_.rma, header_.rma_count}; }
  bool begin_atomic() noexcept;
  void finish_atomic() noexcept;
  void begin_atomic_answer() noexcept;
  void finish_atomic_answer() noexcept;

  bool swap_ = false;
  std::uint8_t agreed_ = 0;
  bool status_due_ = false;  // the data of a read has arrived, its status has not
  bool has_keepalive_ : 1 = false;
  bool floods_ : 1 = false;  // bytes arrive faster than their short messages can be handled
  int keepalive_s_ = 0;      // not 0: the deadline is that of look_after_peer()

  // The part of a header that has arrived is collected in the place of its optional words.
  std::byte* partial_header() noexcept {
    static_assert(sizeof header_ - offsetof(DataHeader, cq_data) == kMaxHeaderSize);
    return reinterpret_cast<std::byte*>(&header_.cq_data);
  }

  // The message that is arriving; afterwards header_.payload remains, the length of the last one.
  DataHeader header_;
  Sink sink_kind_ = Sink::kNone;
  bool ack_due_ = false;  // `ack_`, when the payload is complete
  std::uint8_t sink_count_ = 0;
  std::uint8_t header_have_ = 0;
  std::uint32_t stash_len_ = 0;
  std::uint64_t sink_generation_ = 0;  // a write or an atomic operation may access registrations up to this generation
  std::uint64_t payload_left_ = 0;
  Acknowledgement ack_;
  iovec sink_iov_[kIovLimit];  // where the payload goes
  Engine::Stash stash_;
  std::unique_ptr<ArrivingAtomic> atomic_;  // allocated by the first operation
};

}  // namespace weft::tcp
