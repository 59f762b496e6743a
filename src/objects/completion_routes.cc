// SPDX-License-Identifier: BSD-2-Clause
// Bindings of endpoints; see completion_routes.h.
#include "objects/completion_routes.h"

#include <algorithm>
#include <functional>
#include <iterator>

namespace weft {
namespace {

constexpr std::uint64_t kDirections = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;

}  // namespace

Status CompletionRoutes::bind(CompletionQueueCore& completions, std::uint64_t flags) noexcept {
  const bool selective = (flags & FI_SELECTIVE_COMPLETION) != 0;
  if ((flags & ~(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION)) != 0) return Status(-FI_EBADFLAGS);
  if (!(flags & (FI_TRANSMIT | FI_RECV))) return Status(-FI_EINVAL);
  if (((flags & FI_TRANSMIT) && transmit_queue) || ((flags & FI_RECV) && receive_queue)) return Status(-FI_EINVAL);
  if (Status status = completions.reserve(); !status.ok()) return status;
  if (flags & FI_TRANSMIT) {
    transmit_queue = Ref<CompletionQueueCore>(completions);
    transmit_selective = selective;
  }
  if (flags & FI_RECV) {
    receive_queue = Ref<CompletionQueueCore>(completions);
    receive_selective = selective;
  }
  return Status();
}

Status CompletionRoutes::bind(CounterCore& counter, std::uint64_t flags, std::uint64_t counted) noexcept {
  if ((flags & ~kDirections) != 0) return Status(-FI_EBADFLAGS);
  if (flags == 0 || counts(flags & counted)) return Status(-FI_EINVAL);
  auto route = [&](std::uint64_t direction, Ref<CounterCore>& to) {
    if (flags & counted & direction) to = Ref<CounterCore>(counter);
  };
  route(FI_SEND, send);
  route(FI_RECV, receive);
  route(FI_READ, read);
  route(FI_WRITE, write);
  route(FI_REMOTE_READ, remote_read);
  route(FI_REMOTE_WRITE, remote_write);
  return Status();
}

bool CompletionRoutes::counts(std::uint64_t directions) const noexcept {
  return ((directions & FI_SEND) && send) || ((directions & FI_RECV) && receive) || ((directions & FI_READ) && read) ||
         ((directions & FI_WRITE) && write) || ((directions & FI_REMOTE_READ) && remote_read) ||
         ((directions & FI_REMOTE_WRITE) && remote_write);
}

Status CompletionRoutes::check(std::uint64_t caps) const noexcept {
  const bool any = (caps & kDirections) == 0;
  const bool sends = any || (caps & (FI_SEND | FI_READ | FI_WRITE)) != 0;
  const bool receives = any || (caps & FI_RECV) != 0;
  if (sends && !transmit_queue && !send && !read && !write) return Status(-FI_ENOCQ);
  if (receives && !receive_queue && !receive) return Status(-FI_ENOCQ);
  return Status();
}

void CompletionRoutes::deferred_transmitted(std::uint64_t flags, void* context, bool report) noexcept {
  CounterCore* counter = transmit_counter(flags);
  deferred->redirect(context, report, counter, false);
  if (counter != nullptr) counter->add(1);
  if (report && transmit_queue) transmit_queue->write({.context = context, .flags = flags});
}

void CompletionRoutes::deferred_received(Completion completion, bool report) noexcept {
  CounterCore* counter = receive.get();
  deferred->redirect(completion.context, report, counter, false);
  if (counter != nullptr) counter->add(1);
  if (report && receive_queue) receive_queue->write(completion);
}

void CompletionRoutes::receive_failed(const CompletionError& error) noexcept {
  CompletionError failed = error;
  CounterCore* counter = receive.get();
  bool reported = true;
  if (may_be_deferred()) deferred->redirect(failed.context, reported, counter, true);
  if (counter != nullptr) counter->add_error();
  if (receive_queue) receive_queue->write_error(failed);
}

std::size_t CompletionRoutes::bound() const noexcept {
  const CounterCore* counters[] = {send.get(),  receive.get(),     read.get(),
                                   write.get(), remote_read.get(), remote_write.get()};
  std::sort(std::begin(counters), std::end(counters), std::less<>());
  const auto last = std::unique(std::begin(counters), std::end(counters));
  return static_cast<std::size_t>(last - counters) - (counters[0] == nullptr) + !!transmit_queue +
         (receive_queue && receive_queue.get() != transmit_queue.get());
}

}  // namespace weft
