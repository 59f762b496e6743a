// SPDX-License-Identifier: BSD-2-Clause
// The data transfer calls of reliable-datagram endpoints: fi_msg(3), fi_tagged(3), fi_rma(3). Each names its operation
// and hands it on. `desc` means nothing here: a provider that has to register memory of messages does it itself.
#pragma once

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <cstdint>
#include <span>

#include "abi/bridge.h"
#include "base/mutex.h"
#include "objects/address_vector.h"
#include "objects/message_buffers.h"
#include "objects/one_buffer.h"
#include "rdm/receive_side.h"

namespace weft::rdm {

enum class Operation : std::uint8_t { kMessage, kTagged, kRead, kWrite, kUpdate, kFetch };

// What a completion says of it.
constexpr std::uint64_t completion_flags_of(Operation operation) noexcept {
  switch (operation) {
    case Operation::kMessage:
      return FI_SEND | FI_MSG;
    case Operation::kTagged:
      return FI_SEND | FI_TAGGED;
    case Operation::kRead:
      return FI_READ | FI_RMA;
    case Operation::kWrite:
      break;
    case Operation::kUpdate:
      return FI_WRITE | FI_ATOMIC;
    case Operation::kFetch:
      return FI_READ | FI_ATOMIC;
  }
  return FI_WRITE | FI_RMA;
}

// What an application asks to be sent.
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
  std::uint8_t receive_context = 0;    // the peer's, that a message is for
  CompletionRoutes* routes = nullptr;  // of a context of the endpoint; null: its own
  // kUpdate, kFetch: what travels; `iov` is where results belong then, ranges are in elements.
  std::span<const iovec> arrays = {};
};

// Receive contexts of an endpoint: their index has eight bits on the wires.
inline constexpr std::size_t kMaxContexts = 256;

// A message is for the receive context of its peer that its destination names (fi_rx_addr); false: there is never such
// a one.
inline bool name_context(TransmitRequest& request, const AddressVectorCore& vector) noexcept {
  if (request.operation > Operation::kTagged) return true;
  const unsigned context = vector.receive_context_of(request.destination);
  request.receive_context = static_cast<std::uint8_t>(context);
  return context < kMaxContexts;
}

// What calls that take no flags add to the endpoint's own, and take from them.
constexpr std::uint64_t data_flags(std::uint64_t flags) noexcept {
  return flags | FI_REMOTE_CQ_DATA;
}
constexpr std::uint64_t inject_flags(std::uint64_t flags) noexcept {
  return (flags & ~(FI_COMPLETION | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE)) | FI_INJECT;
}

// T: the provider's endpoint, a friend, with
//   ssize_t transmit(TransmitRequest&&) noexcept   calls name_context(), checks buffers and ranges
//   engine(), progress()                           whose mutex guards everything; to be called with it held
//   peer_of(fi_addr_t)                             a pointer to what has an `id`, or null
//   receives_, directs_                            the receive side; FI_DIRECTED_RECV
template <class T>
class TransferCalls : public Object<fid_ep> {
 public:
  // Receives.

  ssize_t recv(void* buf, size_t len, void*, fi_addr_t src, void* context) noexcept {
    return post(false, OneBuffer(buf, len), src, 0, 0, context, receive_flags_);
  }
  ssize_t recvv(const iovec* iov, void**, size_t count, fi_addr_t src, void* context) noexcept {
    return post(false, {iov, count}, src, 0, 0, context, receive_flags_);
  }
  ssize_t recvmsg(const fi_msg* msg, uint64_t flags) noexcept {
    if (msg == nullptr) return -FI_EINVAL;
    return post(false, {msg->msg_iov, msg->iov_count}, msg->addr, 0, 0, msg->context, flags);
  }
  ssize_t trecv(void* buf, size_t len, void*, fi_addr_t src, uint64_t tag, uint64_t ignore, void* context) noexcept {
    return post(true, OneBuffer(buf, len), src, tag, ignore, context, receive_flags_ & ~FI_MULTI_RECV);
  }
  ssize_t trecvv(const iovec* iov, void**, size_t count, fi_addr_t src, uint64_t tag, uint64_t ignore,
                 void* context) noexcept {
    return post(true, {iov, count}, src, tag, ignore, context, receive_flags_ & ~FI_MULTI_RECV);
  }
  ssize_t trecvmsg(const fi_msg_tagged* msg, uint64_t flags) noexcept {
    if (msg == nullptr) return -FI_EINVAL;
    return post(true, {msg->msg_iov, msg->iov_count}, msg->addr, msg->tag, msg->ignore, msg->context, flags);
  }

