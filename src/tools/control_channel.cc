// SPDX-License-Identifier: BSD-2-Clause
// The control connection; see control_channel.h.
#include "control_channel.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <thread>

namespace weft::tools {
namespace {

// Each with its NUL.
constexpr std::string_view kStartRequest("q", 2), kStartReply("a", 2), kCountOk("cnt ok", 7);
constexpr std::size_t kCountBytes = 10;
constexpr std::size_t kLongestName = 4096;  // far above every address format; a longer one is not from a fi_pingpong
constexpr auto kRetryPause = std::chrono::milliseconds(50);

void set_option(int fd, int level, int option, int value) {
  setsockopt(fd, level, option, &value, sizeof value);
}

// Detects a host that vanished silently after about ten seconds.
void detect_dead_peer(int fd) {
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 4);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 10000);
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
}

// Waits until `fd` is ready for `events` or the watch ends the wait.
Status wait_for(int fd, short events, Watch& watch) {
  while (true) {
    pollfd item{fd, events, 0};
    if (poll(&item, 1, Watch::kPollMs) > 0) return {};
    WEFT_TRY(watch.check());
  }
}

Status bind_to(int fd, int family, uint16_t port) {
  static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
  sockaddr_in6 any{};
  any.sin6_family = static_cast<sa_family_t>(family);
  any.sin6_port = htons(port);
  const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof any;
  set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  if (bind(fd, reinterpret_cast<sockaddr*>(&any), size) == 0) return {};
  const int error = errno;
  return fail(error, "control port {}: {}{}", port, std::strerror(error),
              error == EADDRINUSE ? "; is another fi_pingpong running? -B takes another port" : "");
}

uint16_t port_of(int fd) {
  sockaddr_in6 address{};
  socklen_t size = sizeof address;
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin6_port);
}

// A listening socket, for both address families where the host has IPv6.
Result<Socket> listening_socket(uint16_t port, bool only_ipv6) {
  int family = AF_INET6;
  int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 && !only_ipv6) fd = socket(family = AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return fail(errno, "control socket: {}", std::strerror(errno));
  Socket listener(fd);
  if (family == AF_INET6) set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, only_ipv6);
  WEFT_TRY(bind_to(fd, family, port));
  if (listen(fd, 1) != 0) return fail(errno, "control port {}: listen: {}", port, std::strerror(errno));
  return listener;
}

// Tries one address once.
Result<Socket> connect_socket(const addrinfo& to, uint16_t source_port, Watch& watch) {
  const int fd = socket(to.ai_family, to.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, to.ai_protocol);
  if (fd < 0) return fail(errno, "{}", std::strerror(errno));
  Socket connection(fd);
  if (source_port) WEFT_TRY(bind_to(fd, to.ai_family, source_port));
  int error = connect(fd, to.ai_addr, to.ai_addrlen) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    WEFT_TRY(wait_for(fd, POLLOUT, watch));
    socklen_t size = sizeof error;
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  }
  if (error) return fail(error, "{}", std::strerror(error));
  return connection;
}

}  // namespace

ControlChannel::ControlChannel(Socket socket, Watch& watch) : socket_(std::move(socket)), watch_(&watch) {
  detect_dead_peer(socket_.get());
  watch_->follow_socket(socket_.get());
}

ControlChannel::~ControlChannel() {
  if (socket_.get() >= 0) watch_->follow_socket(-1);
}

Result<ControlChannel> ControlChannel::accept_one(uint16_t port, bool only_ipv6, Watch& watch,
                                                  const std::function<void(uint16_t)>& listening) {
  WEFT_TRY_FOR(listener, listening_socket(port, only_ipv6));
  listening(port_of(listener.get()));
  watch.step("waiting for a client", Watch::Peer::kMayIdle);
  WEFT_TRY(wait_for(listener.get(), POLLIN, watch));
  Socket client(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (client.get() < 0) return fail(errno, "accepting the client: {}", std::strerror(errno));
  return ControlChannel(std::move(client), watch);
}

Result<ControlChannel> ControlChannel::connect_to(const std::string& host, uint16_t port, uint16_t source_port,
                                                  bool only_ipv6, std::chrono::seconds patience, Watch& watch) {
  addrinfo hints{};
  hints.ai_family = only_ipv6 ? AF_INET6 : AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found); error != 0)
    return fail(FI_EHOSTUNREACH, "server {}: {}", host, gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, &freeaddrinfo);

  watch.step(fmt::format("connecting to {} port {}", host, port));
  const Clock::time_point give_up = Clock::now() + patience;
  while (true) {
    Failure last{FI_EHOSTUNREACH, "no address found"};
    for (const addrinfo* to = found; to; to = to->ai_next) {
      Result<Socket> socket = connect_socket(*to, source_port, watch);
      if (socket) return ControlChannel(std::move(*socket), watch);
      last = socket.error();
    }
    WEFT_TRY(watch.check());
    if (Clock::now() >= give_up) {
      const char* advice = last.error == FI_ECONNREFUSED ? "; is the server running?" : "";
      return fail(last.error, "server {}, control port {}: {}{}", host, port, last.what, advice);
    }
    std::this_thread::sleep_for(kRetryPause);
  }
}

