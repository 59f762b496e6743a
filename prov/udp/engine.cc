// SPDX-License-Identifier: BSD-2-Clause
// The progress engine; see engine.h.
#include "udp/engine.h"

#include <rdma/fi_errno.h>
#include <sys/epoll.h>

#include <algorithm>
#include <utility>

#include "udp/socket.h"

namespace weft::udp {
namespace {

// EPOLLOUT is requested only while a sender waits for room: a socket nearly always has room, so every datagram sent
// would report an edge.
constexpr std::uint32_t interest(bool output) noexcept {
  return EPOLLIN | EPOLLET | (output ? std::uint32_t{EPOLLOUT} : 0);
}

}  // namespace

void Engine::drive() noexcept {
  Lock lock(mutex_);
  progress();
}

void Engine::progress() noexcept {
  begin_round();
  waiting_ = false;
  asleep_.remove();
  if (!unsent_.empty()) flush();
  if (watches_.size() > kPolledSockets) {
    poll_epoll();
    return run_ready();
  }
  for (Watch* watch : watches_) {
    if (watch->linked()) watch->unlink();
    if (watch->on_ready(*watch)) ready_.push_back(*watch);
  }
}

// Some messages may stay unsent, because the kernel accepts no more at present.
void Engine::flush() noexcept {
  List<Sender, UnsentTag> now;
  now.splice_back(unsent_);
  while (!now.empty()) {
    Sender& sender = now.pop_front();
    sender.on_flush(sender);
  }
}

void Engine::poll_epoll() noexcept {
  if (!register_all()) {
    // Without readiness all sockets are read one after the other.
    for (Watch* watch : watches_)
      if (!watch->linked()) ready_.push_back(*watch);
  }
  if (!epoll_) return;  // nothing to watch yet
  epoll_event events[kBatch];
  int count;
  do {
    count = net::epoll_wait(epoll_.get(), events, kBatch);
    for (int i = 0; i < count; ++i) {
      if (events[i].data.ptr == &wake_) {
        net::event_drain(wake_.get());
        continue;
      }
      Watch& watch = *static_cast<Watch*>(events[i].data.ptr);
      if (events[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP)) watch.readable = true;
      if (watch.readable && !watch.linked()) ready_.push_back(watch);
    }
  } while (count == kBatch);
}

void Engine::run_ready() noexcept {
  // Only the sockets that are queued now: a socket with more datagrams is queued again, behind the others.
  List<Watch, ReadyTag> now;
  now.splice_back(ready_);
  while (!now.empty()) {
    Watch& watch = now.pop_front();
    if (watch.on_ready(watch) && !watch.linked()) ready_.push_back(watch);
  }
}

bool Engine::prepare_wait() noexcept {
  Lock lock(mutex_);
  begin_round();
  flush();
  if (!register_all()) return false;
  poll_epoll();
  run_ready();
  waiting_ = ready_.empty();
  if (waiting_) asleep_.add();
  return waiting_;
}

void Engine::expect_sleepers() noexcept {
  Lock lock(mutex_);
  registering_ = true;
  (void)register_all();  // if it fails, prepare_wait() tries again
}

Status Engine::add(Watch& watch, int fd) {
  watches_.reserve(watches_.size() + 1);
  watch.fd = fd;
  watch.readable = true;
  if (registering_ || must_send_now())
    if (Status status = register_one(watch); !status.ok()) return status;
  watches_.push_back(&watch);
  return Status();
}

void Engine::remove(Watch& watch) noexcept {
  std::erase(watches_, &watch);
  if (std::exchange(watch.registered, false)) net::epoll_remove(epoll_.get(), watch.fd);
  watch.unlink();
  watch.fd = -1;
}

void Engine::make_ready(Watch& watch) noexcept {
  if (watch.linked()) return;
  ready_.push_back(watch);
  if (must_send_now()) wake();
  waiting_ = false;
}

// Changing the registration reports the present state, so room that appeared meanwhile is not missed.
void Engine::await_output(Watch& watch) noexcept {
  if (std::exchange(watch.output, true)) return;
  if (watch.registered) net::epoll_modify(epoll_.get(), watch.fd, interest(true), &watch);
}

// Registering reports the present state, so earlier datagrams are not missed.
Status Engine::register_one(Watch& watch) noexcept {
  if (Status status = open_descriptors(); !status.ok()) return status;
  const int result = net::epoll_add(epoll_.get(), watch.fd, interest(watch.output), &watch);
  watch.registered = result >= 0;
  return Status(std::min(0, result));
}

bool Engine::register_all() noexcept {
  for (Watch* watch : watches_)
    if (!watch->registered && !register_one(*watch).ok()) return false;
  return true;
}

Status Engine::start_service_thread() {
  Lock lock(mutex_);
  const Status started = start_service([this]() noexcept {
    begin_round();
    flush();
    poll_epoll();
    run_ready();
    if (!ready_.empty()) wake();
  });
  if (!started.ok()) return started;
  registering_ = true;
  return register_all() ? Status() : Status(-FI_ENOMEM);
}

}  // namespace weft::udp
