// SPDX-License-Identifier: BSD-2-Clause
// The header of a data message on a tcp connection: 16 bytes, then optional words in a fixed order: completion data,
// tag, length of an announced message, remote memory ranges. Headers travel in the sender's byte order, which the
// handshake reports.
#pragma once

#include <rdma/fi_rma.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/status.h"
#include "tcp/limits.h"

namespace weft::tcp {

enum class Op : std::uint8_t {
  kMessage = 0,
  kTagged = 1,
  kReadRequest = 2,
  kReadResponse = 3,
  kWrite = 4,
  // Reliable datagrams only: a long tagged message is announced, cleared when a receive matches it, and then sent.
  kAnnouncement = 5,
  kClearance = 6,
  kAnnounced = 7,
  // Only if both ends close idle connections (reliable/greeting.h): a message of rdm/peer_link.h.
  kIdleClose = 64,
  // Only if both ends support them: an atomic operation (AtomicWords in place of the tag, ranges in elements, arrays
  // behind the header) and its response, in order (a status in place of the tag, then the fetched elements). Elements
  // are in the byte order that both ends share.
  kAtomic = 65,
  kAtomicAnswer = 66,
  // Only if both ends have numbers for announced messages: whether the sender's memory for unexpected messages is
  // scarce (op_data 1), so that its peer shall announce short messages as well.
  kScarce = 67,
  // Only if both ends announced Extension::kHalfShutdown: no message of the sender follows.
  kHalfShutdown = 68,
  // Only if both ends announced Extension::kLocalWire: the sender's mailbox (in place of the tag) and a token (in place
  // of completion data; none: a datagram is in the receiver's mailbox), see local/local_host.h; and the last bytes
  // before the sender writes to shared memory.
  kMailbox = 69,
  kSwitch = 70,
  // Only if both ends announced Extension::kRefusals: the rest of a write is discarded, because its memory was
  // deregistered. The number (in place of the tag) counts the writes of that direction, in 32 bits.
  kRefused = 71,
  // Likewise, right behind the data of a read response with kFlagStatus: whether the read failed (op_data 1), because
  // its memory was deregistered. Zeros are in place of the rest then. With kFlagRefused nothing was read, and no data
  // follows.
  kReadStatus = 72,
};

inline constexpr std::uint8_t kDataVersion = 3;
inline constexpr std::uint16_t kFlagCqData = 1 << 0;
inline constexpr std::uint16_t kFlagDeliveryComplete = 1 << 2;  // the sender waits for an acknowledgement
// Above the flags: the peer's receive context that a message or an announcement is addressed to. Only weft's scalable
// endpoints have contexts other than 0.
inline constexpr unsigned kContextShift = 8;
inline constexpr std::uint16_t kFlagTagged = 1 << 7;  // on kMessage: some tagged messages of release 1.17
// In op_data of announcement, clearance and announced message: the ticket, from 1 on, chosen by the sender. 0: a word
// with a number takes its place, if both ends agreed on that (reliable/greeting.h).
inline constexpr std::size_t kTickets = 256;
inline constexpr std::uint16_t kFlagUntagged = 1 << 1;  // on an announcement with a number: the tag means nothing
inline constexpr std::uint16_t kFlagStatus = 1 << 3;    // on a read response: Op::kReadStatus follows
inline constexpr std::uint16_t kFlagRefused = 1 << 4;   // on a read response: the read failed
inline constexpr std::uint8_t kOpDataAck = 2;           // on kMessage without payload: the acknowledgement

// An atomic operation's kind and element type, packed from the lowest byte on.
struct AtomicWords {
  std::uint8_t kind = 0;       // AtomicKind
  std::uint8_t datatype = 0;   // fi_datatype
  std::uint8_t operation = 0;  // fi_op

