// SPDX-License-Identifier: BSD-2-Clause
// See control.h.
#include "two_hosts/control.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "fixture/driver.h"
#include "fixture/handle.h"

namespace two_hosts {
namespace {

constexpr milliseconds kLongest{30'000};
constexpr size_t kLongestLine = 4096;

// An IPv4 client of a socket for both families is shown as IPv4.
std::string numeric(const sockaddr_storage& address, socklen_t size) {
  char text[NI_MAXHOST] = "";
  getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  const std::string whole = text;
  const std::string mapped = "::ffff:";
  return whole.starts_with(mapped) && whole.find('.') != std::string::npos ? whole.substr(mapped.size()) : whole;
}

}  // namespace

Control::Control(Control&& other) noexcept : fd_(std::exchange(other.fd_, -1)), received_(std::move(other.received_)) {}

Control::~Control() {
  if (fd_ >= 0) ::close(fd_);
}

Control Control::connected_to(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  require(error == 0, "host " + host + ": " + gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, &freeaddrinfo);
  std::string reason;
  for (const addrinfo* to = found; to; to = to->ai_next) {
    const int fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && ::connect(fd, to->ai_addr, to->ai_addrlen) == 0) {
      const int on = 1;
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      return Control(fd);
    }
    reason = std::strerror(errno);
    if (fd >= 0) ::close(fd);
  }
  require(false,
          "server " + host + " port " + std::to_string(port) + ": " + reason + "; is fi_conform --serve running?");
  return Control(-1);
}

void Control::say(const std::string& line) {
  const std::string text = line + "\n";
  require(::send(fd_, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()),
          "the other host has ended");
}

std::string Control::hear() {
  const auto deadline = after(kLongest);
  for (size_t end; (end = received_.find('\n')) == std::string::npos;) {
    char bytes[512];
    const ssize_t count = ::recv(fd_, bytes, sizeof bytes, MSG_DONTWAIT);
    require(count != 0 && (count > 0 || errno == EAGAIN), "the other host has ended");
    require(Clock::now() < deadline && received_.size() < kLongestLine, "the other host does not answer");
    if (count > 0)
      received_.append(bytes, static_cast<size_t>(count));
    else
      driver::poke_and_rest();
  }
  const size_t end = received_.find('\n');
  std::string line = received_.substr(0, end);
  received_.erase(0, end + 1);
  return line;
}

void Control::expect(const std::string& line) {
  const std::string heard = hear();
  require(heard == line, "the other host: " + heard);
}

std::string Control::own_address() const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
  return numeric(address, size);
}

std::string Control::peer_address() const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  getpeername(fd_, reinterpret_cast<sockaddr*>(&address), &size);
  return numeric(address, size);
}

}  // namespace two_hosts
