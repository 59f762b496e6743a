// SPDX-License-Identifier: BSD-2-Clause
// The descriptor of a queue of events: readable while the queue has entries, for poll and epoll. A read of an empty
// queue blocks unless the program set O_NONBLOCK on the descriptor. It is an eventfd that holds 1 or 0.
#pragma once
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

namespace fake {

class Readiness {
 public:
  Readiness() : fd_(eventfd(0, EFD_CLOEXEC)) {}
  ~Readiness() { close(); }
  Readiness(const Readiness&) = delete;
  Readiness& operator=(const Readiness&) = delete;

  int fd() const { return fd_; }
  bool nonblocking() const { return fcntl(fd_, F_GETFL) & O_NONBLOCK; }
  void set(bool ready) {
    if (ready == ready_ || fd_ < 0) return;
    ready_ = ready;
    uint64_t one = 1;
    const ssize_t done = ready ? write(fd_, &one, sizeof one) : read(fd_, &one, sizeof one);
    static_cast<void>(done);
  }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
  bool ready_ = false;
};

}  // namespace fake
