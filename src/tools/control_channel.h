// SPDX-License-Identifier: BSD-2-Clause
// The TCP connection that two fi_pingpong programs use before and between tests; fi_pingpong(1). Its bytes, the same
// for every fi_pingpong:
//   endpoint name   4 bytes length (big-endian), 4 bytes address format (the sender's byte order), the name itself;
//                   the server's first, then, unless the endpoint is of type msg, the client's
//   start of a test "q\0" from the client, "a\0" from the server
//   end of a test   the number of messages in decimal, 10 bytes filled up with NUL, from the client;
//                   "cnt ok\0" from the server
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "failure.h"
#include "watch.h"

namespace weft::tools {

inline constexpr uint16_t kControlPort = 47592;

// The name of an endpoint, as fi_getname returns it.
struct EndpointName {
  uint32_t format = 0;  // FI_SOCKADDR_IN ...
  std::vector<std::byte> bytes;
};

// Owner of a socket; -1: none.
class Socket {
 public:
  explicit Socket(int fd) noexcept : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&&) = delete;
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const noexcept { return fd_; }

 private:
  int fd_;
};

// Owns the socket; `watch` must outlive it. Movable, not copyable, not thread-safe.
class ControlChannel {
 public:
  // Waits for one client. Port 0 takes any free port; `listening` is called with the port in use as soon as clients can
  // connect.
  static Result<ControlChannel> accept_one(uint16_t port, bool only_ipv6, Watch& watch,
                                           const std::function<void(uint16_t)>& listening);
  // Tries every address of `host` in turn, and repeats that for `patience` while none accepts.
  static Result<ControlChannel> connect_to(const std::string& host, uint16_t port, uint16_t source_port, bool only_ipv6,
                                           std::chrono::seconds patience, Watch& watch);

  ControlChannel(ControlChannel&&) noexcept = default;
  ~ControlChannel();

  Status send_name(const EndpointName& name);
  Result<EndpointName> receive_name();

  // Both sides agree on the start of a test.
  Status request_start();
  Status confirm_start();
  // The client reports its number of messages to the server.
  Status report_count(uint64_t sent);
  Result<uint64_t> receive_count();

  // The numeric local address, by which the peer reaches this host.
  Result<std::string> local_address() const;

 private:
  ControlChannel(Socket socket, Watch& watch);

  Status send_all(std::span<const std::byte> bytes);
  Status receive_all(std::span<std::byte> bytes);
  Status expect(std::string_view text, std::string_view fault);

  Socket socket_;
  Watch* watch_;
};

}  // namespace weft::tools
