// SPDX-License-Identifier: BSD-2-Clause
// The record of an outgoing message while it cannot be sent or waits for an answer, and the tickets of announced ones.
#pragma once

#include <sys/uio.h>

#include <bitset>
#include <cstdint>
#include <memory>
#include <new>
#include <span>

#include "base/list.h"
#include "objects/completion_routes.h"
#include "objects/message_buffers.h"
#include "tcp/limits.h"

namespace weft::tcp {

// The next step when the last byte of a message was sent.
enum class Then : std::uint8_t {
  kAwaitAck,     // report it when the peer acknowledges: FI_TRANSMIT_COMPLETE, FI_DELIVERY_COMPLETE
  kAwaitRead,    // report it when the peer's data has arrived: fi_read
  kAwaitAtomic,  // report it when the peer has carried it out
  kAwaitClear,   // send the announced message when the peer clears it
  kComplete,     // report it
  kRespond,      // nothing: an acknowledgement, a response, or a control header
};
inline constexpr std::size_t kAnswerKinds = 4;  // the first of Then: what the peer answers

struct Transmit : ListHook<Transmit> {
  Then then = Then::kComplete;
  bool fence = false;
  bool report = true;  // write a completion on success; failures are always reported
  std::uint8_t iov_count = 0;
  std::uint8_t ticket = 0;              // announced messages; 0: none
  std::uint16_t inline_len = 0;         // bytes in `inlined`: the header, and a small payload
  std::uint64_t region_generation = 0;  // kRespond: of the registrations that granted `iov`
  std::uint64_t completion_flags = 0;
  void* context = nullptr;
  CompletionRoutes* routes = nullptr;
  std::size_t len = 0;   // bytes on the wire
  std::size_t sent = 0;  // those that the kernel accepted
  iovec iov[kIovLimit];  // payload in the application's memory; or destination of the peer's response
  // A copied payload that is too long for `inlined`: injected, of an atomic operation, or fetched by the peer's.
  std::unique_ptr<std::byte[]> copy;
  iovec copied{};
  std::byte inlined[kInlineSize];

  std::size_t memory() const noexcept { return sizeof *this + (copy != nullptr ? copied.iov_len : 0); }
  // False when memory runs out.
  bool make_copy(std::size_t bytes) noexcept {
    copy.reset(new (std::nothrow) std::byte[bytes]);
    copied = {copy.get(), bytes};
    return copy != nullptr;
  }
  // The payload iovecs that follow the inlined bytes on the wire; read requests and announcements have none.
  std::span<const iovec> payload() const noexcept {
    if (copy != nullptr) return {&copied, 1};
    const bool bare = then == Then::kAwaitRead || then == Then::kAwaitAtomic || then == Then::kAwaitClear;
    return bare ? std::span<const iovec>() : std::span(iov, iov_count);
  }
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

}  // namespace weft::tcp
