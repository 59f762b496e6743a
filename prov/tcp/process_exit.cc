// SPDX-License-Identifier: BSD-2-Clause
// Exit of a process with open endpoints; see process_exit.h.
#include "tcp/process_exit.h"

#include <chrono>
#include <mutex>
#include <thread>

#include "base/readiness.h"
#include "tcp/this_process.h"

namespace weft::tcp {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kMostTimeForCalls{10};  // in other threads; an interrupted one never ends
constexpr std::chrono::microseconds kBetweenLocks{50};

struct Senders {
  std::mutex mutex;
  List<LastSender> list;
};

// Never destroyed: static objects of the application may close endpoints after ours are destroyed.
Senders& senders() {
  alignas(Senders) static char room[sizeof(Senders)];
  static auto* all = new (room) Senders;
  return *all;
}

// Checks each sender once. True: no thread was inside a call.
bool send_all(pid_t process) noexcept {
  const std::unique_lock lock(senders().mutex, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  bool all = true;
  for (LastSender& sender : senders().list)
    if (sender.process == process) all &= sender.send_last();
  return all;
}

}  // namespace

LastSender::LastSender() : process(this_process()) {}

void LastSender::join() noexcept {
  const std::lock_guard lock(senders().mutex);
  senders().list.push_back(*this);
}

void LastSender::leave() noexcept {
  const std::lock_guard lock(senders().mutex);
  unlink();
}

void send_last_messages() noexcept {
  const auto limit = net::now() + kMostTimeForCalls;
  while (!send_all(this_process()) && net::now() < limit) std::this_thread::sleep_for(kBetweenLocks);
}

}  // namespace weft::tcp
