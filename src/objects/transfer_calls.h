// SPDX-License-Identifier: BSD-2-Clause
// The data transfer calls of endpoints: fi_msg(3), fi_tagged(3), fi_rma(3). Each builds a request for the endpoint.
// Descriptors are for aliases: a provider that uses these calls registers memory itself where it needs that.
#pragma once

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <concepts>
#include <cstdint>
#include <span>
#include <utility>

#include "abi/bridge.h"
#include "objects/info.h"
#include "objects/message_buffers.h"
#include "objects/progress.h"

namespace weft {

struct CompletionRoutes;

// A flag of the calls that end in `msg`, which no application can pass: success writes no completion. Aliases use it to
// inject.
inline constexpr std::uint64_t kSilent = std::uint64_t{1} << 60;

// No source has this number: a receive for messages of every source.
inline constexpr std::uint64_t kAnySource = ~std::uint64_t{0};

// The messages that a receive matches. Untagged receives have tag and ignore 0.
struct Wanted {
  std::uint64_t source = kAnySource;
  std::uint64_t tag = 0;
  std::uint64_t ignore = 0;

  bool takes(std::uint64_t from, std::uint64_t with) const noexcept {
    return ((tag ^ with) & ~ignore) == 0 && (source == kAnySource || source == from);
  }
};

// A call that posts a receive. NULL buffers hold nothing.
struct ReceiveRequest {
  std::span<const iovec> iov = {};
  void* context = nullptr;
  std::uint64_t flags = 0;  // FI_COMPLETION, FI_MULTI_RECV; tagged: FI_PEEK, FI_CLAIM, FI_DISCARD
  bool tagged = false;
  Wanted wanted = {};
};

// A provider's endpoint or context that posts receives. post_receive() checks the buffers; `source` may be any. With a
// third parameter it gets the descriptors.
template <class T>
concept ReceiveTarget = requires(T& target, ReceiveRequest& request, fi_addr_t source) {
  { target.post_receive(std::move(request), source) }
  noexcept->std::same_as<ssize_t>;
}
|| requires(T& target, ReceiveRequest& request, fi_addr_t source, void** desc) {
  { target.post_receive(request, source, desc) }
  noexcept->std::same_as<ssize_t>;
};

// The calls that post receives, of endpoints and of receive contexts. T: a ReceiveTarget.
template <class T>
class ReceiveCalls : public Object<fid_ep> {
 public:
  ssize_t recv(void* buf, size_t len, void* desc, fi_addr_t src, void* context) noexcept {
    return post({.iov = OneBuffer(buf, len), .context = context, .flags = receive_flags_}, src, &desc);
  }
  ssize_t recvv(const iovec* iov, void** desc, size_t count, fi_addr_t src, void* context) noexcept {
    return post({.iov = {iov, count}, .context = context, .flags = receive_flags_}, src, desc);
  }
  ssize_t recvmsg(const fi_msg* msg, uint64_t flags) noexcept {
    if (msg == nullptr) return -FI_EINVAL;
    return post({.iov = {msg->msg_iov, msg->iov_count}, .context = msg->context, .flags = flags}, msg->addr, msg->desc);
  }
  ssize_t trecv(void* buf, size_t len, void* desc, fi_addr_t src, uint64_t tag, uint64_t ignore,
                void* context) noexcept {
    return post(tagged(OneBuffer(buf, len), tag, ignore, context, receive_flags_ & ~FI_MULTI_RECV), src, &desc);
  }
  ssize_t trecvv(const iovec* iov, void** desc, size_t count, fi_addr_t src, uint64_t tag, uint64_t ignore,
                 void* context) noexcept {
    return post(tagged({iov, count}, tag, ignore, context, receive_flags_ & ~FI_MULTI_RECV), src, desc);
  }
  ssize_t trecvmsg(const fi_msg_tagged* msg, uint64_t flags) noexcept {
    if (msg == nullptr) return -FI_EINVAL;
    return post(tagged({msg->msg_iov, msg->iov_count}, msg->tag, msg->ignore, msg->context, flags), msg->addr,
                msg->desc);
  }

 protected:
  explicit ReceiveCalls(uint64_t flags) noexcept : receive_flags_(flags) {}
  explicit ReceiveCalls(const fi_rx_attr* attr) noexcept : ReceiveCalls(or_none(attr).op_flags) {}

  uint64_t receive_flags_;  // for calls without flags (rx_attr->op_flags)

