// SPDX-License-Identifier: BSD-2-Clause
// The progress engine of a udp domain: the sockets to read and the messages gathered for sending; fi_domain(3),
// progress.
//
// A domain with one or two sockets reads them at each round of progress, because a busy poll then finds the next
// datagram one system call earlier. Readiness (epoll, edge-triggered) is used with more sockets, or before a thread
// sleeps.
//
// Thread-safety: drive(), prepare_wait(), expect_sleepers() and start_service_thread() take the mutex; everything else
// is called with the mutex held, and handlers run with it held. Lock order: engine, then the locks of queues and
// counters.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <vector>

#include "base/list.h"
#include "base/status.h"
#include "objects/address_vector.h"
#include "objects/completion_queue.h"
#include "objects/counter.h"
#include "objects/engine_base.h"
#include "objects/event_queue.h"
#include "objects/short_bursts.h"
#include "udp/limits.h"

namespace weft::udp {

struct ReadyTag;
struct UnsentTag;

// The engine's record of one socket; embedded in its owner, which removes it before it is destroyed.
struct Watch : ListHook<ReadyTag> {
  // Reads once. true: datagrams were read, and more may wait. Clears `readable` when the socket has no more.
  using Handler = bool (*)(Watch&) noexcept;
  explicit Watch(Handler ready) noexcept : on_ready(ready) {}

  Handler on_ready;
  int fd = -1;
  bool readable = true;  // as last reported
  bool registered = false;
  bool output = false;  // readiness includes room for sending
};

// An endpoint with messages that have not been given to the kernel.
struct Sender : ListHook<UnsentTag> {
  using Handler = void (*)(Sender&) noexcept;
  explicit Sender(Handler flush) noexcept : on_flush(flush) {}
  Handler on_flush;  // leaves the list when nothing is left
};

class Engine : public EngineBase {
 public:
  explicit Engine(Turns turns = Turns::kNone) noexcept : EngineBase(turns) {}
  ~Engine() { stop_service(); }

  // ProgressEngine (objects/progress.h).
  void drive() noexcept;
  bool prepare_wait() noexcept;
  bool needs_progress() const noexcept { return bursts_.learns(); }
  void expect_sleepers() noexcept;
  std::atomic<unsigned> watchers{0};

  // Progress without the application's calls: FI_PROGRESS_AUTO. Idempotent.
  Status start_service_thread();

  // From here on the caller holds the mutex.
  // Also while a thread sleeps on after another one has made progress: it must notice new sockets and receives, and no
  // further call of the other one may send what it gathers.
  bool must_send_now() const noexcept { return EngineBase::must_send_now() || asleep_.any(); }
  Status add(Watch& watch, int fd);
  void remove(Watch& watch) noexcept;  // the descriptor stays open
  // The handler has work that no readiness reports, for example after a receive was posted.
  void make_ready(Watch& watch) noexcept;
  // The socket accepts no more: sleepers wake up when it does again.
  void await_output(Watch& watch) noexcept;
  void add_unsent(Sender& sender) noexcept {
    if (!sender.linked()) unsent_.push_back(sender);
  }
  ShortBursts& bursts() noexcept { return bursts_; }

  // Each endpoint calls open_slots() when it is enabled, so an engine without endpoints is small. Untouched memory
  // costs nothing: most datagrams use the first page of their slot only.
  Status open_slots() noexcept {
    if (slots_ == nullptr) slots_.reset(new (std::nothrow) std::byte[kReceiveBatch * kReceiveSlot]);
    return Status(slots_ != nullptr ? 0 : -FI_ENOMEM);
  }
  // kReceiveBatch slots of kReceiveSlot bytes. Contents do not outlive a handler.
  std::byte* receive_slots() noexcept { return slots_.get(); }

 private:
  void begin_round() noexcept {
    ++round_;
    bursts_.end();
  }
  void progress() noexcept;
  void flush() noexcept;
  void poll_epoll() noexcept;
  void run_ready() noexcept;
  Status register_one(Watch& watch) noexcept;
  bool register_all() noexcept;

  static constexpr int kBatch = 64;  // readiness events per system call

  bool registering_ = false;  // wait_fd() may be polled without prepare_wait(): every socket is registered at once
  ShortBursts bursts_;
  std::vector<Watch*> watches_;
  List<Watch, ReadyTag> ready_;
  List<Sender, UnsentTag> unsent_;
  std::unique_ptr<std::byte[]> slots_;
};

// The shared queue objects, driven by this engine.
using AddressVector = weft::AddressVector<Engine>;
using CompletionQueue = weft::CompletionQueue<Engine>;
using Counter = weft::Counter<Engine>;
using EventQueue = weft::EventQueue<Engine>;

}  // namespace weft::udp
