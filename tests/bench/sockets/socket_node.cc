// SPDX-License-Identifier: BSD-2-Clause
// One side of a measurement over plain sockets; see socket_node.h.
#include "sockets/socket_node.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "process/process_pair.h"

namespace bench {
namespace {

constexpr int kBacklog = 4096;
constexpr int kEvents = 256;
using Hello = std::array<char, 32>;  // the size of a request or response on the wire of the tcp provider

void set_no_delay(int fd) {
  const int on = 1;
  check("TCP_NODELAY", setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
}

void send_hello(int fd) {
  const Hello hello{};
  if (check("send", send(fd, hello.data(), hello.size(), MSG_NOSIGNAL)) != sizeof hello) fail("short hello");
}

// Spins until a hello has arrived; false when the peer has closed instead.
bool take_hello(int fd) {
  Hello hello;
  for (;;) {
    const ssize_t n = recv(fd, hello.data(), hello.size(), MSG_DONTWAIT);
    if (n == sizeof hello) return true;
    if (n == 0) return false;
    if (n > 0) fail("short hello");
    if (errno != EAGAIN) check("recv", n);
  }
}

}  // namespace

SocketNode::SocketNode(Role role, Wait wait, Channel& channel) : role_(role), wait_(wait) {
  epoll_ = static_cast<int>(check("epoll_create1", epoll_create1(0)));
  address_.sin_family = AF_INET;
  address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (role == Role::kClient) {
    address_.sin_port = static_cast<in_port_t>(channel.get());
    return;
  }
  listener_ = static_cast<int>(check("socket", ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)));
  check("bind", bind(listener_, reinterpret_cast<sockaddr*>(&address_), sizeof address_));
  check("listen", listen(listener_, kBacklog));
  socklen_t length = sizeof address_;
  check("getsockname", getsockname(listener_, reinterpret_cast<sockaddr*>(&address_), &length));
  channel.put(address_.sin_port);
}

SocketNode::~SocketNode() {
  for (const int fd : sockets_) close(fd);
  if (listener_ >= 0) close(listener_);
  close(epoll_);
}

void SocketNode::establish(std::size_t count, std::size_t outstanding) {
  const auto make = [&](std::size_t n) { role_ == Role::kServer ? accept(n) : connect(n, outstanding); };
  make(1);
  make(count - 1);
}

void SocketNode::watch(int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  check("epoll_ctl", epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event));
}

int SocketNode::start_connect() {
  const int fd = static_cast<int>(check("socket", ::socket(AF_INET, SOCK_STREAM, 0)));
  set_no_delay(fd);
  check("connect", ::connect(fd, reinterpret_cast<sockaddr*>(&address_), sizeof address_));
  send_hello(fd);
  return fd;
}

// On loopback connect() returns at once: the kernel answers for the listener, and the hello takes the time.
void SocketNode::connect(std::size_t count, std::size_t outstanding) {
  std::size_t started = 0;
  for (std::size_t connected = 0; connected < count;) {
    for (; started < count && started - connected < outstanding; ++started) {
      sockets_.push_back(start_connect());
      watch(sockets_.back());
    }
    epoll_event ready[kEvents];
    const auto n = check("epoll_wait", epoll_wait(epoll_, ready, kEvents, 0));
    for (long i = 0; i < n; ++i)
      if (take_hello(ready[i].data.fd)) ++connected;
  }
}

void SocketNode::accept(std::size_t count) {
  for (std::size_t connected = 0; connected < count;) {
    for (int fd; (fd = accept4(listener_, nullptr, nullptr, 0)) >= 0;) {
      set_no_delay(fd);
      sockets_.push_back(fd);
      watch(fd);
    }
    epoll_event ready[kEvents];
    const auto n = check("epoll_wait", epoll_wait(epoll_, ready, kEvents, 0));
    for (long i = 0; i < n; ++i) {
      if (!take_hello(ready[i].data.fd)) fail("the peer left");
      send_hello(ready[i].data.fd);
      ++connected;
    }
  }
}

void SocketNode::serve_short_connections(std::size_t count) {
  for (std::size_t served = 0; served < count;) {
    const int fd = accept4(listener_, nullptr, nullptr, 0);
    if (fd < 0) continue;
    set_no_delay(fd);
    take_hello(fd);
    send_hello(fd);
    if (take_hello(fd)) fail("the peer should have left");
    close(fd);
    ++served;
  }
}

void SocketNode::connect_and_close() {
  const int fd = start_connect();
  if (!take_hello(fd)) fail("the peer left");
  close(fd);
}

}  // namespace bench