 private:
  static ReceiveRequest tagged(std::span<const iovec> iov, uint64_t tag, uint64_t ignore, void* context,
                               uint64_t flags) noexcept {
    return {.iov = iov, .context = context, .flags = flags, .tagged = true, .wanted = {.tag = tag, .ignore = ignore}};
  }
  [[gnu::always_inline]] ssize_t post(ReceiveRequest&& request, fi_addr_t source,
                                      [[maybe_unused]] void** desc) noexcept {
    static_assert(ReceiveTarget<T>);
    if constexpr (requires(T & t) { t.post_receive(request, source, desc); })
      return self().post_receive(request, source, desc);
    else
      return self().post_receive(std::move(request), source);
  }
  T& self() noexcept { return static_cast<T&>(*this); }
};

enum class Operation : std::uint8_t { kMessage, kTagged, kRead, kWrite, kUpdate, kFetch };

// The flags of its completion.
inline constexpr std::uint64_t kCompletionFlags[] = {FI_SEND | FI_MSG,  FI_SEND | FI_TAGGED,  FI_READ | FI_RMA,
                                                     FI_WRITE | FI_RMA, FI_WRITE | FI_ATOMIC, FI_READ | FI_ATOMIC};
constexpr std::uint64_t completion_flags_of(Operation operation) noexcept {
  return kCompletionFlags[static_cast<std::size_t>(operation)];
}

// A transfer call of the application.
struct TransmitRequest {
  Operation operation = Operation::kMessage;
  std::span<const iovec> iov = {};
  std::uint64_t flags = 0;  // FI_COMPLETION, FI_INJECT, FI_REMOTE_CQ_DATA, FI_..._COMPLETE, FI_MORE
  fi_addr_t destination = FI_ADDR_UNSPEC;
  void* context = nullptr;
  std::uint64_t data = 0;
  std::uint64_t tag = 0;
  std::span<const fi_rma_iov> remote = {};
  bool silent = false;                 // fi_inject: no completion on success
  std::uint8_t receive_context = 0;    // the peer's
  CompletionRoutes* routes = nullptr;  // a context's; null: the endpoint's
  // kUpdate, kFetch: the arrays to send; `iov` is the destination of the results then, ranges are in elements.
  std::span<const iovec> arrays = {};
};

// Completion levels that no wire reports; and FI_TRIGGER, which Triggers removes where calls may wait for a counter.
inline constexpr std::uint64_t kUnsupportedFlags = FI_COMMIT_COMPLETE | FI_MATCH_COMPLETE | FI_TRIGGER;

// The limits of an endpoint for its transfer calls.
struct TransmitLimits {
  std::uint64_t unsupported;  // flags
  std::size_t ranges;         // most ranges of remote memory
  std::size_t message;        // bytes
  std::size_t inject;         // bytes with FI_INJECT; at most `message`
};

// -FI_EINVAL unless the ranges are as long as the buffers together.
[[gnu::noinline]] inline int check_ranges(std::span<const fi_rma_iov> ranges, std::size_t most,
                                          std::size_t len) noexcept {
  if (ranges.size() > most) return -FI_EINVAL;
  for (const fi_rma_iov& range : ranges) {
    if (range.len > len) return -FI_EINVAL;
    len -= range.len;
  }
  return len == 0 ? 0 : -FI_EINVAL;
}

// Checks a call before its peer is looked up. 0, with the length of the message in `len`; else the first error in the
// order that all endpoints share: -FI_EINVAL (buffers, ranges), -FI_EBADFLAGS, -FI_EMSGSIZE.
[[gnu::always_inline]] inline int check_transmit(const TransmitRequest& request, const TransmitLimits& limits,
                                                 std::size_t& len) noexcept {
  if (!valid_buffers(request.iov)) return -FI_EINVAL;
  len = total_length(request.iov);
  if (!request.remote.empty())
    if (const int wrong = check_ranges(request.remote, limits.ranges, len); wrong != 0) return wrong;
  if ((request.flags & (limits.unsupported | FI_INJECT)) == 0) return len <= limits.message ? 0 : -FI_EMSGSIZE;
  if ((request.flags & limits.unsupported) != 0) return -FI_EBADFLAGS;
  return len <= limits.inject ? 0 : -FI_EMSGSIZE;
}

constexpr std::uint64_t data_flags(std::uint64_t flags) noexcept {
  return flags | FI_REMOTE_CQ_DATA;
}

// A provider's endpoint or context that sends. transmit() checks buffers and ranges. With a second parameter it gets
// the descriptors.
template <class T>
concept TransmitTarget = requires(T& target, TransmitRequest& request) {
  { target.transmit(std::move(request)) }
  noexcept->std::same_as<ssize_t>;
}
|| requires(T& target, TransmitRequest& request, void** desc) {
  { target.transmit(request, desc) }
  noexcept->std::same_as<ssize_t>;
};

// T: a ReceiveTarget and TransmitTarget.
template <class T>
class TransferCalls : public ReceiveCalls<T> {
 public:
  // Messages.

