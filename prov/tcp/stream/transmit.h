// SPDX-License-Identifier: BSD-2-Clause
// The record of an outgoing message while it cannot be sent or waits for an answer, and the names of announced ones.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <memory>
#include <new>
#include <span>

#include "base/list.h"
#include "base/pool.h"
#include "messages/message_numbers.h"
#include "messages/unexpected_memory.h"
#include "objects/completion_routes.h"
#include "objects/transfer_calls.h"
#include "tcp/limits.h"
#include "tcp/stream/data_header.h"

namespace weft::tcp {

// The next step when the last byte of a message was sent.
enum class Then : std::uint8_t {
  kAwaitAck,     // report it when the peer acknowledges: FI_TRANSMIT_COMPLETE, FI_DELIVERY_COMPLETE
  kAwaitRead,    // report it when the peer's data has arrived: fi_read
  kAwaitAtomic,  // report it when the peer has carried it out
  kAwaitClear,   // send the announced message when the peer clears it
  kKept,         // report it; then as kAwaitClear, with a copy of our own
  kComplete,     // report it
  kRespond,      // nothing: an acknowledgement, a response, or a control header
  kSwitch,       // the next bytes go through shared memory
};
inline constexpr std::size_t kAnswerKinds = 4;  // the first values of Then: the peer answers the message

struct Transmit : ListHook<Transmit> {
  Then then = Then::kComplete;
  bool fence = false;
  bool report = true;  // write a completion on success; failures are always reported
  std::uint8_t iov_count = 0;
  bool reported = false;                // the message counts as complete already
  bool refused = false;                 // a write that the peer discards, or a read whose memory we no longer have
  bool status = false;                  // kRespond: Op::kReadStatus follows the payload
  std::uint8_t ticket = 0;              // announced messages; 0: none
  std::uint64_t message = 0;            // announced messages with a number in place of a ticket
  std::size_t kept = 0;                 // bytes that it occupies among the peer's copies
  std::uint16_t inline_len = 0;         // bytes in `inlined`: the header, and a small payload
  std::uint64_t region_generation = 0;  // kRespond: of the registrations that granted `iov`
  std::uint32_t write = 0;              // Op::kWrite: its number in this direction
  std::uint64_t completion_flags = 0;
  void* context = nullptr;
  CompletionRoutes* routes = nullptr;
  std::size_t len = 0;   // bytes on the wire
  std::size_t sent = 0;  // bytes that the kernel accepted
  iovec iov[kIovLimit];  // payload in the application's memory; or destination of the peer's response
  // A copied payload that is too long for `inlined`: injected, of an atomic operation, or fetched by the peer's.
  std::unique_ptr<std::byte[]> copy;
  iovec copied{};
  std::byte inlined[kInlineSize];

  // The completion of `request`.
  void describe(const TransmitRequest& request, bool reports) noexcept {
    report = reports;
    completion_flags = completion_flags_of(request.operation);
    context = request.context;
    routes = request.routes;
  }
  std::size_t memory() const noexcept { return sizeof *this + (copy != nullptr ? copied.iov_len : 0); }
  // False when memory runs out.
  bool make_copy(std::size_t bytes) noexcept {
    copy.reset(new (std::nothrow) std::byte[bytes]);
    copied = {copy.get(), bytes};
    return copy != nullptr;
  }
  // Replaces the application's memory by a copy. False when memory runs out.
  bool copy_payload() noexcept {
    const std::span<const iovec> pieces(iov, iov_count);
    if (copy != nullptr) return true;
    if (!make_copy(total_length(pieces))) return false;
    gather(pieces, copy.get());
    iov_count = 0;
    return true;
  }
  // The payload iovecs that follow the inlined bytes on the wire; read requests and announcements have none.
  std::span<const iovec> payload() const noexcept {
    if (then == Then::kAwaitClear || then == Then::kKept) return {};
    if (copy != nullptr) return {&copied, 1};
    const bool bare = then == Then::kAwaitRead || then == Then::kAwaitAtomic;
    return bare ? std::span<const iovec>() : std::span(iov, iov_count);
  }
};

// The records of a domain's transfers. Owner: the domain. The engine's mutex guards it.
struct TransmitRecords : Pool<Transmit> {
  std::size_t response_bytes = 0;  // memory of responses that are not sent, to all peers
};

// Messages that wait to be sent.
class TransmitQueue : public List<Transmit> {
 public:
  void push_back(Transmit& record) noexcept {
    List::push_back(record);
    bytes_ += counted(record);
  }
  Transmit& pop_front() noexcept {
    Transmit& record = List::pop_front();
    bytes_ -= counted(record);
    return record;
  }
  // Bytes of the messages; a long message counts as kGatherLongBytes.
  std::uint32_t bytes() const noexcept { return bytes_; }

 private:
  static std::uint32_t counted(const Transmit& record) noexcept {
    return static_cast<std::uint32_t>(std::min(record.len, kGatherLongBytes));
  }
  std::uint32_t bytes_ = 0;
};

// Tickets that name the announced messages of one sender until they are sent; see data_header.h.
class Tickets {
 public:
  bool any_left() const noexcept { return left_ != 0; }
  // Never 0. At least one is left.
  std::uint8_t take() noexcept {
    do {
      if (++last_ == 0) last_ = 1;
    } while (in_use_[last_]);
    in_use_.set(last_);
    --left_;
    return last_;
  }
  void give_back(std::uint8_t ticket) noexcept {
    in_use_.reset(ticket);
    ++left_;
  }

 private:
  std::bitset<kTickets> in_use_;
  std::uint8_t last_ = 0;
  std::uint16_t left_ = kTickets - 1;
};

// The tickets and numbers that identify announced messages on the wire.
struct Announcements {
  Tickets tickets;
  messages::MessageNumbers<Transmit> numbers;
  messages::PeerMemory* copies = nullptr;  // null: the peer has tickets only
  List<Transmit> kept;                     // complete: the peer has not fetched them
  bool scarce = false;                     // Op::kScarce of the peer: short messages are announced as well
};
inline bool is_scarce(const std::unique_ptr<Announcements>& announcements) noexcept {
  return announcements != nullptr && announcements->scarce;
}

}  // namespace weft::tcp
