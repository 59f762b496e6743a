// SPDX-License-Identifier: BSD-2-Clause
// Transfers of a datagram endpoint; fi_msg(3). The source address of receives is ignored.
#include <rdma/fi_errno.h>

#include "objects/message_buffers.h"
#include "udp/multicast_group.h"
#include "udp/socket.h"

namespace weft::udp {

// Datagrams are not acknowledged, and have no room for completion data.
constexpr uint64_t kUnsupported = kUnsupportedFlags | FI_DELIVERY_COMPLETE | FI_REMOTE_CQ_DATA;

namespace {

// The flags of a message's completion.
uint64_t flags_of(const TransmitRequest& message) noexcept {
  return FI_SEND | FI_MSG | (message.flags & FI_MULTICAST);
}

}  // namespace

// The first message of a round is sent at once; later ones are gathered until the application makes progress, if it
// always does so soon (docs/decisions/0001). Injected messages have left when the call returns.
ssize_t Endpoint::transmit(const TransmitRequest& message) noexcept {
  std::size_t len = 0;
  const TransmitLimits limits{
      .unsupported = kUnsupported, .ranges = 0, .message = max_message_, .inject = max_message_};
  if (const int wrong = check_transmit(message, limits, len); wrong != 0) return wrong;
  Lock lock(engine().mutex());
  const Address* to = destination_of(message);
  if (to == nullptr) return -FI_EINVAL;
  const bool inject = (message.flags & FI_INJECT) != 0;
  const uint64_t round = engine().round();
  const bool first = last_round_ != round && batch_.empty();
  const bool more = (message.flags & FI_MORE) != 0;
  if (inject || engine().must_send_now() || (!more && (first || !engine().bursts().may_wait()))) {
    flush();
    if (batch_.empty()) {
      const ssize_t result = send_now(message, *to);
      if (!is_back_pressure(result)) {
        if (!first && !inject) engine().bursts().sent();
        last_round_ = round;
        return result;
      }
      engine().await_output(socket_);
    }
  }
  return inject ? -FI_EAGAIN : gather(message, *to, len);
}

ssize_t Endpoint::send_now(const TransmitRequest& message, const Address& to) noexcept {
  ssize_t result = 0;
  if (message.iov.size() == 1) {  // the cheaper call
    result = net::send(socket_.fd, message.iov[0].iov_base, message.iov[0].iov_len, to.data(), to.size());
  } else {
    msghdr header{};
    header.msg_name = const_cast<sockaddr*>(to.data());
    header.msg_namelen = to.size();
    header.msg_iov = const_cast<iovec*>(message.iov.data());
    header.msg_iovlen = message.iov.size();
    result = net::send(socket_.fd, header);
  }
  if (result < 0) return result;
  const bool report = !message.silent && routes_.reports_sent(message.flags);
  routes_.transmitted(flags_of(message), message.context, report);
  return 0;
}

ssize_t Endpoint::gather(const TransmitRequest& message, const Address& to, std::size_t len) noexcept {
  if (batch_.full()) {
    engine().bursts().end();
    flush();
  }
  if (batch_.full()) return -FI_EAGAIN;
  Outgoing& outgoing = batch_.push();
  outgoing.destination = to;
  std::copy(message.iov.begin(), message.iov.end(), outgoing.iov);
  outgoing.iov_count = static_cast<std::uint32_t>(message.iov.size());
  outgoing.len = static_cast<std::uint32_t>(len);
  outgoing.context = message.context;
  outgoing.flags = flags_of(message);
  outgoing.report = routes_.reports_sent(message.flags);
  engine().add_unsent(*this);
  return 0;
}

void Endpoint::flush() noexcept {
  if (batch_.empty()) return;
  if (batch_.flush(socket_.fd, routes_)) return Sender::unlink();
  engine().await_output(socket_);
  engine().add_unsent(*this);
}

ssize_t Endpoint::post_receive(const ReceiveRequest& request, fi_addr_t) noexcept {
  if (request.flags & (FI_PEEK | FI_CLAIM | FI_DISCARD | FI_TRIGGER)) return -FI_EBADFLAGS;
  if (!valid_vector(request.iov)) return -FI_EINVAL;
  Lock lock(engine().mutex());
  if (const ssize_t result = receiver_.post(request); result != 0) return result;
  // Sockets are not read while no receive is posted, so `readable` may be old.
  if (socket_.readable) engine().make_ready(socket_);
  for (const GroupSlot& slot : groups_)
    if (slot.group != nullptr) slot.group->receive_posted();
  return 0;
}

}  // namespace weft::udp
