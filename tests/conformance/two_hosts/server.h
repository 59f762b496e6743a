// SPDX-License-Identifier: BSD-2-Clause
// fi_conform --serve: a process for each connection, which plays the part that the client names; fi_conform(1).
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>

#include "fixture/target.h"
#include "two_hosts/control.h"

namespace two_hosts {

inline constexpr const char* kServerVariable = "WEFT_CONFORMANCE_SERVER";  // "host port"
inline constexpr const char* kAnswerRole = "answer";

// Connects and disconnects; returns the reason of a failure, and the local address that reaches the host.
std::string reach(const std::string& host, uint16_t port, std::string& local_address);

// Returns 2 where the port is not free, otherwise never; each part has a limit of so many seconds.
int serve(uint16_t port, unsigned limit_s);

// The child's part: plays over the connection that it has inherited.
int answer();

// The client's end: a connection to the server of the environment, else to a server process of its own on this host.
class Session {
 public:
  Session(const Target& target, const std::string& part);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Control& control() { return control_; }
  void finish() { control_.expect(kDone); }  // throws the server's reason

 private:
  Control open(const Target& target);

  pid_t own_server_ = -1;
  Control control_;
};

}  // namespace two_hosts
