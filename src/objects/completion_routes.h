// SPDX-License-Identifier: BSD-2-Clause
// The queues and counters bound to an endpoint, which get its completions (fi_endpoint(3), fi_ep_bind).
#pragma once

#include "base/status.h"
#include "objects/completion_queue.h"
#include "objects/counter.h"
#include "objects/deferred_work.h"

namespace weft {

struct CompletionRoutes {
  Ref<CompletionQueueCore> transmit_queue;
  Ref<CompletionQueueCore> receive_queue;
  bool transmit_selective = false;
  bool receive_selective = false;
  bool triggers = false;  // FI_TRIGGER: calls and deferred work may wait for a counter
  Ref<CounterCore> send, receive, read, write, remote_read, remote_write;
  DeferredWork* deferred = nullptr;  // with FI_TRIGGER of the endpoint or of its receive context

  // fi_ep_bind, before the endpoint is enabled. -FI_EBADFLAGS; -FI_EINVAL for flags without a direction, or with a
  // direction that has such an object already.
  Status bind(CompletionQueueCore& completions, std::uint64_t flags) noexcept;
  // bind() for a counter. `counted`: the operations that the endpoint supports; bindings for others are accepted and
  // ignored.
  Status bind(CounterCore& counter, std::uint64_t flags, std::uint64_t counted = ~std::uint64_t{0}) noexcept;
  // Whether one of these directions has a counter.
  bool counts(std::uint64_t directions) const noexcept;
  // -FI_ENOCQ when a direction that the endpoint supports has neither queue nor counter. `caps` without any direction
  // stand for all.
  Status check(std::uint64_t caps) const noexcept;

  // FI_TRIGGER: calls of the endpoint may wait for a counter. They are dropped when it closes, before that takes the
  // engine's mutex.
  void accept_triggers(std::uint64_t caps, DeferredWork& work) noexcept {
    triggers = (caps & FI_TRIGGER) != 0;
    if (triggers) deferred = &work;
  }
  bool cancel_triggered(const fid_ep& ep, const void* context) noexcept {
    return deferred != nullptr && deferred->cancel(ep, context);
  }
  void drop_triggered(const fid_ep& ep) noexcept {
    if (deferred != nullptr) deferred->drop(ep);
  }

  // The number of distinct queues and counters.
  std::size_t bound() const noexcept;

  // Whether success is reported: always, unless the queue was bound with FI_SELECTIVE_COMPLETION.
  bool reports_sent(std::uint64_t flags) const noexcept { return !transmit_selective || (flags & FI_COMPLETION) != 0; }
  bool reports_received(std::uint64_t flags) const noexcept {
    return !receive_selective || (flags & FI_COMPLETION) != 0;
  }

  // `flags` name the operation as completions do: FI_SEND, FI_READ, FI_WRITE with FI_MSG, FI_TAGGED, FI_RMA.
  CounterCore* transmit_counter(std::uint64_t flags) const noexcept {
    if (flags & FI_SEND) return send.get();
    return flags & FI_READ ? read.get() : write.get();
  }

  // `report`: false for operations that request no completion (FI_SELECTIVE_COMPLETION, inject).
  [[gnu::always_inline]] void transmitted(std::uint64_t flags, void* context, bool report) noexcept {
    if (may_be_deferred()) [[unlikely]]
      return deferred_transmitted(flags, context, report);
    if (CounterCore* const counter = transmit_counter(flags); counter != nullptr) counter->add(1);
    if (report && transmit_queue) transmit_queue->write({.context = context, .flags = flags});
  }
  // `sentence`: details beyond `native`; may be empty.
  void transmit_failed(std::uint64_t flags, void* context, int error, int native,
                       std::string_view sentence = {}) noexcept {
    CounterCore* counter = transmit_counter(flags);
    bool reported = true;  // failures are always reported
    if (may_be_deferred()) deferred->redirect(context, reported, counter, true);
    if (counter != nullptr) counter->add_error();
    if (!transmit_queue) return;
    CompletionError entry{{.context = context, .flags = flags}, 0, error, native};
    entry.sentence = sentence;
    transmit_queue->write_error(entry);
  }
  void received(const Completion& completion, bool report) noexcept {
    if (may_be_deferred()) [[unlikely]]
      return deferred_received(completion, report);
    if (receive) receive->add(1);
    if (report && receive_queue) receive_queue->write(completion);
  }
  void receive_failed(const CompletionError& error) noexcept;
  // Completions are lost: queues report -FI_EOVERRUN from now on, and each counter an error.
  void overrun() noexcept {
    for (Ref<CompletionQueueCore>* queue : {&transmit_queue, &receive_queue})
      if (*queue) (*queue)->overrun();
    for (Ref<CounterCore>* counter : {&send, &receive, &read, &write})
      if (*counter) (*counter)->add_error();
  }

 private:
  bool may_be_deferred() const noexcept { return deferred != nullptr && deferred->any_started(); }
  void deferred_transmitted(std::uint64_t flags, void* context, bool report) noexcept;
  void deferred_received(Completion completion, bool report) noexcept;
};

}  // namespace weft
