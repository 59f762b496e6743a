// SPDX-License-Identifier: BSD-2-Clause
// Exit of a process with endpoints that it has not closed. Messages whose calls have returned may still wait here: to
// share a system call, or for room in shared memory. They are sent, as the system sends those in a socket's buffer.
#pragma once

#include <sys/types.h>

#include "base/list.h"

namespace weft::tcp {

// An engine with unsent messages, from join() to leave().
class LastSender : public ListHook<LastSender> {
 public:
  LastSender(const LastSender&) = delete;
  LastSender& operator=(const LastSender&) = delete;

  // The exit may run in a signal handler that interrupted a call, so only bytes are sent: nothing is reported, and no
  // lock is waited for. False: try again soon, because a thread is inside a call.
  virtual bool send_last() noexcept = 0;

  // A forked child sends nothing: the messages are its parent's.
  const pid_t process;

 protected:
  LastSender();
  ~LastSender() = default;
  void join() noexcept;
  void leave() noexcept;
};

// At the exit, before the library's state is destroyed.
void send_last_messages() noexcept;

}  // namespace weft::tcp
