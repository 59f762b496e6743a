// SPDX-License-Identifier: BSD-2-Clause
// An outgoing message: what the application asks for (TransmitRequest) and what is kept of it while it cannot leave
// or waits for an answer (Transmit).
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <span>

#include "base/list.h"
#include "objects/completion_routes.h"
#include "objects/message_buffers.h"
#include "tcp/limits.h"

namespace weft::tcp {

// What remains to be done when the last byte of a message has left.
enum class Then : std::uint8_t {
  kComplete,     // report it
  kAwaitAck,     // report it when the peer acknowledges: FI_TRANSMIT_COMPLETE, FI_DELIVERY_COMPLETE
  kAwaitRead,    // report it when the peer's data has arrived: fi_read
  kAwaitAtomic,  // report it when the peer has carried it out
  kAwaitClear,   // send what it announced when the peer wants it
  kRespond,      // nothing: an acknowledgement or the answer to a read or to an atomic operation
};

// Lives on the caller's stack during a transfer call.
struct TransmitRequest {
  Op op;
  std::uint64_t flags;  // FI_COMPLETION, FI_INJECT, FI_MORE, FI_FENCE, FI_*_COMPLETE, FI_REMOTE_CQ_DATA
  std::span<const iovec> local;
  std::span<const RmaRange> remote = {};
  std::uint64_t cq_data = 0;
  std::uint64_t tag = 0;
  void* context = nullptr;
  bool silent = false;                  // fi_inject and its kind: no completion on success
  std::uint8_t receive_context = 0;     // the peer's, that a message is for
  CompletionRoutes* routes = nullptr;   // where it completes; null: where all of the stream does
  std::span<const iovec> results = {};  // kAtomic: where what was fetched belongs, if it is one that fetches
};

// A plain message, which has no flags but FI_COMPLETION, of 1 to kInjectSize bytes: what most requests are.
struct SmallMessage {
  Op op;        // kMessage, kTagged
  bool report;  // a completion on success
  const void* data;
  std::size_t len;
  std::uint64_t tag;
  void* context;
  CompletionRoutes* routes = nullptr;  // as above

  TransmitRequest request(std::span<const iovec> iov) const noexcept {
    return {.op = op,
            .flags = report ? FI_COMPLETION : 0,
            .local = iov,
            .tag = tag,
            .context = context,
            .silent = !report,
            .routes = routes};
  }
};

struct Transmit : ListHook<Transmit> {
  Then then = Then::kComplete;
  bool fence = false;
  bool report = true;  // write a completion on success; failures are always reported
  std::uint8_t iov_count = 0;
  std::uint8_t ticket = 0;              // of an announced message
  std::uint16_t inline_len = 0;         // bytes in `inlined`: the header, and a small payload
  std::uint32_t region_generation = 0;  // kRespond: the state of the registrations when `iov` was checked
  std::uint64_t completion_flags = 0;
  void* context = nullptr;
  CompletionRoutes* routes = nullptr;
  std::size_t len = 0;   // all bytes on the wire
  std::size_t sent = 0;  // of these, accepted by the kernel
  iovec iov[kIovLimit];  // payload in the application's memory; or where the peer's answer goes
  // A payload of its own that is too long for `inlined`: injected, of an atomic operation, fetched by one of the
  // peer's.
  std::unique_ptr<std::byte[]> copy;
  iovec copied{};
  std::byte inlined[kInlineSize];

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

}  // namespace weft::tcp
