// SPDX-License-Identifier: BSD-2-Clause
// Threads that the application cancels: pthread_cancel(3), pthreads(7). A cancellation unwinds the stack, which must
// not happen in the middle of a change, nor through a noexcept function. So a call that blocks permits it only while
// the thread sleeps, and a call of the control path permits it only after its return.
#pragma once

#include <pthread.h>
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif

namespace weft {

// While it exists, this thread cannot be cancelled.
class Uncancellable {
 public:
  Uncancellable() noexcept {
    if (has_threads()) ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_);
  }
  Uncancellable(const Uncancellable&) = delete;
  Uncancellable& operator=(const Uncancellable&) = delete;
  ~Uncancellable() { set_if_enabled_before(PTHREAD_CANCEL_ENABLE); }

  // While it exists, the thread can be cancelled again, if it could be before.
  class Window {
   public:
    explicit Window(const Uncancellable& in) noexcept : in_(in) { in_.set_if_enabled_before(PTHREAD_CANCEL_ENABLE); }
    Window(const Window&) = delete;
    Window& operator=(const Window&) = delete;
    ~Window() { in_.set_if_enabled_before(PTHREAD_CANCEL_DISABLE); }

   private:
    const Uncancellable& in_;
  };

 private:
  // A process with one thread has no other that could cancel it.
  static bool has_threads() noexcept {
#if __has_include(<sys/single_threaded.h>)
    return __libc_single_threaded == 0;
#else
    return true;
#endif
  }
  void set_if_enabled_before(int state) const noexcept {
    if (before_ == PTHREAD_CANCEL_ENABLE) ::pthread_setcancelstate(state, nullptr);
  }

  int before_ = PTHREAD_CANCEL_DISABLE;
};

}  // namespace weft