  // Messages.

  ssize_t send(const void* buf, size_t len, void*, fi_addr_t dest, void* context) noexcept {
    return self().transmit(
        {.iov = OneBuffer(buf, len), .flags = transmit_flags_, .destination = dest, .context = context});
  }
  ssize_t sendv(const iovec* iov, void**, size_t count, fi_addr_t dest, void* context) noexcept {
    return self().transmit({.iov = {iov, count}, .flags = transmit_flags_, .destination = dest, .context = context});
  }
  ssize_t sendmsg(const fi_msg* msg, uint64_t flags) noexcept {
    if (msg == nullptr) return -FI_EINVAL;
    return self().transmit({.iov = {msg->msg_iov, msg->iov_count},
                            .flags = flags,
                            .destination = msg->addr,
                            .context = msg->context,
                            .data = msg->data});
  }
  ssize_t inject(const void* buf, size_t len, fi_addr_t dest) noexcept {
    return self().transmit(
        {.iov = OneBuffer(buf, len), .flags = inject_flags(transmit_flags_), .destination = dest, .silent = true});
  }
  ssize_t senddata(const void* buf, size_t len, void*, uint64_t data, fi_addr_t dest, void* context) noexcept {
    return self().transmit({.iov = OneBuffer(buf, len),
                            .flags = data_flags(transmit_flags_),
                            .destination = dest,
                            .context = context,
                            .data = data});
  }
  ssize_t injectdata(const void* buf, size_t len, uint64_t data, fi_addr_t dest) noexcept {
    return self().transmit({.iov = OneBuffer(buf, len),
                            .flags = data_flags(inject_flags(transmit_flags_)),
                            .destination = dest,
                            .data = data,
                            .silent = true});
  }

  ssize_t tsend(const void* buf, size_t len, void*, fi_addr_t dest, uint64_t tag, void* context) noexcept {
    return self().transmit({.operation = Operation::kTagged,
                            .iov = OneBuffer(buf, len),
                            .flags = transmit_flags_,
                            .destination = dest,
                            .context = context,
                            .tag = tag});
  }
  ssize_t tsendv(const iovec* iov, void**, size_t count, fi_addr_t dest, uint64_t tag, void* context) noexcept {
    return self().transmit({.operation = Operation::kTagged,
                            .iov = {iov, count},
                            .flags = transmit_flags_,
                            .destination = dest,
                            .context = context,
                            .tag = tag});
  }
  ssize_t tsendmsg(const fi_msg_tagged* msg, uint64_t flags) noexcept {
    if (msg == nullptr) return -FI_EINVAL;
    return self().transmit({.operation = Operation::kTagged,
                            .iov = {msg->msg_iov, msg->iov_count},
                            .flags = flags,
                            .destination = msg->addr,
                            .context = msg->context,
                            .data = msg->data,
                            .tag = msg->tag});
  }
  ssize_t tinject(const void* buf, size_t len, fi_addr_t dest, uint64_t tag) noexcept {
    return self().transmit({.operation = Operation::kTagged,
                            .iov = OneBuffer(buf, len),
                            .flags = inject_flags(transmit_flags_),
                            .destination = dest,
                            .tag = tag,
                            .silent = true});
  }
  ssize_t tsenddata(const void* buf, size_t len, void*, uint64_t data, fi_addr_t dest, uint64_t tag,
                    void* context) noexcept {
    return self().transmit({.operation = Operation::kTagged,
                            .iov = OneBuffer(buf, len),
                            .flags = data_flags(transmit_flags_),
                            .destination = dest,
                            .context = context,
                            .data = data,
                            .tag = tag});
  }
  ssize_t tinjectdata(const void* buf, size_t len, uint64_t data, fi_addr_t dest, uint64_t tag) noexcept {
    return self().transmit({.operation = Operation::kTagged,
                            .iov = OneBuffer(buf, len),
                            .flags = data_flags(inject_flags(transmit_flags_)),
                            .destination = dest,
                            .data = data,
                            .tag = tag,
                            .silent = true});
  }

  // Remote memory.

