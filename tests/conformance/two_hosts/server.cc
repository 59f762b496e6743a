// SPDX-License-Identifier: BSD-2-Clause
// See server.h.
#include "two_hosts/server.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <sstream>
#include <vector>

#include "fixture/handle.h"
#include "fixture/own_program.h"
#include "two_hosts/parts.h"

namespace two_hosts {
namespace {

constexpr int kInherited = 3;  // the connection of a child
constexpr const char* kGreeting = "fi_conform-1";

// A listening socket for both families where the host has IPv6. Port 0: any, which is then in `port`.
int listening_socket(uint16_t& port) {
  int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool both = fd >= 0;
  if (!both) fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1, off = 0;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (both) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  sockaddr_in6 any{};  // the port is where sockaddr_in has it
  any.sin6_family = both ? AF_INET6 : AF_INET;
  any.sin6_port = htons(port);
  socklen_t size = both ? sizeof any : sizeof(sockaddr_in);
  auto* const address = reinterpret_cast<sockaddr*>(&any);
  if (bind(fd, address, size) != 0 || listen(fd, 64) != 0 || getsockname(fd, address, &size) != 0) {
    ::close(fd);
    return -1;
  }
  port = ntohs(any.sin6_port);
  return fd;
}

// Starts this program in a role, with `fd` as descriptor 3.
pid_t start(const char* role, int fd, unsigned limit_s) {
  std::vector<std::string> variables{std::string("WEFT_CONFORMANCE_ROLE=") + role,
                                     "FI_CONFORM_LIMIT=" + std::to_string(limit_s)};
  std::vector<char*> envp;
  for (std::string& variable : variables) envp.push_back(variable.data());
  for (char** inherited = environ; *inherited; ++inherited) envp.push_back(*inherited);
  envp.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, fd, kInherited);
  pid_t pid = -1;
  if (spawn_own_program(pid, actions, nullptr, {}, envp) != 0) pid = -1;
  posix_spawn_file_actions_destroy(&actions);
  return pid;
}

// Plays parts until the process ends.
int serve_socket(int listener, unsigned limit_s) {
  constexpr int kReapMs = 1000;
  for (;;) {
    pollfd item{listener, POLLIN, 0};
    poll(&item, 1, kReapMs);
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    if (!(item.revents & POLLIN)) continue;
    const int client = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) continue;
    start(kAnswerRole, client, limit_s);
    ::close(client);
  }
}

unsigned limit_from_environment() {
  const char* const limit = std::getenv("FI_CONFORM_LIMIT");
  return limit ? static_cast<unsigned>(std::atoi(limit)) : 60;
}

}  // namespace

std::string reach(const std::string& host, uint16_t port, std::string& local_address) {
  try {
    Control control = Control::connected_to(host, port);
    local_address = control.own_address();
    control.say(std::string(kGreeting) + " none");
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

int serve(uint16_t port, unsigned limit_s) {
  const int listener = listening_socket(port);
  if (listener < 0) {
    std::fprintf(stderr, "fi_conform: port %u: %s\n", port, std::strerror(errno));
    return 2;
  }
  std::printf("serving on port %u\n", port);
  std::fflush(stdout);
  return serve_socket(listener, limit_s);
}

int answer() {
  alarm(limit_from_environment());
  Control control(kInherited);
  std::string reason = kDone;
  try {
    std::istringstream words(control.hear());
    std::string greeting, part, provider, type;
    words >> greeting >> part;
    require(greeting == kGreeting, "another version of fi_conform");
    if (part == "none") return 0;
    words >> type >> std::ws;
    std::getline(words, provider);
    const std::string own = control.own_address();
    const auto ep_type = type == "msg" ? FI_EP_MSG : type == "rdm" ? FI_EP_RDM : FI_EP_DGRAM;
    play(part, {provider, ep_type, own.find(':') == std::string::npos ? FI_SOCKADDR_IN : FI_SOCKADDR_IN6, own},
         control);
    if (testing::Test::HasFailure()) reason = "an expectation of part " + part + " failed there";
  } catch (const std::exception& error) {
    reason = error.what();
  }
  try {
    control.say(reason);
  } catch (const std::exception&) {
    return 1;  // the client has ended
  }
  return reason == kDone ? 0 : 1;
}

Session::Session(const Target& target, const std::string& part) : control_(open(target)) {
  const char* const type = target.ep_type == FI_EP_MSG ? "msg" : target.ep_type == FI_EP_RDM ? "rdm" : "dgram";
  control_.say(std::string(kGreeting) + " " + part + " " + type + " " + target.provider);
}

Session::~Session() {
  if (own_server_ > 0) waitpid(own_server_, nullptr, 0);
}

Control Session::open(const Target& target) {
  const char* const server = std::getenv(kServerVariable);
  char host[256] = "";
  unsigned port = 0;
  if (server && std::sscanf(server, "%255s %u", host, &port) == 2)
    return Control::connected_to(host, static_cast<uint16_t>(port));
  // A server for one connection: it is accepted here, and a child gets it.
  uint16_t own_port = 0;
  const int listener = listening_socket(own_port);
  require(listener >= 0, "a control socket");
  Control control = Control::connected_to(target.address, own_port);
  const int accepted = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  ::close(listener);
  own_server_ = start(kAnswerRole, accepted, limit_from_environment());
  ::close(accepted);
  require(own_server_ > 0, "a server process");
  return control;
}

}  // namespace two_hosts
