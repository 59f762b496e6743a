// SPDX-License-Identifier: BSD-2-Clause
// The receives that a datagram endpoint has posted, matched with messages here and not by a device; fi_msg(3).
#pragma once

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/list.h"
#include "base/pool.h"
#include "objects/completion_queue.h"
#include "objects/message_buffers.h"

namespace weft {

inline constexpr std::size_t kReceiveIovLimit = kSoftwareIovLimit;

struct Receive : ListHook<Receive> {
  iovec iov[kReceiveIovLimit];
  std::size_t iov_count = 0;
  std::size_t len = 0;   // room in all of iov
  std::size_t used = 0;  // FI_MULTI_RECV: bytes that messages have taken
  void* context = nullptr;
  std::uint64_t flags = 0;  // FI_COMPLETION, FI_MULTI_RECV
};

using ReceivePool = Pool<Receive>;

// Guarded by its owner's lock. Routes: where completions go, with received(completion, report),
// receive_failed(error) and receive_selective, as in completion_routes.h.
class ReceiveQueue {
 public:
  ReceiveQueue(ReceivePool& pool, std::size_t size, std::size_t min_multi) noexcept
      : min_multi_receive(min_multi), pool_(pool), size_(size) {}
  ~ReceiveQueue() {
    while (!posted_.empty()) release(posted_.front());
  }

  // 0; -FI_EAGAIN when the queue is full; -FI_EINVAL. Inlined, because mostly the caller knows that there is one piece.
  [[gnu::always_inline]] ssize_t post(std::span<const iovec> iov, void* context, std::uint64_t flags) noexcept {
    if ((flags & FI_MULTI_RECV) && iov.size() != 1) [[unlikely]]
      return -FI_EINVAL;
    if (count_ >= size_) [[unlikely]]
      return -FI_EAGAIN;
    Receive* receive = pool_.take();
    if (receive == nullptr) [[unlikely]]
      return -FI_EAGAIN;
    std::copy(iov.begin(), iov.end(), receive->iov);
    receive->iov_count = iov.size();
    receive->len = total_length(iov);
    receive->context = context;
    receive->flags = flags & (FI_COMPLETION | FI_MULTI_RECV);
    posted_.push_back(*receive);
    ++count_;
    return 0;
  }
  bool empty() noexcept { return posted_.empty(); }
  // How many messages may be read at once, up to `most`: as many as find a receive, probably.
  std::size_t appetite(std::size_t most) noexcept {
    if (count_ != 0 && (posted_.front().flags & FI_MULTI_RECV)) return most;
    return std::min(count_, most);
  }
  std::size_t size() const noexcept { return size_; }
  std::size_t room() const noexcept { return size_ - count_; }
  void set_size(std::size_t size) noexcept { size_ = size; }

  // Fills the first receive with a message and reports it. There must be one. `done`: what else there is to say of the
  // message, such as its source.
  template <class Routes>
  void deliver(std::span<const std::byte> message, Completion done, Routes& routes) noexcept;

  // Where who reads messages may put the next one by himself: the buffer of the first receive, if that is one buffer
  // for one message. Null: there is none.
  const iovec* lone_buffer() noexcept {
    if (posted_.empty()) return nullptr;
    const Receive& receive = posted_.front();
    return receive.iov_count == 1 && (receive.flags & FI_MULTI_RECV) == 0 ? receive.iov : nullptr;
  }
  // A message is there now, all of it, and who asks for the context reports it.
  void* take_lone() noexcept {
    Receive& receive = posted_.front();
    void* const context = receive.context;
    release(receive);
    return context;
  }
  // A message of `size` bytes is there now, or as much of it as fits.
  template <class Routes>
  void delivered(std::size_t size, Completion done, Routes& routes) noexcept;

  // Reports the receive with that context as cancelled; false if there is none. `native`: its prov_errno.
  template <class Routes>
  bool cancel(void* context, Routes& routes, int native = FI_ECANCELED) noexcept {
    for (Receive& receive : posted_) {
      if (receive.context != context) continue;
      report_cancelled(receive, routes, native);
      return true;
    }
    return false;
  }
  template <class Routes>
  void cancel_all(Routes& routes, int native = FI_ECANCELED) noexcept {
    while (!posted_.empty()) report_cancelled(posted_.front(), routes, native);
  }

  std::size_t min_multi_receive;

 private:
  template <class Routes>
  void deliver_in_parts(std::span<const std::byte> message, Completion done, Routes& routes) noexcept;
  template <class Routes>
  void report_cancelled(Receive& receive, Routes& routes, int native) noexcept {
    CompletionError cancelled;
    cancelled.context = receive.context;
    cancelled.flags = FI_RECV | FI_MSG | (receive.flags & FI_MULTI_RECV);
    cancelled.err = FI_ECANCELED;
    cancelled.prov_errno = native;
    release(receive);
    routes.receive_failed(cancelled);
  }
  void release(Receive& receive) noexcept {
    --count_;
    pool_.give_back(&receive);  // its end takes it out of the list
  }

  ReceivePool& pool_;
  std::size_t size_;
  std::size_t count_ = 0;
  List<Receive> posted_;
};

template <class Routes>
[[gnu::always_inline]] inline void ReceiveQueue::delivered(std::size_t size, Completion done, Routes& routes) noexcept {
  Receive& receive = posted_.front();
  const std::size_t room = receive.len;
  const bool report = !routes.receive_selective || (receive.flags & FI_COMPLETION) != 0;
  done.context = receive.context;
  done.flags |= FI_RECV | FI_MSG;
  done.len = std::min(size, room);
  release(receive);
  if (size > room) [[unlikely]]
    return routes.receive_failed({done, size - room, FI_ETRUNC, FI_ETRUNC});
  routes.received(done, report);
}

template <class Routes>
void ReceiveQueue::deliver(std::span<const std::byte> message, Completion done, Routes& routes) noexcept {
  const iovec* const place = lone_buffer();
  if (place == nullptr) [[unlikely]]
    return deliver_in_parts(message, done, routes);
  if (const std::size_t len = std::min(message.size(), place->iov_len); len != 0)
    std::memcpy(place->iov_base, message.data(), len);
  delivered(message.size(), done, routes);
}

// Into one of several buffers of a receive, or one of several messages into a buffer.
template <class Routes>
[[gnu::noinline]] void ReceiveQueue::deliver_in_parts(std::span<const std::byte> message, Completion done,
                                                      Routes& routes) noexcept {
  Receive& receive = posted_.front();
  done.len = std::min(message.size(), receive.len - receive.used);
  if ((receive.flags & FI_MULTI_RECV) == 0) {
    scatter({receive.iov, receive.iov_count}, message.first(done.len));
    return delivered(message.size(), done, routes);
  }
  std::byte* const at = static_cast<std::byte*>(receive.iov[0].iov_base) + receive.used;
  if (done.len != 0) std::memcpy(at, message.data(), done.len);
  done.context = receive.context;
  done.flags |= FI_RECV | FI_MSG;
  done.buf = at;
  receive.used += done.len;
  bool report = !routes.receive_selective || (receive.flags & FI_COMPLETION) != 0;
  // The buffer's last completion gives it back to the application; that one is never left out.
  if (receive.len - receive.used < min_multi_receive) {
    done.flags |= FI_MULTI_RECV;
    report = true;
    release(receive);
  }
  if (message.size() > done.len)
    routes.receive_failed({done, message.size() - done.len, FI_ETRUNC, FI_ETRUNC});
  else
    routes.received(done, report);
}

}  // namespace weft