  ssize_t read(void* buf, size_t len, void*, fi_addr_t src, uint64_t addr, uint64_t key, void* context) noexcept {
    return access(Operation::kRead, OneBuffer(buf, len), src, addr, key, transmit_flags_, context);
  }
  ssize_t readv(const iovec* iov, void**, size_t count, fi_addr_t src, uint64_t addr, uint64_t key,
                void* context) noexcept {
    return access(Operation::kRead, {iov, count}, src, addr, key, transmit_flags_, context);
  }
  ssize_t readmsg(const fi_msg_rma* msg, uint64_t flags) noexcept {
    return access(Operation::kRead, msg, flags & ~(FI_INJECT | FI_REMOTE_CQ_DATA));
  }
  ssize_t write(const void* buf, size_t len, void*, fi_addr_t dest, uint64_t addr, uint64_t key,
                void* context) noexcept {
    return access(Operation::kWrite, OneBuffer(buf, len), dest, addr, key, transmit_flags_, context);
  }
  ssize_t writev(const iovec* iov, void**, size_t count, fi_addr_t dest, uint64_t addr, uint64_t key,
                 void* context) noexcept {
    return access(Operation::kWrite, {iov, count}, dest, addr, key, transmit_flags_, context);
  }
  ssize_t writemsg(const fi_msg_rma* msg, uint64_t flags) noexcept { return access(Operation::kWrite, msg, flags); }
  ssize_t rma_inject(const void* buf, size_t len, fi_addr_t dest, uint64_t addr, uint64_t key) noexcept {
    return access(Operation::kWrite, OneBuffer(buf, len), dest, addr, key, inject_flags(transmit_flags_), nullptr, 0,
                  true);
  }
  ssize_t writedata(const void* buf, size_t len, void*, uint64_t data, fi_addr_t dest, uint64_t addr, uint64_t key,
                    void* context) noexcept {
    return access(Operation::kWrite, OneBuffer(buf, len), dest, addr, key, data_flags(transmit_flags_), context, data);
  }
  ssize_t rma_injectdata(const void* buf, size_t len, uint64_t data, fi_addr_t dest, uint64_t addr,
                         uint64_t key) noexcept {
    return access(Operation::kWrite, OneBuffer(buf, len), dest, addr, key, data_flags(inject_flags(transmit_flags_)),
                  nullptr, data, true);
  }

 protected:
  TransferCalls(const fi_info& info) noexcept
      : transmit_flags_(info.tx_attr != nullptr ? info.tx_attr->op_flags : 0),
        receive_flags_(info.rx_attr != nullptr ? info.rx_attr->op_flags : 0) {}

  uint64_t transmit_flags_;  // what calls without flags use (tx_attr->op_flags)
  uint64_t receive_flags_;

 private:
  T& self() noexcept { return static_cast<T&>(*this); }

  [[gnu::always_inline]] ssize_t post(bool tagged, std::span<const iovec> iov, fi_addr_t source, uint64_t tag,
                                      uint64_t ignore, void* context, uint64_t flags) noexcept {
    if (!valid_buffers(iov, kIovLimit)) return -FI_EINVAL;
    Lock lock(self().engine().mutex());
    ReceiveRequest request{.iov = iov, .context = context, .flags = flags, .tagged = tagged};
    request.wanted = {.source = kAnySource, .tag = tag & ~ignore, .ignore = ignore};
    if (self().directs_ && source != FI_ADDR_UNSPEC) {
      const auto* peer = self().peer_of(source);
      if (peer == nullptr) return -FI_EINVAL;
      request.wanted.source = peer->id;
    }
    if ((flags & (FI_PEEK | FI_CLAIM | FI_DISCARD)) == 0) return self().receives_.post(request);
    // Whoever peeks wants to know what is there now, and reads a queue that has the answer to the last peek: nothing
    // else may make progress.
    if ((flags & FI_PEEK) != 0) self().progress();
    return self().receives_.peek_or_claim(request);
  }

  ssize_t access(Operation operation, std::span<const iovec> iov, fi_addr_t peer, uint64_t addr, uint64_t key,
                 uint64_t flags, void* context, uint64_t data = 0, bool silent = false) noexcept {
    if (!valid_buffers(iov, kIovLimit)) return -FI_EINVAL;
    const fi_rma_iov remote{addr, total_length(iov), key};
    return self().transmit({.operation = operation,
                            .iov = iov,
                            .flags = flags,
                            .destination = peer,
                            .context = context,
                            .data = data,
                            .remote = {&remote, 1},
                            .silent = silent});
  }
  ssize_t access(Operation operation, const fi_msg_rma* msg, uint64_t flags) noexcept {
    if (msg == nullptr || msg->rma_iov == nullptr || msg->rma_iov_count == 0) return -FI_EINVAL;
    return self().transmit({.operation = operation,
                            .iov = {msg->msg_iov, msg->iov_count},
                            .flags = flags,
                            .destination = msg->addr,
                            .context = msg->context,
                            .data = msg->data,
                            .remote = {msg->rma_iov, msg->rma_iov_count}});
  }
};

}  // namespace weft::rdm
