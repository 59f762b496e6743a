// SPDX-License-Identifier: BSD-2-Clause
// Announcements of changed interfaces; see interface_watch.h.
#include "objects/interface_watch.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/standard_descriptors.h"

namespace weft {
namespace {

// Announcements beyond its small buffer are lost, which the next receive reports: one announcement is enough.
UniqueFd subscribe() noexcept {
  UniqueFd socket(above_standard(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE)));
  sockaddr_nl name{};
  name.nl_family = AF_NETLINK;
  name.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  const int bytes = 1;  // the system's minimum
  if (socket && (::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes) != 0 ||
                 ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0))
    socket.reset();
  return socket;
}

}  // namespace

Result<std::vector<Interface>> InterfaceWatch::interfaces() {
  std::lock_guard lock(mutex_);
  if (unchanged()) return known_;
  UniqueFd announced = std::move(socket_);  // dropped if the list fails: memory may run out
  auto found = local_interfaces();          // changes from here on are announced to the next call
  if (found) {
    known_ = *found;
    socket_ = std::move(announced);
  }
  return found;
}

// False also for the first call. A child process shares its parent's socket and needs one of its own. So does another
// network namespace, which a thread may enter.
bool InterfaceWatch::unchanged() noexcept {
  struct stat network {};
  if (::stat("/proc/thread-self/ns/net", &network) != 0) network.st_ino = 0;
  const pid_t process = ::getpid();
  if (!socket_ || process != process_ || network.st_ino != network_ || network_ == 0) {
    process_ = process;
    network_ = network.st_ino;
    socket_ = subscribe();
    return false;
  }
  for (bool silent = true;; silent = false) {
    char announcement;
    if (::recv(socket_.get(), &announcement, sizeof announcement, 0) >= 0 || errno == ENOBUFS) continue;
    if (errno == EAGAIN) return silent;
    socket_.reset();
    return false;
  }
}

}  // namespace weft
