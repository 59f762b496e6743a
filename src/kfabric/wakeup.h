// SPDX-License-Identifier: BSD-2-Clause
// A descriptor that ends poll(2) of another thread: of the dispatcher, or of a wait for completions.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace weft::kfabric {

// Thread-safe once it is open.
class Wakeup {
 public:
  Wakeup() = default;
  Wakeup(const Wakeup&) = delete;
  Wakeup& operator=(const Wakeup&) = delete;
  ~Wakeup() {
    if (fd_ >= 0) ::close(fd_);
  }

  // 0, also if it is open; -errno.
  int open() {
    if (fd_ < 0) fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return fd_ < 0 ? -errno : 0;
  }
  // 0; -errno. A full counter wakes as well.
  int give() {
    const uint64_t one = 1;
    return write(fd_, &one, sizeof one) == sizeof one || errno == EAGAIN ? 0 : -errno;
  }
  // Whether it was given since the last take().
  bool take() {
    uint64_t given;
    return read(fd_, &given, sizeof given) > 0;
  }
  // -1 before open().
  int fd() const { return fd_; }

 private:
  int fd_ = -1;
};

}  // namespace weft::kfabric
