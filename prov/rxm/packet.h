// SPDX-License-Identifier: BSD-2-Clause
// What the ends of a connection say to each other: private data of connection requests, and the headers of packets.
// All of it is in the host's byte order, which both ends must share; other implementations of ofi_rxm agree.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace weft::rxm {

inline constexpr std::uint8_t kCmVersion = 1;
inline constexpr std::uint8_t kOpVersion = 3;       // as said when connecting
inline constexpr std::uint8_t kControlVersion = 4;  // likewise, and in each packet
inline constexpr std::uint8_t kPacketOpVersion = 2;
inline constexpr std::uint8_t kByteOrder = std::endian::native == std::endian::big ? 1 : 2;
inline constexpr std::uint8_t kNoFlowControl = 2;

struct ConnectData {
  std::uint8_t version = kCmVersion;
  std::uint8_t byte_order = kByteOrder;
  std::uint8_t control_version = kControlVersion;
  std::uint8_t op_version = kOpVersion;
  std::uint16_t port = 0;  // where the asker listens
  std::uint8_t flow_control = kNoFlowControl;
  std::uint8_t endpoint_index = 0;
  std::uint32_t eager_limit = 0;  // must be the same at both ends
  std::uint32_t receive_size = 0;
  std::uint64_t id = 0;  // process << 32 | number that packets to the asker bear
};
static_assert(sizeof(ConnectData) == 24);

struct AcceptData {
  std::uint64_t id = 0;  // process << 32 | number that packets to the acceptor bear
  std::uint32_t receive_size = 0;
  std::uint8_t flow_control = kNoFlowControl;
  std::uint8_t pad[3] = {};
};
static_assert(sizeof(AcceptData) == 16);

// Behind ConnectData and AcceptData, from an end that lets the other one read its memory without the connection; see
// docs/decisions/0012-direct-reads.md. Ends that know nothing of it ignore it.
using Proof = std::array<std::uint8_t, 16>;
using MailboxName = std::array<char, 8>;  // see mailbox.h
inline constexpr std::uint64_t kDirectMagic = 0x9d31'6b1e'77e6'7402;
struct DirectOffer {
  std::uint64_t magic = kDirectMagic;
  std::uint32_t process = 0;
  std::uint16_t board = 0;  // the descriptor of its notice_board.h; 0: none
  std::uint8_t lane = 0;    // the other end's, there
  std::uint8_t pad = 0;
  std::uint64_t place = 0;  // where in its memory it keeps the proof that the other end chose
  Proof proof{};            // what the other end shall keep
  MailboxName mailbox{};    // where it may acknowledge what it has read directly; zeros: nowhere
};
static_assert(sizeof(DirectOffer) == 48);

// Behind that, from an end that closes idle connections (rdm/farewell.h), in an answer if both do.
inline constexpr std::uint64_t kIdleMagic = 0x9d31'6b1e'77e6'7403;

template <class Data>
struct Introduction {
  Data data;
  DirectOffer offer;
  std::uint64_t room;  // as the offer may be missing, what follows it has no place of its own
};
static_assert(offsetof(Introduction<ConnectData>, offer) == sizeof(ConnectData));
static_assert(offsetof(Introduction<AcceptData>, offer) == sizeof(AcceptData));

enum class Reason : std::uint8_t { kRefused = 1, kAlready = 2 };  // kAlready: the other direction's request goes on
struct RejectData {
  std::uint8_t version = kCmVersion;
  Reason reason = Reason::kRefused;
};
static_assert(sizeof(RejectData) == 2);

enum class PacketType : std::uint8_t {
  kEager = 0,
  kSegment = 1,
  kRendezvous = 2,  // "my message lies there"
  kReadDone = 3,    // "I have read it"
  kAtomic = 4,
  kAtomicResponse = 5,
  kCredit = 6,
  kWriteTarget = 7,  // "write it there"
  kWriteDone = 8,
  kFarewell = 64,  // between ends that both say kIdleMagic: `message` is a word of rdm/farewell.h
};

struct ControlHeader {
  std::uint8_t version = kControlVersion;
  PacketType type = PacketType::kEager;
  std::uint16_t segment_size = 0;
  std::uint32_t segment = 0;     // counts from 0
  std::uint64_t connection = 0;  // the number that the receiver gave when connecting
  std::uint64_t message = 0;
  std::uint64_t data = 0;  // kSegment: a Part
};
static_assert(sizeof(ControlHeader) == 32);

enum Part : std::uint64_t { kFirstPart = 1, kMiddlePart = 2, kLastPart = 3, kPartBits = 3 };

enum class PacketOp : std::uint8_t { kMessage = 0, kTagged = 1, kAtomic = 6, kFetch = 7, kCompare = 8 };

struct OpHeader {
  std::uint8_t version = kPacketOpVersion;
  std::uint8_t receive_index = 0;
  PacketOp op = PacketOp::kMessage;
  std::uint8_t op_data = 0;
  std::uint32_t flags = 0;  // FI_REMOTE_CQ_DATA
  std::uint64_t size = 0;   // of the whole message
  std::uint64_t data = 0;
  std::uint64_t tag = 0;
};
static_assert(sizeof(OpHeader) == 32);

// What stands in the place of the tag in packets of kAtomic and kAtomicResponse.
struct AtomicWords {
  std::uint8_t datatype = 0;   // fi_datatype
  std::uint8_t operation = 0;  // fi_op
  std::uint8_t count = 0;      // of ranges
  std::uint8_t pad[5] = {};
};
static_assert(sizeof(AtomicWords) == sizeof OpHeader::tag);

struct PacketHeader {
  ControlHeader control;
  OpHeader op;
};
static_assert(sizeof(PacketHeader) == 64);

struct RemoteRange {
  std::uint64_t addr = 0;
  std::uint64_t len = 0;
  std::uint64_t key = 0;
};

inline constexpr std::size_t kMaxRanges = 4;
// Behind the header of kRendezvous and kWriteTarget.
struct RendezvousHeader {
  RemoteRange ranges[kMaxRanges];
  std::uint8_t count = 0;
  std::uint8_t pad[7] = {};
};
static_assert(sizeof(RendezvousHeader) == 104);

// Bytes of all ranges; nothing for a header that makes no sense.
constexpr std::optional<std::uint64_t> total_of(const RendezvousHeader& header) noexcept {
  if (header.count > kMaxRanges) return std::nullopt;
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < header.count; ++i)
    if (__builtin_add_overflow(total, header.ranges[i].len, &total)) return std::nullopt;
  return total;
}

// Behind that, between ends that both made a DirectOffer: where the ranges begin in the sender's memory.
struct DirectHeader {
  std::uint64_t places[kMaxRanges] = {};
};
static_assert(sizeof(DirectHeader) == 32);

// Behind the header of kAtomic, before the operands and what they are compared with: where, in elements.
struct AtomicHeader {
  RemoteRange ranges[kMaxRanges];
};
static_assert(sizeof(AtomicHeader) == 96);

// Behind the header of kAtomicResponse, before what was fetched. Both are big-endian.
struct AtomicResponse {
  std::uint32_t status = 0;  // 0 or a negative fabric errno
  std::uint32_t len = 0;     // of what was fetched
};
static_assert(sizeof(AtomicResponse) == 8);

struct RendezvousPacket {
  PacketHeader header;
  RendezvousHeader rendezvous;
  DirectHeader direct;
};
static_assert(sizeof(RendezvousPacket) == 168 + sizeof(DirectHeader));

}  // namespace weft::rxm
