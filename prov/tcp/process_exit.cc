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

constexpr milliseconds kMostTimeForRoom{1000};
constexpr milliseconds kMostTimeForCalls{10};  // of other threads; an interrupted one never ends
constexpr std::chrono::microseconds kPause{50};

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

}  // namespace

LastSender::LastSender() : process(this_process()) {
  const std::lock_guard lock(senders().mutex);
  senders().list.push_back(*this);
}

LastSender::~LastSender() {
  const std::lock_guard lock(senders().mutex);
  unlink();
}

void send_last_messages() noexcept {
  const std::unique_lock lock(senders().mutex, std::try_to_lock);
  if (!lock.owns_lock()) return;
  const pid_t process = this_process();
  for (const auto start = net::now();; std::this_thread::sleep_for(kPause)) {
    const auto waited = net::now() - start;
    bool more = false;
    for (LastSender& sender : senders().list) {
      if (sender.process != process) continue;
      const LastSender::Left left = sender.send_last();
      more |= left == LastSender::Left::kBusy && waited < kMostTimeForCalls;
      more |= left == LastSender::Left::kWaitsForRoom && waited < kMostTimeForRoom;
    }
    if (!more) return;
  }
}

}  // namespace weft::tcp