  constexpr std::uint64_t packed() const noexcept {
    return kind | std::uint64_t{datatype} << 8 | std::uint64_t{operation} << 16;
  }
  static constexpr AtomicWords of(std::uint64_t packed) noexcept {
    return {static_cast<std::uint8_t>(packed), static_cast<std::uint8_t>(packed >> 8),
            static_cast<std::uint8_t>(packed >> 16)};
  }
};

// A range of remote memory is three words on the wire.
static_assert(sizeof(fi_rma_iov) == 24 && sizeof(std::size_t) == 8);

struct DataHeader {
  Op op = Op::kMessage;
  std::uint16_t flags = 0;
  std::uint8_t op_data = 0;
  std::uint8_t rma_count = 0;
  std::uint64_t payload = 0;  // bytes behind the header
  std::uint64_t cq_data = 0;
  std::uint64_t tag = 0;
  std::uint64_t announced = 0;  // kAnnouncement: bytes of the message
  union {
    std::uint64_t number = 0;  // an announced message's, in place of a ticket: it has no ranges
    fi_rma_iov rma[kMaxRmaIov];
  };

  std::uint8_t receive_context() const noexcept { return static_cast<std::uint8_t>(flags >> kContextShift); }
  void set_receive_context(std::uint8_t index) noexcept { flags |= static_cast<std::uint16_t>(index << kContextShift); }
  bool has_cq_data() const noexcept { return (flags & kFlagCqData) != 0; }
  bool wants_ack() const noexcept { return (flags & kFlagDeliveryComplete) != 0; }
  bool is_atomic() const noexcept { return op == Op::kAtomic || op == Op::kAtomicAnswer; }
  bool has_tag() const noexcept {
    return op == Op::kTagged || op == Op::kAnnouncement || op == Op::kMailbox || op == Op::kRefused || is_atomic();
  }
  bool is_tagged() const noexcept { return has_tag() && !(has_number() && (flags & kFlagUntagged) != 0); }
  bool has_number() const noexcept { return op >= Op::kAnnouncement && op <= Op::kAnnounced && op_data == 0; }
  bool has_status() const noexcept { return op == Op::kReadResponse && (flags & kFlagStatus) != 0; }
  bool is_ack() const noexcept { return op == Op::kMessage && op_data == kOpDataAck; }
  std::size_t size() const noexcept {
    return kBaseHeaderSize + (has_cq_data() ? 8 : 0) + (has_tag() ? 8 : 0) + (op == Op::kAnnouncement ? 8 : 0) +
           (has_number() ? 8 : 0) + rma_count * sizeof(fi_rma_iov);
  }
};

// Offset of the per-direction message counter, filled in when the message's position in the stream is known.
inline constexpr std::size_t kIdOffset = 7;
inline constexpr std::size_t kHeaderSizeOffset = 6;

// Writes the header (at most kMaxHeaderSize bytes) and returns its size.
inline std::size_t encode(const DataHeader& header, std::byte* out) noexcept {
  const std::size_t size = header.size();
  const std::uint64_t total = size + header.payload;
  out[0] = std::byte{kDataVersion};
  out[1] = static_cast<std::byte>(header.op);
  std::memcpy(out + 2, &header.flags, 2);
  out[4] = std::byte{header.op_data};
  out[5] = std::byte{header.rma_count};
  out[kHeaderSizeOffset] = static_cast<std::byte>(size);
  out[kIdOffset] = std::byte{0};
  std::memcpy(out + 8, &total, 8);
  std::byte* next = out + kBaseHeaderSize;
  auto put = [&next](std::uint64_t word) {
    std::memcpy(next, &word, 8);
    next += 8;
  };
  if (header.has_cq_data()) put(header.cq_data);
  if (header.has_tag()) put(header.tag);
  if (header.op == Op::kAnnouncement) put(header.announced);
  if (header.has_number()) put(header.number);
  if (header.rma_count != 0) std::memcpy(next, header.rma, header.rma_count * sizeof(fi_rma_iov));
  return size;
}

// Most messages carry nothing optional but a tag. The first eight bytes of their headers are one of two words, once the
// version, which is not checked, and the message counter are masked out.
constexpr std::uint64_t header_word(std::uint8_t version, Op op, std::size_t size, std::uint8_t id) noexcept {
  const std::uint8_t bytes[8] = {version, static_cast<std::uint8_t>(op),   0, 0, 0,
                                 0,       static_cast<std::uint8_t>(size), id};
  return std::bit_cast<std::uint64_t>(std::to_array(bytes));
}
inline constexpr std::size_t kTaggedHeaderSize = kBaseHeaderSize + 8;
inline constexpr std::uint64_t kPlainMask = ~header_word(0xff, Op{0}, 0, 0xff);
inline constexpr std::uint64_t kPlainMessage = header_word(0, Op::kMessage, kBaseHeaderSize, 0);
inline constexpr std::uint64_t kPlainTagged = header_word(0, Op::kTagged, kTaggedHeaderSize, 0);

// Writes the header of a plain message with `payload` bytes, and returns the header's size.
inline std::size_t encode_plain(Op op, std::uint64_t tag, std::uint64_t payload, std::uint8_t id,
                                std::byte* out) noexcept {
  const std::size_t size = op == Op::kTagged ? kTaggedHeaderSize : kBaseHeaderSize;
  const std::uint64_t first = header_word(kDataVersion, op, size, id);
  const std::uint64_t total = size + payload;
  std::memcpy(out, &first, 8);
  std::memcpy(out + 8, &total, 8);
  if (op == Op::kTagged) std::memcpy(out + kBaseHeaderSize, &tag, 8);
  return size;
}

// Reads the complete header at `in`, whose byte kHeaderSizeOffset gives its size. `swap`: the peer's byte order
// differs. -EPROTO when the fields contradict each other; nothing a peer sends is trusted.
inline Status decode(const std::byte* in, bool swap, DataHeader& header) noexcept {
  auto word = [swap](const std::byte* at) {
    std::uint64_t value;
    std::memcpy(&value, at, 8);
    return swap ? __builtin_bswap64(value) : value;
  };
  header = DataHeader();
  const auto op = static_cast<std::uint8_t>(in[1]);
  header.op = static_cast<Op>(op);
  if (header.op > Op::kAnnounced && (header.op < Op::kIdleClose || header.op > Op::kReadStatus)) return Status(-EPROTO);
  std::memcpy(&header.flags, in + 2, 2);
  if (swap) header.flags = __builtin_bswap16(header.flags);
  header.op_data = static_cast<std::uint8_t>(in[4]);
  if (header.op == Op::kMessage && (header.flags & kFlagTagged) != 0) header.op = Op::kTagged;
  // Other operations carry no ranges, whatever the count: the reference copies a request's count into its response.
  if (header.op == Op::kReadRequest || header.op == Op::kWrite || header.op == Op::kAtomic) {
    header.rma_count = static_cast<std::uint8_t>(in[5]);
    if (header.rma_count == 0 || header.rma_count > kMaxRmaIov) return Status(-EPROTO);
  }
  if (header.is_atomic() && header.flags != 0) return Status(-EPROTO);
  const std::size_t size = header.size();
  const std::uint64_t total = word(in + 8);
  if (size != static_cast<std::uint8_t>(in[kHeaderSizeOffset]) || total < size) return Status(-EPROTO);
  header.payload = total - size;
  const bool bare = header.op == Op::kReadRequest || header.op == Op::kAnnouncement || header.op == Op::kClearance ||
                    header.op == Op::kIdleClose || header.op >= Op::kScarce;
  if ((bare || header.is_ack()) && header.payload != 0) return Status(-EPROTO);
  const std::byte* next = in + kBaseHeaderSize;
  const auto take = [&](std::uint64_t& to) {
    to = word(next);
    next += sizeof to;
  };
  if (header.has_cq_data()) take(header.cq_data);
  if (header.has_tag()) take(header.tag);
  if (header.op == Op::kAnnouncement) take(header.announced);
  if (header.has_number()) take(header.number);
  for (std::size_t i = 0; i < header.rma_count; ++i, next += sizeof(fi_rma_iov))
    header.rma[i] = {word(next), word(next + 8), word(next + 16)};
  return Status();
}
inline Result<DataHeader> decode(const std::byte* in, bool swap) noexcept {
  DataHeader header;
  const Status status = decode(in, swap, header);
  return status.ok() ? Result<DataHeader>(header) : failure(status);
}

}  // namespace weft::tcp
