// SPDX-License-Identifier: BSD-2-Clause
// The seam to Linux; see socket.h.
#include "tcp/socket.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/standard_descriptors.h"

namespace weft::tcp::net {
namespace {

constexpr int kFlags = MSG_NOSIGNAL | MSG_DONTWAIT;

msghdr header(const iovec* iov, int count) noexcept {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(iov);
  message.msg_iovlen = static_cast<std::size_t>(count);
  return message;
}

}  // namespace

ssize_t send(int fd, const void* data, std::size_t len) noexcept {
  return checked([&] { return ::send(fd, data, len, kFlags); });
}

ssize_t sendv(int fd, const iovec* iov, int count) noexcept {
  const msghdr message = header(iov, count);
  return checked([&] { return ::sendmsg(fd, &message, kFlags); });
}

ssize_t recv(int fd, void* data, std::size_t len) noexcept {
  return checked([&] { return ::recv(fd, data, len, kFlags); });
}

ssize_t recvv(int fd, const iovec* iov, int count) noexcept {
  msghdr message = header(iov, count);
  return checked([&] { return ::recvmsg(fd, &message, kFlags); });
}

int open_stream(int family) noexcept {
  return checked([&] { return above_standard(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)); });
}

int connect(int fd, const sockaddr* address, socklen_t len) noexcept {
  // Not repeated: an interrupted connect continues in the background.
  if (::connect(fd, address, len) == 0) return 0;
  return errno == EINTR ? -EINPROGRESS : -errno;
}

int connect_result(int fd) noexcept {
  int error = 0;
  socklen_t len = sizeof error;
  const int got = checked([&] { return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len); });
  return got < 0 ? got : -error;
}

int listen(int fd, int backlog) noexcept {
  return checked([&] { return ::listen(fd, backlog); });
}

int accept(int fd, sockaddr* address, socklen_t* len) noexcept {
  return checked([&] { return above_standard(::accept4(fd, address, len, SOCK_NONBLOCK | SOCK_CLOEXEC)); });
}

bool acceptable(int fd) noexcept {
  pollfd listener{.fd = fd, .events = POLLIN, .revents = 0};
  return checked([&] { return ::poll(&listener, 1, 0); }) != 0;
}

int shutdown(int fd, int how) noexcept {
  return checked([&] { return ::shutdown(fd, how); });
}

bool is_read_empty(int fd) noexcept {
  std::byte next;
  return checked([&] { return ::recv(fd, &next, sizeof next, MSG_PEEK | MSG_DONTWAIT); }) == -EAGAIN;
}

bool is_delivered(int fd) noexcept {
  int left = 0;
  return ::ioctl(fd, SIOCOUTQ, &left) != 0 || left == 0;
}

bool has_unsent(int fd) noexcept {
  int left = 0;
  return ::ioctl(fd, SIOCOUTQNSD, &left) == 0 && left != 0;
}

// A peer that does not read is alive: its system answers probes. The counts fall to zero with every answer.
bool is_unanswered(int fd, std::chrono::seconds time) noexcept {
  constexpr unsigned kTries = 3;
  tcp_info info{};
  socklen_t len = sizeof info;
  return ::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 &&
         std::max(info.tcpi_retransmits, info.tcpi_probes) >= kTries &&
         std::chrono::milliseconds(info.tcpi_last_ack_recv) >= time;
}

int open_mailbox() noexcept {
  const int fd =
      checked([&] { return above_standard(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)); });
  if (fd < 0) return fd;
  const sockaddr any{.sa_family = AF_UNIX, .sa_data = {}};
  int result = set_option(fd, SOL_SOCKET, SO_PASSCRED, 1);
  if (result >= 0) result = net::bind(fd, &any, sizeof any.sa_family);
  if (result >= 0) return fd;
  ::close(fd);
  return result;
}

}  // namespace weft::tcp::net
