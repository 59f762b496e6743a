// SPDX-License-Identifier: BSD-2-Clause
// Keeps the library's descriptors away from 0, 1 and 2 in a process that has closed those, as daemons do. Otherwise the
// log and the output of the process would be sent to a peer; stdin(3).
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace weft {

// Returns a descriptor above 2 of the open file of `fd`, which is closed if the number changes. A negative `fd` is
// returned unchanged. -1 with errno: no descriptor is left.
inline int above_standard(int fd) noexcept {
  if (fd < 0 || fd > STDERR_FILENO) return fd;
  const int moved = ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int error = errno;
  ::close(fd);
  errno = error;
  return moved;
}

// While it exists, other libraries get descriptors above 2, too.
class StandardDescriptors {
 public:
  StandardDescriptors() noexcept {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd)
      if (::fcntl(fd, F_GETFD) < 0) held_[fd] = ::open("/dev/null", O_RDWR | O_CLOEXEC) == fd;
  }
  StandardDescriptors(const StandardDescriptors&) = delete;
  StandardDescriptors& operator=(const StandardDescriptors&) = delete;
  ~StandardDescriptors() {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd)
      if (held_[fd]) ::close(fd);
  }

 private:
  std::array<bool, STDERR_FILENO + 1> held_{};
};

}  // namespace weft
