// SPDX-License-Identifier: BSD-2-Clause
// The posted receives of an endpoint or of a context whose messages are matched in software: posting, FI_MULTI_RECV,
// truncation, cancellation and the completions of all that; fi_msg(3), fi_tagged(3).
//
// Not thread-safe: the owner's lock guards it. Completions go to `routes`, which has received(completion, report),
// receive_failed(error) and receive_selective, as CompletionRoutes of objects/completion_routes.h.
#pragma once

#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/list.h"
#include "base/pool.h"
#include "messages/matcher.h"
#include "objects/completion_queue.h"

namespace weft::messages {

template <Matcher M>
class ReceiveQueue {
 public:
  using Receive = typename M::Receive;
  static constexpr std::uint32_t kUnlimited = ~std::uint32_t{0};

  // `size`: receives that may be posted at once. `pool` outlives the queue.
  explicit ReceiveQueue(Pool<Receive>& pool, std::size_t size = kUnlimited) noexcept : pool_(pool) { set_size(size); }
  // The owner has cancelled the receives, or needs no report of them.
  ~ReceiveQueue() {
    while (Receive* receive = matcher_.first()) {
      matcher_.remove(*receive);
      pool_.give_back(receive);
    }
  }

  // ---- The application's side ----

  // 0; -FI_EAGAIN when the queue is full or memory runs out; -FI_EINVAL. Inlined, because most callers have one buffer.
  [[gnu::always_inline]] ssize_t post(const ReceiveRequest& request) noexcept {
    Receive* receive = nullptr;
    return post(request, receive);
  }

  std::size_t size() const noexcept { return size_; }
  void set_size(std::size_t size) noexcept {
    size_ = static_cast<std::uint32_t>(std::min<std::size_t>(size, kUnlimited));
  }
  std::size_t room() const noexcept { return size_ > count_ ? size_ - count_ : 0; }
  bool empty() const noexcept { return count_ == 0; }

  // Reports the receive with that context as cancelled; false: none has it. A multi-receive buffer that a message is
  // arriving in is completed by that message. `native`: the prov_errno.
  template <class Routes>
  bool cancel(void* context, Routes& routes, int native = FI_ECANCELED) noexcept {
    Receive* receive = matcher_.find_context(context);
    if (receive != nullptr) cancel(*receive, routes, native);
    return receive != nullptr;
  }
  template <class Routes>
  void cancel_all(Routes& routes, int native = FI_ECANCELED) noexcept {
    while (Receive* receive = matcher_.first()) cancel(*receive, routes, native);
  }

  // ---- The protocol's side ----

  // The receive of a message, or with FI_MULTI_RECV a part of it; it ends with complete() or fail(). None: nothing is
  // posted for the message.
  [[gnu::always_inline]] Delivery match(const Envelope& envelope) noexcept {
    Receive* receive = matcher_.match(envelope);
    return receive == nullptr ? Delivery() : give(*receive, envelope.len);
  }

  // The payload is in `delivery`, or as much of it as fits: a longer message is reported as FI_ETRUNC.
  template <class Routes>
  [[gnu::always_inline]] void complete(const Delivery& delivery, const Envelope& envelope, Routes& routes) noexcept {
    complete(static_cast<Receive&>(delivery.receive()), delivery.piece(), delivery.capacity(), envelope, routes);
  }
  // The rest of the payload will not arrive.
  template <class Routes>
  void fail(const Delivery& delivery, const Envelope& envelope, int error, int native, Routes& routes) noexcept {
    bool report = true;
    routes.receive_failed(
        {end(static_cast<Receive&>(delivery.receive()), delivery.piece(), envelope, report), 0, error, native});
  }

  // A message whose payload is at hand, all of it: copies and completes it. False: nothing is posted for it.
  template <class Routes>
  [[gnu::always_inline]] bool deliver(std::span<const std::byte> payload, const Envelope& envelope,
                                      Routes& routes) noexcept {
    Receive* const receive = matcher_.match(envelope);
    if (receive == nullptr) [[unlikely]]
      return false;
    if (receive->iov_count != 1 || receive->takes_many()) [[unlikely]] {
      const Envelope copy = envelope;  // so that `envelope` itself may stay in registers
      deliver_in_parts(*receive, payload, copy, routes);
      return true;
    }
    const std::size_t capacity = receive->len;
    const std::size_t len = std::min(payload.size(), capacity);
    if (len != 0) [[likely]]
      std::memcpy(receive->iov[0].iov_base, payload.data(), len);
    remove(*receive);
    complete(*receive, nullptr, capacity, envelope, routes);
    return true;
  }

  // ---- For Fifo, whose next receive is known before the message ----

  // The buffer of the next receive, if that is one buffer for one message: the caller may write the message there and
  // then complete(match(envelope), ...). Null: no such receive.
  const iovec* lone_buffer() noexcept {
    const Receive* receive = matcher_.first();
    return receive != nullptr && receive->iov_count == 1 && !receive->takes_many() ? receive->iov : nullptr;
  }
  // The message is in lone_buffer(), and the caller reports it for this context.
  void* take_lone() noexcept {
    Receive& receive = *matcher_.first();
    void* const context = receive.context;
    --count_;
    pool_.give_back(&receive);  // its destructor takes it out of the list
    return context;
  }
  // The number of messages to read at once: those that will probably find a receive, `most` at most.
  std::size_t read_limit(std::size_t most) noexcept {
    const Receive* receive = matcher_.first();
    return receive != nullptr && receive->takes_many() ? most : std::min<std::size_t>(count_, most);
  }

  std::size_t min_multi_receive = kDefaultMinMultiReceive;