  ssize_t send(const void* buf, size_t len, void* desc, fi_addr_t dest, void* context) noexcept {
    return message(OneBuffer(buf, len), &desc, transmit_flags_, dest, context);
  }
  ssize_t sendv(const iovec* iov, void** desc, size_t count, fi_addr_t dest, void* context) noexcept {
    return message({iov, count}, desc, transmit_flags_, dest, context);
  }
  ssize_t sendmsg(const fi_msg* msg, uint64_t flags) noexcept {
    if (msg == nullptr) return -FI_EINVAL;
    return message({msg->msg_iov, msg->iov_count}, msg->desc, flags, msg->addr, msg->context, msg->data,
                   is_silent(flags));
  }
  ssize_t inject(const void* buf, size_t len, fi_addr_t dest) noexcept {
    return message(OneBuffer(buf, len), nullptr, inject_flags(), dest, nullptr, 0, true);
  }
  ssize_t senddata(const void* buf, size_t len, void* desc, uint64_t data, fi_addr_t dest, void* context) noexcept {
    return message(OneBuffer(buf, len), &desc, data_flags(transmit_flags_), dest, context, data);
  }
  ssize_t injectdata(const void* buf, size_t len, uint64_t data, fi_addr_t dest) noexcept {
    return message(OneBuffer(buf, len), nullptr, data_flags(inject_flags()), dest, nullptr, data, true);
  }

  ssize_t tsend(const void* buf, size_t len, void* desc, fi_addr_t dest, uint64_t tag, void* context) noexcept {
    return tagged(OneBuffer(buf, len), &desc, transmit_flags_, dest, tag, context);
  }
  ssize_t tsendv(const iovec* iov, void** desc, size_t count, fi_addr_t dest, uint64_t tag, void* context) noexcept {
    return tagged({iov, count}, desc, transmit_flags_, dest, tag, context);
  }
  ssize_t tsendmsg(const fi_msg_tagged* msg, uint64_t flags) noexcept {
    if (msg == nullptr) return -FI_EINVAL;
    return tagged({msg->msg_iov, msg->iov_count}, msg->desc, flags, msg->addr, msg->tag, msg->context, msg->data,
                  is_silent(flags));
  }
  ssize_t tinject(const void* buf, size_t len, fi_addr_t dest, uint64_t tag) noexcept {
    return tagged(OneBuffer(buf, len), nullptr, inject_flags(), dest, tag, nullptr, 0, true);
  }
  ssize_t tsenddata(const void* buf, size_t len, void* desc, uint64_t data, fi_addr_t dest, uint64_t tag,
                    void* context) noexcept {
    return tagged(OneBuffer(buf, len), &desc, data_flags(transmit_flags_), dest, tag, context, data);
  }
  ssize_t tinjectdata(const void* buf, size_t len, uint64_t data, fi_addr_t dest, uint64_t tag) noexcept {
    return tagged(OneBuffer(buf, len), nullptr, data_flags(inject_flags()), dest, tag, nullptr, data, true);
  }

  // Remote memory.

  ssize_t read(void* buf, size_t len, void* desc, fi_addr_t src, uint64_t addr, uint64_t key, void* context) noexcept {
    return access(Operation::kRead, OneBuffer(buf, len), &desc, src, addr, key, transmit_flags_ & ~kNotForReads,
                  context);
  }
  ssize_t readv(const iovec* iov, void** desc, size_t count, fi_addr_t src, uint64_t addr, uint64_t key,
                void* context) noexcept {
    return access(Operation::kRead, {iov, count}, desc, src, addr, key, transmit_flags_ & ~kNotForReads, context);
  }
  ssize_t readmsg(const fi_msg_rma* msg, uint64_t flags) noexcept {
    return access(Operation::kRead, msg, flags & ~kNotForReads);
  }
  ssize_t write(const void* buf, size_t len, void* desc, fi_addr_t dest, uint64_t addr, uint64_t key,
                void* context) noexcept {
    return access(Operation::kWrite, OneBuffer(buf, len), &desc, dest, addr, key, transmit_flags_, context);
  }
  ssize_t writev(const iovec* iov, void** desc, size_t count, fi_addr_t dest, uint64_t addr, uint64_t key,
                 void* context) noexcept {
    return access(Operation::kWrite, {iov, count}, desc, dest, addr, key, transmit_flags_, context);
  }
  ssize_t writemsg(const fi_msg_rma* msg, uint64_t flags) noexcept { return access(Operation::kWrite, msg, flags); }
  ssize_t rma_inject(const void* buf, size_t len, fi_addr_t dest, uint64_t addr, uint64_t key) noexcept {
    return access(Operation::kWrite, OneBuffer(buf, len), nullptr, dest, addr, key, inject_flags(), nullptr, 0, true);
  }
  ssize_t writedata(const void* buf, size_t len, void* desc, uint64_t data, fi_addr_t dest, uint64_t addr, uint64_t key,
                    void* context) noexcept {
    return access(Operation::kWrite, OneBuffer(buf, len), &desc, dest, addr, key, data_flags(transmit_flags_), context,
                  data);
  }
  ssize_t rma_injectdata(const void* buf, size_t len, uint64_t data, fi_addr_t dest, uint64_t addr,
                         uint64_t key) noexcept {
    return access(Operation::kWrite, OneBuffer(buf, len), nullptr, dest, addr, key, data_flags(inject_flags()), nullptr,
                  data, true);
  }

