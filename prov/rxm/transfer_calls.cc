// SPDX-License-Identifier: BSD-2-Clause
// The data transfer calls of a reliable-datagram endpoint: fi_msg(3), fi_tagged(3), fi_rma(3). Each names its operation
// and hands it on. `desc` means nothing here: what has to be registered below, is.
#include <rdma/fi_errno.h>

#include "objects/message_buffers.h"
#include "objects/one_buffer.h"
#include "rxm/domain.h"
#include "rxm/endpoint.h"

namespace weft::rxm {
namespace {

// What calls that take no flags add to the endpoint's own, and take from them.
constexpr uint64_t data_flags(uint64_t flags) noexcept {
  return flags | FI_REMOTE_CQ_DATA;
}
constexpr uint64_t inject_flags(uint64_t flags) noexcept {
  return (flags & ~(FI_COMPLETION | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE)) | FI_INJECT;
}

}  // namespace

// Receives.

ssize_t Endpoint::post(bool tagged, std::span<const iovec> iov, fi_addr_t source, uint64_t tag, uint64_t ignore,
                       void* context, uint64_t flags) noexcept {
  if (!valid_buffers(iov, kIovLimit)) return -FI_EINVAL;
  Lock lock(engine().mutex());
  rdm::ReceiveRequest request{.iov = iov, .context = context, .flags = flags, .tagged = tagged};
  request.wanted = {.source = rdm::kAnySource, .tag = tag & ~ignore, .ignore = ignore};
  if (directs_ && source != FI_ADDR_UNSPEC) {
    Peer* peer = peer_of(source);
    if (peer == nullptr) return -FI_EINVAL;
    request.wanted.source = peer->id;
  }
  if ((flags & (FI_PEEK | FI_CLAIM | FI_DISCARD)) == 0) return receives_.post(request);
  // Whoever peeks wants to know what is there now, and reads a queue that has the answer to the last peek: nothing else
  // may make progress.
  if ((flags & FI_PEEK) != 0) progress();
  return receives_.peek_or_claim(request);
}

ssize_t Endpoint::recv(void* buf, size_t len, void*, fi_addr_t src, void* context) noexcept {
  return post(false, OneBuffer(buf, len), src, 0, 0, context, receive_flags_);
}
ssize_t Endpoint::recvv(const iovec* iov, void**, size_t count, fi_addr_t src, void* context) noexcept {
  return post(false, {iov, count}, src, 0, 0, context, receive_flags_);
}
ssize_t Endpoint::recvmsg(const fi_msg* msg, uint64_t flags) noexcept {
  if (msg == nullptr) return -FI_EINVAL;
  return post(false, {msg->msg_iov, msg->iov_count}, msg->addr, 0, 0, msg->context, flags);
}
ssize_t Endpoint::trecv(void* buf, size_t len, void*, fi_addr_t src, uint64_t tag, uint64_t ignore,
                        void* context) noexcept {
  return post(true, OneBuffer(buf, len), src, tag, ignore, context, receive_flags_ & ~FI_MULTI_RECV);
}
ssize_t Endpoint::trecvv(const iovec* iov, void**, size_t count, fi_addr_t src, uint64_t tag, uint64_t ignore,
                         void* context) noexcept {
  return post(true, {iov, count}, src, tag, ignore, context, receive_flags_ & ~FI_MULTI_RECV);
}
ssize_t Endpoint::trecvmsg(const fi_msg_tagged* msg, uint64_t flags) noexcept {
  if (msg == nullptr) return -FI_EINVAL;
  return post(true, {msg->msg_iov, msg->iov_count}, msg->addr, msg->tag, msg->ignore, msg->context, flags);
}

// Messages.

ssize_t Endpoint::send(const void* buf, size_t len, void*, fi_addr_t dest, void* context) noexcept {
  return transmit({.iov = OneBuffer(buf, len), .flags = transmit_flags_, .destination = dest, .context = context});
}
ssize_t Endpoint::sendv(const iovec* iov, void**, size_t count, fi_addr_t dest, void* context) noexcept {
  return transmit({.iov = {iov, count}, .flags = transmit_flags_, .destination = dest, .context = context});
}
ssize_t Endpoint::sendmsg(const fi_msg* msg, uint64_t flags) noexcept {
  if (msg == nullptr) return -FI_EINVAL;
  return transmit({.iov = {msg->msg_iov, msg->iov_count},
                   .flags = flags,
                   .destination = msg->addr,
                   .context = msg->context,
                   .data = msg->data});
}
ssize_t Endpoint::inject(const void* buf, size_t len, fi_addr_t dest) noexcept {
  return transmit(
      {.iov = OneBuffer(buf, len), .flags = inject_flags(transmit_flags_), .destination = dest, .silent = true});
}
ssize_t Endpoint::senddata(const void* buf, size_t len, void*, uint64_t data, fi_addr_t dest, void* context) noexcept {
  return transmit({.iov = OneBuffer(buf, len),
                   .flags = data_flags(transmit_flags_),
                   .destination = dest,
                   .context = context,
                   .data = data});
}
ssize_t Endpoint::injectdata(const void* buf, size_t len, uint64_t data, fi_addr_t dest) noexcept {
  return transmit({.iov = OneBuffer(buf, len),
                   .flags = data_flags(inject_flags(transmit_flags_)),
                   .destination = dest,
                   .data = data,
                   .silent = true});
}

ssize_t Endpoint::tsend(const void* buf, size_t len, void*, fi_addr_t dest, uint64_t tag, void* context) noexcept {
  return transmit({.operation = Operation::kTagged,
                   .iov = OneBuffer(buf, len),
                   .flags = transmit_flags_,
                   .destination = dest,
                   .context = context,
                   .tag = tag});
}
ssize_t Endpoint::tsendv(const iovec* iov, void**, size_t count, fi_addr_t dest, uint64_t tag, void* context) noexcept {
  return transmit({.operation = Operation::kTagged,
                   .iov = {iov, count},
                   .flags = transmit_flags_,
                   .destination = dest,
                   .context = context,
                   .tag = tag});
}
ssize_t Endpoint::tsendmsg(const fi_msg_tagged* msg, uint64_t flags) noexcept {
  if (msg == nullptr) return -FI_EINVAL;
  return transmit({.operation = Operation::kTagged,
                   .iov = {msg->msg_iov, msg->iov_count},
                   .flags = flags,
                   .destination = msg->addr,
                   .context = msg->context,
                   .data = msg->data,
                   .tag = msg->tag});
}
ssize_t Endpoint::tinject(const void* buf, size_t len, fi_addr_t dest, uint64_t tag) noexcept {
  return transmit({.operation = Operation::kTagged,
                   .iov = OneBuffer(buf, len),
                   .flags = inject_flags(transmit_flags_),
                   .destination = dest,
                   .tag = tag,
                   .silent = true});
}
ssize_t Endpoint::tsenddata(const void* buf, size_t len, void*, uint64_t data, fi_addr_t dest, uint64_t tag,
                            void* context) noexcept {
  return transmit({.operation = Operation::kTagged,
                   .iov = OneBuffer(buf, len),
                   .flags = data_flags(transmit_flags_),
                   .destination = dest,
                   .context = context,
                   .data = data,
                   .tag = tag});
}
ssize_t Endpoint::tinjectdata(const void* buf, size_t len, uint64_t data, fi_addr_t dest, uint64_t tag) noexcept {
  return transmit({.operation = Operation::kTagged,
                   .iov = OneBuffer(buf, len),
                   .flags = data_flags(inject_flags(transmit_flags_)),
                   .destination = dest,
                   .data = data,
                   .tag = tag,
                   .silent = true});
}

// Remote memory.

ssize_t Endpoint::access(const RemoteAccess& what) noexcept {
  if (what.remote.empty() || what.remote.size() > domain_.lower_info().tx_attr->rma_iov_limit ||
      what.remote.size() > kMaxRanges)
    return -FI_EINVAL;
  return transmit({.operation = what.operation,
                   .iov = what.iov,
                   .flags = what.flags,
                   .destination = what.peer,
                   .context = what.context,
                   .data = what.data,
                   .remote = what.remote,
                   .silent = what.silent});
}

ssize_t Endpoint::read(void* buf, size_t len, void*, fi_addr_t src, uint64_t addr, uint64_t key,
                       void* context) noexcept {
  const OneBuffer local(buf, len);
  const fi_rma_iov remote{addr, len, key};
  return access({Operation::kRead, local, {&remote, 1}, src, transmit_flags_, context});
}
ssize_t Endpoint::readv(const iovec* iov, void**, size_t count, fi_addr_t src, uint64_t addr, uint64_t key,
                        void* context) noexcept {
  if (!valid_buffers({iov, count}, kIovLimit)) return -FI_EINVAL;
  const fi_rma_iov remote{addr, total_length({iov, count}), key};
  return access({Operation::kRead, {iov, count}, {&remote, 1}, src, transmit_flags_, context});
}
ssize_t Endpoint::readmsg(const fi_msg_rma* msg, uint64_t flags) noexcept {
  if (msg == nullptr || msg->rma_iov == nullptr) return -FI_EINVAL;
  return access({Operation::kRead,
                 {msg->msg_iov, msg->iov_count},
                 {msg->rma_iov, msg->rma_iov_count},
                 msg->addr,
                 flags & ~(FI_INJECT | FI_REMOTE_CQ_DATA),
                 msg->context});
}
ssize_t Endpoint::write(const void* buf, size_t len, void*, fi_addr_t dest, uint64_t addr, uint64_t key,
                        void* context) noexcept {
  const OneBuffer local(buf, len);
  const fi_rma_iov remote{addr, len, key};
  return access({Operation::kWrite, local, {&remote, 1}, dest, transmit_flags_, context});
}
ssize_t Endpoint::writev(const iovec* iov, void**, size_t count, fi_addr_t dest, uint64_t addr, uint64_t key,
                         void* context) noexcept {
  if (!valid_buffers({iov, count}, kIovLimit)) return -FI_EINVAL;
  const fi_rma_iov remote{addr, total_length({iov, count}), key};
  return access({Operation::kWrite, {iov, count}, {&remote, 1}, dest, transmit_flags_, context});
}
ssize_t Endpoint::writemsg(const fi_msg_rma* msg, uint64_t flags) noexcept {
  if (msg == nullptr || msg->rma_iov == nullptr) return -FI_EINVAL;
  return access({Operation::kWrite,
                 {msg->msg_iov, msg->iov_count},
                 {msg->rma_iov, msg->rma_iov_count},
                 msg->addr,
                 flags,
                 msg->context,
                 msg->data});
}
ssize_t Endpoint::rma_inject(const void* buf, size_t len, fi_addr_t dest, uint64_t addr, uint64_t key) noexcept {
  const OneBuffer local(buf, len);
  const fi_rma_iov remote{addr, len, key};
  return access({Operation::kWrite, local, {&remote, 1}, dest, inject_flags(transmit_flags_), nullptr, 0, true});
}
ssize_t Endpoint::writedata(const void* buf, size_t len, void*, uint64_t data, fi_addr_t dest, uint64_t addr,
                            uint64_t key, void* context) noexcept {
  const OneBuffer local(buf, len);
  const fi_rma_iov remote{addr, len, key};
  return access({Operation::kWrite, local, {&remote, 1}, dest, data_flags(transmit_flags_), context, data});
}
ssize_t Endpoint::rma_injectdata(const void* buf, size_t len, uint64_t data, fi_addr_t dest, uint64_t addr,
                                 uint64_t key) noexcept {
  const OneBuffer local(buf, len);
  const fi_rma_iov remote{addr, len, key};
  const uint64_t flags = data_flags(inject_flags(transmit_flags_));
  return access({Operation::kWrite, local, {&remote, 1}, dest, flags, nullptr, data, true});
}

}  // namespace weft::rxm