 protected:
  [[gnu::always_inline]] ssize_t post(const ReceiveRequest& request, Receive*& receive) noexcept {
    if ((request.flags & FI_MULTI_RECV) != 0 && request.iov.size() != 1) [[unlikely]]
      return -FI_EINVAL;
    if (count_ >= size_) [[unlikely]]
      return -FI_EAGAIN;
    receive = make(request);
    if (receive == nullptr) [[unlikely]]
      return -FI_EAGAIN;
    matcher_.post(*receive, request.wanted);
    ++count_;
    return 0;
  }
  // A receive that is not posted; nullptr when memory runs out.
  [[gnu::always_inline]] Receive* make(const ReceiveRequest& request) noexcept {
    Receive* receive = pool_.take();
    if (receive == nullptr) [[unlikely]]
      return nullptr;
    for (const iovec& piece : request.iov) {
      iovec& own = receive->iov[receive->iov_count++];
      own = piece;
      if (piece.iov_base == nullptr) [[unlikely]]
        own.iov_len = 0;  // programs post such buffers for messages without a payload
      receive->len += own.iov_len;
    }
    receive->context = request.context;
    receive->flags = request.flags & (FI_COMPLETION | FI_MULTI_RECV);
    receive->tagged = request.tagged;
    return receive;
  }
  // A multi-receive buffer stays posted while it takes messages; other receives leave with their first.
  [[gnu::always_inline]] Delivery give(Receive& receive, std::size_t len) noexcept {
    if (receive.takes_many()) [[unlikely]]
      return give_part(receive, len);
    remove(receive);
    return Delivery(receive);
  }

  M matcher_;

 private:
  void remove(Receive& receive) noexcept {
    matcher_.remove(receive);
    --count_;
  }
  [[gnu::noinline]] Delivery give_part(Receive& receive, std::size_t len) noexcept {
    ++receive.arriving;
    const std::size_t room = receive.len - receive.used;
    const iovec part{static_cast<std::byte*>(receive.iov[0].iov_base) + receive.used, std::min(room, len)};
    receive.used += part.iov_len;
    if (receive.len - receive.used < min_multi_receive || part.iov_len < len) {
      receive.retired = true;
      remove(receive);
    }
    return Delivery(receive, part);
  }

  template <class Routes>
  [[gnu::noinline]] void deliver_in_parts(Receive& receive, std::span<const std::byte> payload,
                                          const Envelope& envelope, Routes& routes) noexcept {
    const Delivery delivery = give(receive, envelope.len);
    delivery.write(payload);
    complete(delivery, envelope, routes);
  }
  template <class Routes>
  [[gnu::always_inline]] void complete(Receive& receive, void* piece, std::size_t capacity, const Envelope& envelope,
                                       Routes& routes) noexcept {
    bool report = !routes.receive_selective || (receive.flags & FI_COMPLETION) != 0;
    Completion done = end(receive, piece, envelope, report);
    done.len = std::min(envelope.len, capacity);
    if (envelope.len > capacity) [[unlikely]]
      return routes.receive_failed({done, envelope.len - capacity, FI_ETRUNC, FI_ETRUNC});
    routes.received(done, report);
  }
  // A message ends: returns the completion but for its length, and frees the receive if no other message has a part of
  // it. The last completion of a multi-receive buffer returns it to the application: `report` is set.
  [[gnu::always_inline]] Completion end(Receive& receive, void* piece, const Envelope& envelope,
                                        bool& report) noexcept {
    void* const context = receive.context;
    std::uint64_t flags =
        FI_RECV | (envelope.tagged ? FI_TAGGED : FI_MSG) | (envelope.has_data ? FI_REMOTE_CQ_DATA : 0);
    if constexpr (requires { M::kTakesMulticasts; }) flags |= envelope.multicast ? FI_MULTICAST : 0;
    const bool many = receive.takes_many();
    const bool last = !many || (--receive.arriving == 0 && receive.retired);
    if (many && last) [[unlikely]] {
      flags |= FI_MULTI_RECV;
      report = true;
    }
    if (last) pool_.give_back(&receive);
    return {.context = context,
            .flags = flags,
            .buf = piece,
            .data = envelope.data,
            .tag = envelope.tag,
            .src_addr = envelope.name};
  }

  template <class Routes>
  void cancel(Receive& receive, Routes& routes, int native) noexcept {
    remove(receive);
    receive.retired = true;
    if (receive.arriving != 0) return;
    CompletionError cancelled;
    cancelled.context = receive.context;
    cancelled.flags = FI_RECV | (receive.tagged ? FI_TAGGED : FI_MSG) | (receive.flags & FI_MULTI_RECV);
    cancelled.tag = receive.tag();
    cancelled.err = FI_ECANCELED;
    cancelled.prov_errno = native;
    pool_.give_back(&receive);
    routes.receive_failed(cancelled);
  }

  Pool<Receive>& pool_;
  std::uint32_t size_ = 0;
  std::uint32_t count_ = 0;
};

// The matcher of datagrams: every message goes to the oldest receive.
class Fifo {
 public:
  struct Receive : ListHook<Receive>, PostedReceive {
    static std::uint64_t tag() noexcept { return 0; }
  };
  static constexpr bool kTakesMulticasts = true;

  void post(Receive& receive, const Wanted&) noexcept { posted_.push_back(receive); }
  Receive* match(const Envelope&) noexcept { return first(); }
  void remove(Receive& receive) noexcept { receive.unlink(); }
  Receive* first() noexcept { return posted_.empty() ? nullptr : &posted_.front(); }
  Receive* find_context(void* context) noexcept {
    for (Receive& receive : posted_)
      if (receive.context == context) return &receive;
    return nullptr;
  }

 private:
  List<Receive> posted_;
};

using DatagramQueue = ReceiveQueue<Fifo>;
using DatagramPool = Pool<Fifo::Receive>;

}  // namespace weft::messages