Status ControlChannel::send_all(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t size = send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (size > 0)
      bytes = bytes.subspan(static_cast<std::size_t>(size));
    else if (errno == EAGAIN)
      WEFT_TRY(wait_for(socket_.get(), POLLOUT, *watch_));
    else if (errno != EINTR)
      return fail(errno, "control connection: {}", std::strerror(errno));
  }
  return {};
}

Status ControlChannel::receive_all(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t size = recv(socket_.get(), bytes.data(), bytes.size(), 0);
    if (size > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(size));
      watch_->peer_active();
    } else if (size == 0) {
      return fail(FI_ECONNRESET, "control connection closed by the peer, which should have printed the reason");
    } else if (errno == EAGAIN) {
      WEFT_TRY(wait_for(socket_.get(), POLLIN, *watch_));
    } else if (errno != EINTR) {
      return fail(errno, "control connection: {}", std::strerror(errno));
    }
  }
  return {};
}

Status ControlChannel::send_name(const EndpointName& name) {
  const uint32_t size = htonl(static_cast<uint32_t>(name.bytes.size()));
  WEFT_TRY(send_all(std::as_bytes(std::span(&size, 1))));
  WEFT_TRY(send_all(std::as_bytes(std::span(&name.format, 1))));
  return send_all(name.bytes);
}

Result<EndpointName> ControlChannel::receive_name() {
  watch_->step("waiting for the peer's endpoint name");
  EndpointName name;
  uint32_t size = 0;
  WEFT_TRY(receive_all(std::as_writable_bytes(std::span(&size, 1))));
  size = ntohl(size);
  if (size == 0 || size > kLongestName)
    return fail(FI_EIO, "the peer sent an endpoint name of {} bytes: is the peer a fi_pingpong?", size);
  WEFT_TRY(receive_all(std::as_writable_bytes(std::span(&name.format, 1))));
  name.bytes.resize(size);
  WEFT_TRY(receive_all(name.bytes));
  return name;
}

// Waits for `text`; `fault` names what the peer did instead.
Status ControlChannel::expect(std::string_view text, std::string_view fault) {
  std::string answer(text.size(), '\0');
  WEFT_TRY(receive_all(std::as_writable_bytes(std::span(answer))));
  if (answer != text) return fail(FI_EIO, "{}", fault);
  return {};
}

Status ControlChannel::request_start() {
  watch_->step("waiting for the server to start the test");
  WEFT_TRY(send_all(std::as_bytes(std::span(kStartRequest))));
  return expect(kStartReply, "the server is out of step: it did not confirm the start of a test");
}

Status ControlChannel::confirm_start() {
  watch_->step("waiting for the client to start the test");
  WEFT_TRY(expect(kStartRequest, "the client is out of step: it did not request the start of a test"));
  return send_all(std::as_bytes(std::span(kStartReply)));
}

Status ControlChannel::report_count(uint64_t sent) {
  watch_->step("waiting for the server to confirm the test");
  std::array<char, kCountBytes> text{};
  std::to_chars(text.data(), text.data() + text.size(), sent);
  WEFT_TRY(send_all(std::as_bytes(std::span(text))));
  return expect(kCountOk, "the server is out of step: it did not confirm the test");
}

Result<uint64_t> ControlChannel::receive_count() {
  watch_->step("waiting for the client to end the test");
  std::array<char, kCountBytes> text{};
  WEFT_TRY(receive_all(std::as_writable_bytes(std::span(text))));
  uint64_t count = 0;
  auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || (stop != text.data() + text.size() && *stop != 0))
    return fail(FI_EIO, "the client is out of step: it did not report its number of messages");
  WEFT_TRY(send_all(std::as_bytes(std::span(kCountOk))));
  return count;
}

Result<std::string> ControlChannel::local_address() const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  char text[NI_MAXHOST];
  getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &size);
  if (int error =
          getnameinfo(reinterpret_cast<sockaddr*>(&address), size, text, sizeof text, nullptr, 0, NI_NUMERICHOST))
    return fail(FI_EIO, "control connection: {}", gai_strerror(error));
  constexpr std::string_view kMapped = "::ffff:";  // an IPv4 client of a socket for both families
  const std::string_view plain(text);
  return std::string(plain.starts_with(kMapped) && plain.find('.') != plain.npos ? plain.substr(kMapped.size())
                                                                                 : plain);
}

}  // namespace weft::tools
