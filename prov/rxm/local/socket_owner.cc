// SPDX-License-Identifier: BSD-2-Clause
// Finds the process at the other end of a connection; see socket_owner.h.
#include "rxm/local/socket_owner.h"

#include <dirent.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <rdma/fi_errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <memory>

#include "base/socket.h"
#include "base/unique_fd.h"

namespace weft::rxm {
namespace {

constexpr std::uint8_t kEstablished = 1;  // TCP_ESTABLISHED

struct Question {
  nlmsghdr header{};
  inet_diag_req_v2 body{};
};
struct Answer {
  nlmsghdr header{};
  inet_diag_msg body{};
};

void put_address(const Address& address, __be16& port, __be32 (&host)[4]) noexcept {
  port = htons(address.port());
  if (address.family() == AF_INET)
    host[0] = reinterpret_cast<const sockaddr_in*>(address.data())->sin_addr.s_addr;
  else
    std::memcpy(host, &reinterpret_cast<const sockaddr_in6*>(address.data())->sin6_addr, sizeof host);
}

// The inode of the socket at `local` that is connected to `remote`.
Result<std::uint32_t> find_socket(const Address& local, const Address& remote) noexcept {
  const UniqueFd netlink(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!netlink) return failure(Status::last_errno());
  Question question;
  question.header.nlmsg_len = sizeof question;
  question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.header.nlmsg_flags = NLM_F_REQUEST;
  question.body.sdiag_family = static_cast<__u8>(local.family());
  question.body.sdiag_protocol = IPPROTO_TCP;
  question.body.idiag_states = 1U << kEstablished;
  put_address(local, question.body.id.idiag_sport, question.body.id.idiag_src);
  put_address(remote, question.body.id.idiag_dport, question.body.id.idiag_dst);
  question.body.id.idiag_cookie[0] = question.body.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  const auto sent = net::checked([&] { return ::send(netlink.get(), &question, sizeof question, 0); });
  if (sent < 0) return failure(Status(static_cast<int>(sent)));
  alignas(Answer) std::byte bytes[1024];
  const auto got = net::checked([&] { return ::recv(netlink.get(), bytes, sizeof bytes, MSG_DONTWAIT); });
  if (got < 0) return failure(Status(static_cast<int>(got)));
  Answer answer;
  if (static_cast<std::size_t>(got) < sizeof answer) return failure(FI_ENOENT);
  std::memcpy(&answer, bytes, sizeof answer);
  // Without a connection the system returns a listener at that address.
  const bool found = answer.header.nlmsg_type == SOCK_DIAG_BY_FAMILY && answer.body.idiag_state == kEstablished &&
                     answer.body.id.idiag_dport == question.body.id.idiag_dport && answer.body.idiag_inode != 0;
  if (!found) return failure(FI_ENOENT);
  return answer.body.idiag_inode;
}

}  // namespace

Status holds_connection(pid_t process, const Address& local, const Address& remote) noexcept {
  if (process <= 0 || !local || local.family() != remote.family()) return Status(-FI_EINVAL);
  const auto number = find_socket(local, remote);
  if (!number) return number.error();
  char wanted[32], link[32], path[32];
  std::snprintf(wanted, sizeof wanted, "socket:[%u]", *number);
  std::snprintf(path, sizeof path, "/proc/%d/fd", process);
  const std::unique_ptr<DIR, int (*)(DIR*)> descriptors(::opendir(path), ::closedir);
  if (descriptors == nullptr) return Status::last_errno();
  while (const dirent* entry = ::readdir(descriptors.get())) {
    const ssize_t len = ::readlinkat(::dirfd(descriptors.get()), entry->d_name, link, sizeof link - 1);
    if (len <= 0) continue;
    link[len] = '\0';
    if (std::strcmp(link, wanted) == 0) return {};
  }
  return Status(-FI_EACCES);
}

}  // namespace weft::rxm
