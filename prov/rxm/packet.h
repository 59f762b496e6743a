// SPDX-License-Identifier: BSD-2-Clause
// The wire format: private data of connection requests, and headers of packets. All of it is in the host's byte order,
// which both ends must share; other implementations of ofi_rxm agree.
#pragma once

#include <rdma/fi_rma.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace weft::rxm {

inline constexpr std::uint8_t kCmVersion = 1;
inline constexpr std::uint8_t kOpVersion = 3;       // in connection requests
inline constexpr std::uint8_t kControlVersion = 4;  // in connection requests and in each packet
inline constexpr std::uint8_t kPacketOpVersion = 2;
inline constexpr std::uint8_t kByteOrder = std::endian::native == std::endian::big ? 1 : 2;
inline constexpr std::uint8_t kFlowControl = 1;  // both ends count receives: PacketType::kCredit
inline constexpr std::uint8_t kNoFlowControl = 2;

struct ConnectData {
  std::uint8_t version = kCmVersion;
  std::uint8_t byte_order = kByteOrder;
  std::uint8_t control_version = kControlVersion;
  std::uint8_t op_version = kOpVersion;
  std::uint16_t port = 0;  // the sender's listener
  std::uint8_t flow_control = kNoFlowControl;
  std::uint8_t endpoint_index = 0;
  std::uint32_t eager_limit = 0;  // must be the same at both ends
  std::uint32_t receive_size = 0;
  std::uint64_t id = 0;  // process << 32 | number for packets to the sender of the request
};
static_assert(sizeof(ConnectData) == 24);

struct AcceptData {
  std::uint64_t id = 0;  // process << 32 | number for packets to the acceptor
  std::uint32_t receive_size = 0;
  std::uint8_t flow_control = kNoFlowControl;
  std::uint8_t pad[3] = {};
};
static_assert(sizeof(AcceptData) == 16);

// Behind ConnectData and AcceptData, from an end that closes idle connections (rdm/peer_link.h); in an acceptance if
// both ends do.
inline constexpr std::uint64_t kIdleMagic = 0x9d31'6b1e'77e6'7403;

// Behind that, from an end that supports PacketType::kScarce; in an acceptance if both ends do.
inline constexpr std::uint64_t kScarceMagic = 0x9d31'6b1e'77e6'7404;

// Likewise for PacketType::kAnsweredEager and kAnsweredSegment.
inline constexpr std::uint64_t kAnswersMagic = 0x9d31'6b1e'77e6'7405;

// Behind these, in a request from an endpoint at the wildcard address; see rdm/host_addresses.h. Such an endpoint never
// changes to tcp, so none of the below follows.
inline constexpr std::uint64_t kEverywhereMagic = 0x9d31'6b1e'77e6'7406;

// Behind these, in a request through a device to the sender's own address: local_mark() (4 bytes), from an end that can
// talk to peers of its host through tcp. An acceptor with the same mark answers with Reason::kLocal, and the request
// then comes through tcp, with the token (8 bytes) in this place.

template <class Data>
struct Introduction {
  Data data;
  std::uint64_t room[4];  // for the numbers above, without a gap where one is left out
};
static_assert(offsetof(Introduction<ConnectData>, room) == sizeof(ConnectData));
static_assert(offsetof(Introduction<AcceptData>, room) == sizeof(AcceptData));

// kAlready: the request of the other direction stays; kLocal: the data is a LocalPlace.
enum class Reason : std::uint8_t { kRefused = 1, kAlready = 2, kLocal = 65 };
struct RejectData {
  std::uint8_t version = kCmVersion;
  Reason reason = Reason::kRefused;
};
static_assert(sizeof(RejectData) == 2);

// Where a process of the same host listens.
struct LocalPlace {
  RejectData rejection{.reason = Reason::kLocal};
  std::uint16_t port = 0;  // at the loopback address
  std::uint32_t pad = 0;
  std::uint64_t token = 0;  // random; proves that the request was invited
};
static_assert(sizeof(LocalPlace) == 16);

