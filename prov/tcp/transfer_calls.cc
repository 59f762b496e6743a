// SPDX-License-Identifier: BSD-2-Clause
// The data transfer calls of a connected endpoint: fi_msg(3), fi_tagged(3), fi_rma(3). Each names its operation and
// hands it to the stream or to the receive queue; `desc` and addresses mean nothing to a connected tcp endpoint.
#include "objects/one_buffer.h"
#include "tcp/domain.h"
#include "tcp/receive_posting.h"
#include "tcp/transfer_endpoint.h"

namespace weft::tcp {
namespace {

constexpr uint64_t kUnsupportedLevels = FI_COMMIT_COMPLETE | FI_MATCH_COMPLETE;
// Flags of tx_attr->op_flags that ask nothing special of a small message.
constexpr uint64_t kSmallMessageFlags = FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE;

}  // namespace

ssize_t TransferEndpoint::transmit(const TransmitRequest& request) noexcept {
  if (!valid_buffers(request.local)) return -FI_EINVAL;
  if (request.flags & kUnsupportedLevels) return -FI_EBADFLAGS;
  if ((request.flags & FI_INJECT) && total_length(request.local) > kInjectSize) return -FI_EMSGSIZE;
  Lock lock(engine().mutex());
  return stream_.transmit(request);
}

ssize_t TransferEndpoint::inject_request(TransmitRequest request) noexcept {
  request.flags |= (transmit_flags_ & ~FI_COMPLETION) | FI_INJECT;
  request.silent = true;
  return transmit(request);
}

// What fi_send, fi_inject and their tagged kind have in common.
ssize_t TransferEndpoint::send_one(Op op, const void* buf, size_t len, uint64_t tag, void* context,
                                   bool silent) noexcept {
  if (len - 1 < kInjectSize && buf != nullptr && !(transmit_flags_ & ~kSmallMessageFlags)) [[likely]] {
    Lock lock(engine().mutex());
    return stream_.send_small({.op = op,
                               .report = !silent && routes.reports_sent(transmit_flags_),
                               .data = buf,
                               .len = len,
                               .tag = tag,
                               .context = context});
  }
  const OneBuffer buffer(buf, len);
  if (silent) return inject_request({.op = op, .flags = 0, .local = buffer, .tag = tag});
  return transmit({.op = op, .flags = transmit_flags_, .local = buffer, .tag = tag, .context = context});
}

ssize_t TransferEndpoint::send(const void* buf, size_t len, void*, fi_addr_t, void* context) noexcept {
  return send_one(Op::kMessage, buf, len, 0, context, false);
}
ssize_t TransferEndpoint::sendv(const iovec* iov, void**, size_t count, fi_addr_t, void* context) noexcept {
  return transmit({.op = Op::kMessage, .flags = transmit_flags_, .local = {iov, count}, .context = context});
}
ssize_t TransferEndpoint::sendmsg(const fi_msg* msg, uint64_t flags) noexcept {
  if (msg == nullptr) return -FI_EINVAL;
  return transmit({.op = Op::kMessage,
                   .flags = flags,
                   .local = {msg->msg_iov, msg->iov_count},
                   .cq_data = msg->data,
                   .context = msg->context});
}
ssize_t TransferEndpoint::inject(const void* buf, size_t len, fi_addr_t) noexcept {
  return send_one(Op::kMessage, buf, len, 0, nullptr, true);
}
ssize_t TransferEndpoint::senddata(const void* buf, size_t len, void*, uint64_t data, fi_addr_t,
                                   void* context) noexcept {
  return transmit({.op = Op::kMessage,
                   .flags = transmit_flags_ | FI_REMOTE_CQ_DATA,
                   .local = OneBuffer(buf, len),
                   .cq_data = data,
                   .context = context});
}
ssize_t TransferEndpoint::injectdata(const void* buf, size_t len, uint64_t data, fi_addr_t) noexcept {
  return inject_request(
      {.op = Op::kMessage, .flags = FI_REMOTE_CQ_DATA, .local = OneBuffer(buf, len), .cq_data = data});
}

ssize_t TransferEndpoint::tsend(const void* buf, size_t len, void*, fi_addr_t, uint64_t tag, void* context) noexcept {
  return send_one(Op::kTagged, buf, len, tag, context, false);
}
ssize_t TransferEndpoint::tsendv(const iovec* iov, void**, size_t count, fi_addr_t, uint64_t tag,
                                 void* context) noexcept {
  return transmit({.op = Op::kTagged, .flags = transmit_flags_, .local = {iov, count}, .tag = tag, .context = context});
}
ssize_t TransferEndpoint::tsendmsg(const fi_msg_tagged* msg, uint64_t flags) noexcept {
  if (msg == nullptr) return -FI_EINVAL;
  return transmit({.op = Op::kTagged,
                   .flags = flags,
                   .local = {msg->msg_iov, msg->iov_count},
                   .cq_data = msg->data,
                   .tag = msg->tag,
                   .context = msg->context});
}
ssize_t TransferEndpoint::tinject(const void* buf, size_t len, fi_addr_t, uint64_t tag) noexcept {
  return send_one(Op::kTagged, buf, len, tag, nullptr, true);
}
ssize_t TransferEndpoint::tsenddata(const void* buf, size_t len, void*, uint64_t data, fi_addr_t, uint64_t tag,
                                    void* context) noexcept {
  return transmit({.op = Op::kTagged,
                   .flags = transmit_flags_ | FI_REMOTE_CQ_DATA,
                   .local = OneBuffer(buf, len),
                   .cq_data = data,
                   .tag = tag,
                   .context = context});
}
ssize_t TransferEndpoint::tinjectdata(const void* buf, size_t len, uint64_t data, fi_addr_t, uint64_t tag) noexcept {
  return inject_request(
      {.op = Op::kTagged, .flags = FI_REMOTE_CQ_DATA, .local = OneBuffer(buf, len), .cq_data = data, .tag = tag});
}

ssize_t TransferEndpoint::read(void* buf, size_t len, void* desc, fi_addr_t src, uint64_t addr, uint64_t key,
                               void* context) noexcept {
  const iovec iov{buf, len};
  return readv(&iov, &desc, 1, src, addr, key, context);
}
ssize_t TransferEndpoint::readv(const iovec* iov, void**, size_t count, fi_addr_t, uint64_t addr, uint64_t key,
                                void* context) noexcept {
  if (!valid_buffers({iov, count})) return -FI_EINVAL;
  const RmaRange range{addr, total_length({iov, count}), key};
  return transmit({.op = Op::kReadRequest,
                   .flags = transmit_flags_,
                   .local = {iov, count},
                   .remote = {&range, 1},
                   .context = context});
}
ssize_t TransferEndpoint::write(const void* buf, size_t len, void*, fi_addr_t, uint64_t addr, uint64_t key,
                                void* context) noexcept {
  const RmaRange range{addr, len, key};
  return transmit({.op = Op::kWrite,
                   .flags = transmit_flags_,
                   .local = OneBuffer(buf, len),
                   .remote = {&range, 1},
                   .context = context});
}
ssize_t TransferEndpoint::writev(const iovec* iov, void**, size_t count, fi_addr_t, uint64_t addr, uint64_t key,
                                 void* context) noexcept {
  if (!valid_buffers({iov, count})) return -FI_EINVAL;
  const RmaRange range{addr, total_length({iov, count}), key};
  return transmit(
      {.op = Op::kWrite, .flags = transmit_flags_, .local = {iov, count}, .remote = {&range, 1}, .context = context});
}

ssize_t TransferEndpoint::rma_message(Op op, const fi_msg_rma* msg, uint64_t flags) noexcept {
  if (msg == nullptr || msg->rma_iov == nullptr || msg->rma_iov_count == 0 || msg->rma_iov_count > kMaxRmaIov)
    return -FI_EINVAL;
  RmaRange ranges[kMaxRmaIov];
  std::size_t remote = 0;
  for (std::size_t i = 0; i < msg->rma_iov_count; ++i) {
    ranges[i] = {msg->rma_iov[i].addr, msg->rma_iov[i].len, msg->rma_iov[i].key};
    remote += ranges[i].len;
  }
  const std::span local{msg->msg_iov, msg->iov_count};
  if (!valid_buffers(local) || total_length(local) != remote) return -FI_EINVAL;
  return transmit({.op = op,
                   .flags = flags,
                   .local = local,
                   .remote = {ranges, msg->rma_iov_count},
                   .cq_data = msg->data,
                   .context = msg->context});
}
ssize_t TransferEndpoint::readmsg(const fi_msg_rma* msg, uint64_t flags) noexcept {
  // Where a read's data comes from learns nothing of it, so there is nobody to give completion data to.
  return flags & FI_REMOTE_CQ_DATA ? -FI_EBADFLAGS : rma_message(Op::kReadRequest, msg, flags & ~FI_INJECT);
}
ssize_t TransferEndpoint::writemsg(const fi_msg_rma* msg, uint64_t flags) noexcept {
  return rma_message(Op::kWrite, msg, flags);
}
ssize_t TransferEndpoint::rma_inject(const void* buf, size_t len, fi_addr_t, uint64_t addr, uint64_t key) noexcept {
  const RmaRange range{addr, len, key};
  return inject_request({.op = Op::kWrite, .flags = 0, .local = OneBuffer(buf, len), .remote = {&range, 1}});
}
ssize_t TransferEndpoint::writedata(const void* buf, size_t len, void*, uint64_t data, fi_addr_t, uint64_t addr,
                                    uint64_t key, void* context) noexcept {
  const RmaRange range{addr, len, key};
  return transmit({.op = Op::kWrite,
                   .flags = transmit_flags_ | FI_REMOTE_CQ_DATA,
                   .local = OneBuffer(buf, len),
                   .remote = {&range, 1},
                   .cq_data = data,
                   .context = context});
}
ssize_t TransferEndpoint::rma_injectdata(const void* buf, size_t len, uint64_t data, fi_addr_t, uint64_t addr,
                                         uint64_t key) noexcept {
  const RmaRange range{addr, len, key};
  return inject_request({.op = Op::kWrite,
                         .flags = FI_REMOTE_CQ_DATA,
                         .local = OneBuffer(buf, len),
                         .remote = {&range, 1},
                         .cq_data = data});
}

ssize_t TransferEndpoint::post(const ReceiveRequest& request) noexcept {
  if (!valid_buffers(request.iov)) return -FI_EINVAL;
  if (shared_receive_) return -FI_EOPBADSTATE;  // receives are posted to the shared context
  Lock lock(engine().mutex());
  if (stream_.ended()) return -FI_ENOTCONN;
  if (request.flags & (FI_PEEK | FI_CLAIM)) return peek_or_claim(own_receives_, domain_.pools(), routes, request);
  return post_receive(own_receives_, domain_.pools(), request);
}

}  // namespace weft::tcp
