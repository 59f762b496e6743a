// SPDX-License-Identifier: BSD-2-Clause
// The calls that post receives, of fi_msg(3) and fi_tagged(3): the same for an endpoint and for a shared receive
// context.
#pragma once

#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>

#include "abi/bridge.h"
#include "objects/one_buffer.h"
#include "tcp/receive_posting.h"

namespace weft::tcp {

// T has `ssize_t post(const ReceiveRequest&) noexcept` and `uint64_t receive_flags() const noexcept`, what calls
// without flags use.
template <class T>
class ReceiveCalls : public Object<fid_ep> {
 public:
  ssize_t recv(void* buf, size_t len, void*, fi_addr_t, void* context) noexcept {
    return self().post({.iov = OneBuffer(buf, len), .context = context, .flags = self().receive_flags()});
  }
  ssize_t recvv(const iovec* iov, void**, size_t count, fi_addr_t, void* context) noexcept {
    return self().post({.iov = {iov, count}, .context = context, .flags = self().receive_flags()});
  }
  ssize_t recvmsg(const fi_msg* msg, uint64_t flags) noexcept {
    if (msg == nullptr) return -FI_EINVAL;
    if (flags & (FI_PEEK | FI_CLAIM | FI_DISCARD)) return -FI_EBADFLAGS;
    return self().post({.iov = {msg->msg_iov, msg->iov_count}, .context = msg->context, .flags = flags});
  }
  ssize_t trecv(void* buf, size_t len, void*, fi_addr_t, uint64_t tag, uint64_t ignore, void* context) noexcept {
    return self().post({.iov = OneBuffer(buf, len),
                        .context = context,
                        .flags = self().receive_flags(),
                        .tagged = true,
                        .tag = tag,
                        .ignore = ignore});
  }
  ssize_t trecvv(const iovec* iov, void**, size_t count, fi_addr_t, uint64_t tag, uint64_t ignore,
                 void* context) noexcept {
    return self().post({.iov = {iov, count},
                        .context = context,
                        .flags = self().receive_flags(),
                        .tagged = true,
                        .tag = tag,
                        .ignore = ignore});
  }
  ssize_t trecvmsg(const fi_msg_tagged* msg, uint64_t flags) noexcept {
    if (msg == nullptr) return -FI_EINVAL;
    return self().post({.iov = {msg->msg_iov, msg->iov_count},
                        .context = msg->context,
                        .flags = flags,
                        .tagged = true,
                        .tag = msg->tag,
                        .ignore = msg->ignore});
  }

 private:
  T& self() noexcept { return static_cast<T&>(*this); }
};

}  // namespace weft::tcp