enum class PacketType : std::uint8_t {
  kEager = 0,
  kSegment = 1,
  kRendezvous = 2,  // location of a message to be read
  kReadDone = 3,    // the receiver has read it, or delivered a message that is to be answered
  kAtomic = 4,
  kAtomicResponse = 5,
  kCredit = 6,       // `data`: receives that its sender has posted again
  kWriteTarget = 7,  // locations to which the sender writes it
  kWriteDone = 8,
  kIdleClose = 64,  // between ends that both sent kIdleMagic: `message` is one of rdm/peer_link.h
  // Between ends that both sent kScarceMagic: whether the sender's memory for unexpected messages is scarce (`message`
  // 1), so that its peer shall announce short messages as kRendezvous as well.
  kScarce = 65,
  // Between ends that both sent kAnswersMagic, for FI_DELIVERY_COMPLETE: as kEager and kSegment, but the receiver sends
  // kReadDone when the message is in its receive, or stored because it has none.
  kAnsweredEager = 66,
  kAnsweredSegment = 67,
};

struct ControlHeader {
  std::uint8_t version = kControlVersion;
  PacketType type = PacketType::kEager;
  std::uint16_t segment_size = 0;
  std::uint32_t segment = 0;     // counts from 0
  std::uint64_t connection = 0;  // the number that the receiver chose when connecting
  std::uint64_t message = 0;
  std::uint64_t data = 0;  // kSegment: a Part; kCredit
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
  std::uint64_t size = 0;   // bytes of the whole message
  std::uint64_t data = 0;
  std::uint64_t tag = 0;
};
static_assert(sizeof(OpHeader) == 32);

// In place of the tag in packets of kAtomic and kAtomicResponse.
struct AtomicWords {
  std::uint8_t datatype = 0;   // fi_datatype
  std::uint8_t operation = 0;  // fi_op
  std::uint8_t count = 0;      // number of ranges
  std::uint8_t pad[5] = {};
};
static_assert(sizeof(AtomicWords) == sizeof OpHeader::tag);

struct PacketHeader {
  ControlHeader control;
  OpHeader op;
};
static_assert(sizeof(PacketHeader) == 64);

using RemoteRange = fi_rma_iov;
static_assert(sizeof(RemoteRange) == 24);

inline constexpr std::size_t kMaxRanges = 4;
// Behind the header of kRendezvous and kWriteTarget.
struct RendezvousHeader {
  RemoteRange ranges[kMaxRanges] = {};
  std::uint8_t count = 0;
  // 1: the address of the last of `ranges`, which is none of the `count` ones, is that of the whole message in the
  // sender's process, where the receiver may read it by PeerMemoryOps.
  std::uint8_t is_readable = 0;
  std::uint8_t pad[6] = {};
};
static_assert(sizeof(RendezvousHeader) == 104);

// Bytes of all ranges; nullopt for an invalid header.
constexpr std::optional<std::uint64_t> total_of(const RendezvousHeader& header) noexcept {
  if (header.count > kMaxRanges) return std::nullopt;
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < header.count; ++i)
    if (__builtin_add_overflow(total, header.ranges[i].len, &total)) return std::nullopt;
  return total;
}

// Behind the header of kAtomic, before the operands and comparands; lengths are in elements.
struct AtomicHeader {
  RemoteRange ranges[kMaxRanges] = {};
};
static_assert(sizeof(AtomicHeader) == 96);

// Behind the header of kAtomicResponse, before the fetched elements. Both fields are big-endian.
struct AtomicResponse {
  std::uint32_t status = 0;  // 0 or a negative fabric errno
  std::uint32_t len = 0;     // bytes of the fetched elements
};
static_assert(sizeof(AtomicResponse) == 8);

struct RendezvousPacket {
  PacketHeader header;
  RendezvousHeader rendezvous;
};
static_assert(sizeof(RendezvousPacket) == 168);

}  // namespace weft::rxm
