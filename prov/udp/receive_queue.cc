// SPDX-License-Identifier: BSD-2-Clause
// Posted receives and kept datagrams; see receive_queue.h.
#include "udp/receive_queue.h"

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "udp/message_buffers.h"

namespace weft::udp {

ReceiveQueue::~ReceiveQueue() {
  while (!posted_.empty()) release(posted_.front());
}

ssize_t ReceiveQueue::post(std::span<const iovec> iov, void* context, std::uint64_t flags) noexcept {
  if ((flags & FI_MULTI_RECV) && iov.size() != 1) return -FI_EINVAL;
  if (count_ >= size_) return -FI_EAGAIN;
  Receive* receive = pool_.take();
  if (receive == nullptr) return -FI_EAGAIN;
  std::copy(iov.begin(), iov.end(), receive->iov);
  receive->iov_count = iov.size();
  receive->len = total_length(iov);
  receive->context = context;
  receive->flags = flags & (FI_COMPLETION | FI_MULTI_RECV);
  posted_.push_back(*receive);
  ++count_;
  return 0;
}

void ReceiveQueue::deliver(std::span<const std::byte> datagram, fi_addr_t source, CompletionRoutes& routes) noexcept {
  Receive& receive = posted_.front();
  Completion done;
  done.context = receive.context;
  done.flags = FI_RECV | FI_MSG;
  done.src_addr = source;
  const std::size_t room = receive.len - receive.used;
  done.len = std::min(datagram.size(), room);
  bool report = !routes.receive_selective || (receive.flags & FI_COMPLETION) != 0;
  bool finished = true;
  if (receive.flags & FI_MULTI_RECV) {
    std::byte* at = static_cast<std::byte*>(receive.iov[0].iov_base) + receive.used;
    if (done.len != 0) std::memcpy(at, datagram.data(), done.len);
    done.buf = at;
    receive.used += done.len;
    finished = receive.len - receive.used < min_multi_receive;
    // The buffer's last completion gives it back to the application; that one is never left out.
    if (finished) done.flags |= FI_MULTI_RECV, report = true;
  } else {
    scatter({receive.iov, receive.iov_count}, datagram.first(done.len));
  }
  if (finished) release(receive);
  if (datagram.size() > done.len)
    routes.receive_failed({done, datagram.size() - done.len, FI_ETRUNC, FI_ETRUNC});
  else
    routes.received(done, report);
}

bool ReceiveQueue::cancel(void* context, CompletionRoutes& routes) noexcept {
  for (Receive& receive : posted_) {
    if (receive.context != context) continue;
    report_cancelled(receive, routes);
    return true;
  }
  return false;
}

void ReceiveQueue::cancel_all(CompletionRoutes& routes) noexcept {
  while (!posted_.empty()) report_cancelled(posted_.front(), routes);
}

void ReceiveQueue::report_cancelled(Receive& receive, CompletionRoutes& routes) noexcept {
  CompletionError cancelled;
  cancelled.context = receive.context;
  cancelled.flags = FI_RECV | FI_MSG | (receive.flags & FI_MULTI_RECV);
  cancelled.err = FI_ECANCELED;
  cancelled.prov_errno = FI_ECANCELED;
  release(receive);
  routes.receive_failed(cancelled);
}

void ReceiveQueue::release(Receive& receive) noexcept {
  receive.unlink();
  --count_;
  pool_.give_back(&receive);
}

// ---- Kept datagrams ----

KeptDatagrams::Header KeptDatagrams::header_at(std::size_t position) const noexcept {
  Header header;
  std::memcpy(static_cast<void*>(&header), bytes_.data() + position, sizeof header);
  return header;
}

void KeptDatagrams::push(std::span<const std::byte> datagram, const Address& source, const void* origin) noexcept {
  const Header header{source, origin, datagram.size()};
  const auto* start = reinterpret_cast<const std::byte*>(&header);
  const std::size_t size = bytes_.size();
  try {
    bytes_.reserve(size + sizeof header + datagram.size());
  } catch (const std::bad_alloc&) {
    return;
  }
  bytes_.insert(bytes_.end(), start, start + sizeof header);
  bytes_.insert(bytes_.end(), datagram.begin(), datagram.end());
}

KeptDatagrams::Kept KeptDatagrams::first() const noexcept {
  const Header header = header_at(next_);
  return {{bytes_.data() + next_ + sizeof header, header.len}, header.source};
}

void KeptDatagrams::drop_first() noexcept {
  next_ += sizeof(Header) + header_at(next_).len;
  if (!empty()) return;
  bytes_.clear();  // the memory stays for the next time
  next_ = 0;
}

void KeptDatagrams::drop_from(const void* origin) noexcept {
  std::size_t kept = 0;
  for (std::size_t at = next_; at != bytes_.size();) {
    const Header header = header_at(at);
    const std::size_t size = sizeof header + header.len;
    if (header.origin != origin) {
      std::memmove(bytes_.data() + kept, bytes_.data() + at, size);
      kept += size;
    }
    at += size;
  }
  bytes_.resize(kept);
  next_ = 0;
}

}  // namespace weft::udp
