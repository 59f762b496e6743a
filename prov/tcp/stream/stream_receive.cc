// SPDX-License-Identifier: BSD-2-Clause
// Incoming bytes of a stream: reads, splits them into headers and payloads, and waits while they cannot be handled.
//
// One read into scratch space brings many small messages. Once a message's header is known and much of its payload is
// outstanding, the rest is read straight into its destination, and the bytes behind it into scratch. A large message is
// likely to follow a large one, so little more than its header is read ahead: bytes in scratch are copied twice.
#include <rdma/providers/fi_log.h>

#include <algorithm>
#include <cstring>

#include "tcp/logging.h"
#include "tcp/stream/stream.h"

namespace weft::tcp {
namespace {

// After this many bytes, or reads, the engine's other sockets get their turn. A read may bring thousands of messages.
constexpr std::size_t kBytesPerTurn = 1024 * 1024;
constexpr int kReadsPerTurn = 16;
// Limits behind the first read of a turn. Short messages take much time for few bytes: a peer of which a turn has read
// at most kFloodBytes after kTimePerTurn gets one short read for a turn, until all its bytes are handled.
constexpr std::chrono::microseconds kTimePerTurn{250};
constexpr std::size_t kFloodBytes = 3 * Engine::kScratchSize;
constexpr std::size_t kFloodAhead = 8 * 1024;

constexpr std::size_t kLargePayload = 16 * 1024;
constexpr std::size_t kReadAhead = 512;           // bytes read behind a large payload
constexpr std::size_t kLongPayload = 128 * 1024;  // from this length on, epoll reports bytes before they are read
// Bytes read from shared memory in one round. The application then posts receives for what follows, and it costs no
// system call to look there again.
constexpr std::size_t kWireAhead = 8 * 1024;

}  // namespace

// Functions of every poll are inlined into run(): after a system call, a jump costs more than the code it skips.

[[gnu::always_inline]] inline void Stream::await_input() noexcept {
  readable = false;
  if (header_.payload >= kLongPayload && !reads_wire()) [[unlikely]]
    engine_.read_when_ready(*this);
}

// The read returned no bytes; returns 0. The system reports an error only once, and the end each time: a send may have
// returned the error first. EPIPE follows the peer's close, and is not an error here.
std::size_t Stream::nothing_read(ssize_t result) noexcept {
  if (result == -EAGAIN)
    await_input();
  else if (result == 0 && !may_end)
    engine_.end_later(*this);
  else
    end(result == 0 && send_error_ != EPIPE ? send_error_ : static_cast<int>(-result));
  return 0;
}

// `bytes` of `wanted` were read; returns 0 when nothing more is read in this round. A short read emptied the socket,
// and new bytes raise an edge; after a hang-up no edge follows, so read to the end. Beside shared memory, a signal may
// announce the end, which is behind all bytes there.
[[gnu::always_inline]] inline std::size_t Stream::read_on(std::size_t bytes, std::size_t wanted) noexcept {
  if (reads_wire() ? signalled || payload_left_ != 0 : bytes == wanted || hung) return bytes;
  await_input();
  return 0;
}

// Bytes have arrived.
[[gnu::always_inline]] inline void Stream::mark_hot() noexcept {
  if (!reads_wire()) return engine_.mark_hot(*this);
  received = true;
  settle();
}

// Reads the rest of the payload into its destination, and the bytes behind it into scratch.
std::size_t Stream::read_direct(std::size_t ahead) noexcept {
  std::byte* scratch = engine_.receive_scratch();
  iovec iov[kIovLimit + 1];
  std::size_t count = 0;
  std::size_t into_sink = 0;
  // The receive may be longer than the message: the bytes behind the message must not go there.
  for (std::uint64_t left = payload_left_; count < sink_count_ && left != 0; ++count) {
    iov[count] = {sink_iov_[count].iov_base, std::min<std::size_t>(sink_iov_[count].iov_len, left)};
    into_sink += iov[count].iov_len;
    left -= iov[count].iov_len;
  }
  iov[count++] = {scratch, ahead};
  const ssize_t got = Transport::receive({iov, count});
  if (got <= 0) return nothing_read(got);
  mark_hot();
  const auto bytes = static_cast<std::size_t>(got);
  const std::size_t sunk = std::min(bytes, into_sink);
  advance_sink(sunk);
  payload_left_ -= sunk;
  if (payload_left_ == 0) finish();
  if (state_ == State::kOpen && bytes > sunk) parse(scratch, bytes - sunk);
  return read_on(bytes, into_sink + ahead);
}

// One system call. Returns 0 when nothing more can be read now.
[[gnu::always_inline]] inline std::size_t Stream::read_some() noexcept {
  const bool discards = payload_left_ != 0 && sink_count_ == 0;
  const std::size_t ahead = header_.payload >= kLargePayload && !discards ? kReadAhead
                            : reads_wire()                                ? kWireAhead
                            : floods_                                     ? kFloodAhead
                                                                          : Engine::kScratchSize;
  if (payload_left_ >= kDirectRead && sink_count_ != 0) [[unlikely]] {
    check_sink();
    if (state_ != State::kOpen) return 0;
    if (sink_count_ != 0) return read_direct(ahead);
  }
  std::byte* scratch = engine_.receive_scratch();
  const ssize_t got = Transport::receive(scratch, ahead);
  if (got <= 0) return nothing_read(got);
  mark_hot();
  parse(scratch, static_cast<std::size_t>(got));
  return read_on(static_cast<std::size_t>(got), ahead);
}

[[gnu::always_inline]] inline void Stream::receive() noexcept {
  if (blocked_ && std::exchange(retry_, false)) [[unlikely]]
    replay_stash();
  std::size_t turn = 0;
  Clock::time_point limit = Clock::time_point::max();
  for (int reads = 0; state_ == State::kOpen && readable && !blocked_; ++reads) {
    if (reads == 1) limit = net::now() + kTimePerTurn;
    const bool late = reads > 1 && net::now() >= limit;
    if (late || turn >= kBytesPerTurn || reads == (floods_ ? 1 : kReadsPerTurn)) {
      floods_ |= late && turn <= kFloodBytes;
      engine_.took_long();
      return resume();
    }
    const std::size_t got = read_some();
    if (got == 0) {
      floods_ = false;
      break;
    }
    turn += got;
  }
  // Nothing is read while blocked, so the peer's close would go unnoticed: the stash gets a grace period.
  if (state_ == State::kOpen && blocked_ && hung && (keepalive_s_ != 0 || !ListHook<DeadlineTag>::linked()))
      [[unlikely]] {
    keepalive_s_ = 0;
    engine_.set_deadline(*this, net::now() + kDrainGrace);
  }
}

void Stream::run() noexcept {
  if (state_ != State::kOpen) return;
  if (engine_.exits()) [[unlikely]]
    return flush();
  attend();
  flush();
  receive();
  // Bytes that arrived before the error are handled first.
  if (state_ == State::kOpen && send_error_ != 0 && !readable && !blocked_) end(send_error_);
  if (state_ == State::kOpen && received && may_propose()) [[unlikely]]
    propose_memory();
  if (state_ == State::kOpen) flush();
}

// The common case, at little more than the cost of the copy: a complete message without optional words that the sink
// takes at once. Returns the bytes of the message; 0: handle it the general way.
[[gnu::always_inline]] inline std::size_t Stream::take_whole(const std::byte* data, std::size_t len) noexcept {
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
  if (!sink_.take_whole(tagged, tag, {data + header, payload})) return 0;
  header_.payload = payload;
  return total;
}

void Stream::parse(const std::byte* data, std::size_t len) noexcept {
  while (len != 0 && state_ == State::kOpen) {
    if (payload_left_ != 0) {
      const std::size_t used = feed_payload(data, len);
      data += used;
      len -= used;
      continue;
    }
    if (header_have_ == 0) {
      if (const std::size_t used = take_whole(data, len); used != 0) {
        data += used;
        len -= used;
        continue;
      }
    }
    if (!parse_header(data, len)) return;
  }
}

// Takes payload bytes; returns how many.
std::size_t Stream::feed_payload(const std::byte* data, std::size_t len) noexcept {
  check_sink();
  if (state_ != State::kOpen) return len;
  const std::size_t used = std::min<std::uint64_t>(len, payload_left_);
  scatter({sink_iov_, sink_count_}, 0, data, used);
  advance_sink(used);
  payload_left_ -= used;
  if (payload_left_ == 0) finish();
  return used;
}

// Moves past one header. False when bytes are missing or the message cannot be handled yet (then all bytes are kept).
bool Stream::parse_header(const std::byte*& data, std::size_t& len) noexcept {
  // Collect the fixed part, then as many bytes as it names; in place if they are contiguous.
  const std::byte* header = data;
  std::byte* const partial = partial_header();
  std::size_t have = len;
  if (header_have_ != 0) {
    const std::size_t known =
        header_have_ < kBaseHeaderSize ? kBaseHeaderSize : static_cast<std::uint8_t>(partial[kHeaderSizeOffset]);
    const std::size_t part = std::min(len, known - header_have_);
    std::memcpy(partial + header_have_, data, part);
    header_have_ = static_cast<std::uint8_t>(header_have_ + part);
    data += part;
    len -= part;
    header = partial;
    have = header_have_;
  }
  std::size_t size = kBaseHeaderSize;
  if (have >= kBaseHeaderSize) {
    size = static_cast<std::uint8_t>(header[kHeaderSizeOffset]);
    if (size < kBaseHeaderSize || size > kMaxHeaderSize) {
      protocol_error("impossible header size");
      return false;
    }
  }
  if (have < size || have < kBaseHeaderSize) {
    if (header != partial) {
      std::memcpy(partial, data, len);
      header_have_ = static_cast<std::uint8_t>(len);
      data += len;
      len = 0;
    }
    return len != 0;  // the fixed part may be complete only now, with more bytes at hand
  }
  std::byte collected[kMaxHeaderSize];
  if (header == partial) header = static_cast<std::byte*>(std::memcpy(collected, partial, size));
  if (!decode(header, swap_, header_).ok()) {
    protocol_error("malformed header");
    return false;
  }
  if (!begin()) {
    if (state_ == State::kOpen) block(header, data, len);
    return false;
  }
  if (header == collected) {
    header_have_ = 0;
  } else {
    data += size;
    len -= size;
  }
  return header_.op != Op::kSwitch;  // wake-ups follow it
}

// The current message cannot be handled: keeps its bytes and reads no more until resume(). `header`: the bytes of it
// that are not in `data`.
void Stream::block(const std::byte* header, const std::byte* data, std::size_t len) noexcept {
  if (stash_ == nullptr) stash_ = engine_.make_stash(header_have_ + len);  // else they are in the stash
  if (stash_ == nullptr) return end(ENOMEM);
  if (len != 0) std::memmove(stash_.get() + header_have_, data, len);
  std::memcpy(stash_.get(), header, header_have_);
  stash_len_ = static_cast<std::uint32_t>(header_have_ + len);
  header_have_ = 0;
  blocked_ = true;
  pause_input(true);
  engine_.cool_down(*this);  // the socket is not read for now: only readiness reports the peer's close
}

void Stream::replay_stash() noexcept {
  blocked_ = false;
  pause_input(false);
  parse(stash_.get(), stash_len_);
  if (!blocked_) stash_.reset();
}

void Stream::set_sink(Sink sink, std::span<const iovec> iov) noexcept {
  sink_kind_ = sink;
  std::copy(iov.begin(), iov.end(), sink_iov_);
  sink_count_ = static_cast<std::uint8_t>(iov.size());
}

// Skips `len` bytes of the sink; bytes beyond its end are discarded.
void Stream::advance_sink(std::size_t len) noexcept {
  std::size_t gone = 0;
  while (gone < sink_count_ && len >= sink_iov_[gone].iov_len) len -= sink_iov_[gone++].iov_len;
  if (gone != 0) {
    std::copy(sink_iov_ + gone, sink_iov_ + sink_count_, sink_iov_);
    sink_count_ = static_cast<std::uint8_t>(sink_count_ - gone);
  }
  if (sink_count_ != 0) {
    sink_iov_[0].iov_base = static_cast<std::byte*>(sink_iov_[0].iov_base) + len;
    sink_iov_[0].iov_len -= len;
  }
}

// A remote write continues only while the registrations that granted it exist. The rest is discarded, and a refusal
// reports that to the peer. A peer without refusals would take its write for a complete one, so its connection ends.
void Stream::check_sink() noexcept {
  if (sink_kind_ != Sink::kRmaWrite || still_granted(ranges(), FI_REMOTE_WRITE, sink_generation_)) [[likely]]
    return;
  if (!refuses_) return protocol_error("memory region closed while the peer was writing to it");
  FI_WARN(&provider(), FI_LOG_EP_DATA,
          "memory region closed while the peer was writing to it; the last %llu bytes of its write are discarded\n",
          static_cast<unsigned long long>(payload_left_));
  sink_kind_ = Sink::kRefusedWrite;
  sink_count_ = 0;
  send_control({.op = Op::kRefused, .tag = writes_.taken, .rma = {}});
}

}  // namespace weft::tcp