 protected:
  TransferCalls(uint64_t transmit_flags, uint64_t receive_flags) noexcept
      : ReceiveCalls<T>(receive_flags), transmit_flags_(transmit_flags) {}
  explicit TransferCalls(const fi_info& info) noexcept
      : ReceiveCalls<T>(info.rx_attr), transmit_flags_(or_none(info.tx_attr).op_flags) {}

  // For calls that copy the buffer and report no success. Their completion level still holds, because counters count
  // them.
  uint64_t inject_flags() const noexcept { return (transmit_flags_ & ~FI_COMPLETION) | FI_INJECT; }

  // Some programs repeat a call until there is room, and read no queue meanwhile.
  [[gnu::noinline]] void make_progress() noexcept {
    if constexpr (requires(T & t) { t.engine().drive(); }) weft::make_progress(self().engine());
  }

  uint64_t transmit_flags_;  // for calls without flags (tx_attr->op_flags)

 private:
  // Flags of outgoing data; an endpoint's default flags apply to reads as well.
  static constexpr uint64_t kNotForReads = FI_INJECT | FI_REMOTE_CQ_DATA;

  T& self() noexcept { return static_cast<T&>(*this); }
  [[gnu::always_inline]] ssize_t submit(TransmitRequest&& request, [[maybe_unused]] void** desc) noexcept {
    static_assert(TransmitTarget<T>);
    if constexpr (requires(T & t) { t.transmit(request, desc); }) {
      return self().transmit(request, desc);
    } else {
      const ssize_t result = self().transmit(std::move(request));
      if (result == -FI_EAGAIN) [[unlikely]]
        make_progress();
      return result;
    }
  }
  static constexpr bool is_silent(uint64_t flags) noexcept { return (flags & kSilent) != 0; }

  [[gnu::always_inline]] ssize_t message(std::span<const iovec> iov, void** desc, uint64_t flags, fi_addr_t dest,
                                         void* context, uint64_t data = 0, bool silent = false) noexcept {
    return submit({.iov = iov, .flags = flags, .destination = dest, .context = context, .data = data, .silent = silent},
                  desc);
  }
  [[gnu::always_inline]] ssize_t tagged(std::span<const iovec> iov, void** desc, uint64_t flags, fi_addr_t dest,
                                        uint64_t tag, void* context, uint64_t data = 0, bool silent = false) noexcept {
    return submit({.operation = Operation::kTagged,
                   .iov = iov,
                   .flags = flags,
                   .destination = dest,
                   .context = context,
                   .data = data,
                   .tag = tag,
                   .silent = silent},
                  desc);
  }
  ssize_t access(Operation operation, std::span<const iovec> iov, void** desc, fi_addr_t peer, uint64_t addr,
                 uint64_t key, uint64_t flags, void* context, uint64_t data = 0, bool silent = false) noexcept {
    if (iov.data() == nullptr && !iov.empty()) return -FI_EINVAL;
    const fi_rma_iov remote{addr, total_length(iov), key};
    return submit({.operation = operation,
                   .iov = iov,
                   .flags = flags,
                   .destination = peer,
                   .context = context,
                   .data = data,
                   .remote = {&remote, 1},
                   .silent = silent},
                  desc);
  }
  ssize_t access(Operation operation, const fi_msg_rma* msg, uint64_t flags) noexcept {
    if (msg == nullptr || msg->rma_iov == nullptr || msg->rma_iov_count == 0) return -FI_EINVAL;
    return submit({.operation = operation,
                   .iov = {msg->msg_iov, msg->iov_count},
                   .flags = flags,
                   .destination = msg->addr,
                   .context = msg->context,
                   .data = msg->data,
                   .remote = {msg->rma_iov, msg->rma_iov_count},
                   .silent = is_silent(flags)},
                  msg->desc);
  }
};

}  // namespace weft
