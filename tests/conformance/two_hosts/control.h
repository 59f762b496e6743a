// SPDX-License-Identifier: BSD-2-Clause
// The TCP connection between the two processes of a sentence about two hosts: lines of text. The client names the part
// and the target first; the server's last line is kDone or a reason.
#pragma once
#include <cstdint>
#include <string>

namespace two_hosts {

inline constexpr const char* kDone = "done";

class Control {
 public:
  explicit Control(int fd) : fd_(fd) {}
  Control(Control&& other) noexcept;
  Control& operator=(Control&&) = delete;
  ~Control();

  // Throws where no server answers.
  static Control connected_to(const std::string& host, uint16_t port);

  void say(const std::string& line);
  // Waits for a line, driving all queues. Throws at the end of the connection and after 30 seconds.
  std::string hear();
  void expect(const std::string& line);  // hears it, or throws what was heard
  // Numeric addresses of the two ends.
  std::string own_address() const;
  std::string peer_address() const;

 private:
  int fd_;
  std::string received_;
};

}  // namespace two_hosts
