// SPDX-License-Identifier: BSD-2-Clause
// Owner of one file descriptor: closed exactly once, moved, never copied.
#pragma once

#include <unistd.h>

#include <utility>

#include "base/cancellation.h"

namespace weft {

class UniqueFd {
 public:
  UniqueFd() noexcept = default;
  explicit UniqueFd(int fd) noexcept : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    reset(other.release());
    return *this;
  }
  ~UniqueFd() { reset(); }

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  int release() noexcept { return std::exchange(fd_, -1); }
  void reset(int fd = -1) noexcept {
    // close() frees the descriptor even when it reports EINTR on Linux, so it is never repeated.
    if (fd_ >= 0) {
      const Uncancellable through;
      ::close(fd_);
    }
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace weft
