// SPDX-License-Identifier: BSD-2-Clause
// The calls that post receives, of endpoints and of receive contexts: fi_msg(3), fi_tagged(3). Each builds a request.
#pragma once

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include "abi/bridge.h"
#include "messages/posted_receive.h"

namespace weft::messages {

// T: the provider's endpoint or context, with
//   ssize_t post_receive(const ReceiveRequest&, fi_addr_t source) noexcept   checks the buffers; `source` may be any
template <class T>
class ReceiveCalls : public Object<fid_ep> {
 public:
  ssize_t recv(void* buf, size_t len, void*, fi_addr_t src, void* context) noexcept {
    return self().post_receive({.iov = OneBuffer(buf, len), .context = context, .flags = receive_flags_}, src);
  }
  ssize_t recvv(const iovec* iov, void**, size_t count, fi_addr_t src, void* context) noexcept {
    return self().post_receive({.iov = {iov, count}, .context = context, .flags = receive_flags_}, src);
  }
  ssize_t recvmsg(const fi_msg* msg, uint64_t flags) noexcept {
    if (msg == nullptr) return -FI_EINVAL;
    return self().post_receive({.iov = {msg->msg_iov, msg->iov_count}, .context = msg->context, .flags = flags},
                               msg->addr);
  }
  ssize_t trecv(void* buf, size_t len, void*, fi_addr_t src, uint64_t tag, uint64_t ignore, void* context) noexcept {
    return self().post_receive(tagged(OneBuffer(buf, len), tag, ignore, context, receive_flags_ & ~FI_MULTI_RECV), src);
  }
  ssize_t trecvv(const iovec* iov, void**, size_t count, fi_addr_t src, uint64_t tag, uint64_t ignore,
                 void* context) noexcept {
    return self().post_receive(tagged({iov, count}, tag, ignore, context, receive_flags_ & ~FI_MULTI_RECV), src);
  }
  ssize_t trecvmsg(const fi_msg_tagged* msg, uint64_t flags) noexcept {
    if (msg == nullptr) return -FI_EINVAL;
    return self().post_receive(tagged({msg->msg_iov, msg->iov_count}, msg->tag, msg->ignore, msg->context, flags),
                               msg->addr);
  }

 protected:
  explicit ReceiveCalls(const fi_rx_attr* attr) noexcept : receive_flags_(attr != nullptr ? attr->op_flags : 0) {}

  uint64_t receive_flags_;  // for calls without flags (rx_attr->op_flags)

 private:
  static ReceiveRequest tagged(std::span<const iovec> iov, uint64_t tag, uint64_t ignore, void* context,
                               uint64_t flags) noexcept {
    return {.iov = iov, .context = context, .flags = flags, .tagged = true, .wanted = {.tag = tag, .ignore = ignore}};
  }
  T& self() noexcept { return static_cast<T&>(*this); }
};

}  // namespace weft::messages
