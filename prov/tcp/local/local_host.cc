// SPDX-License-Identifier: BSD-2-Clause
// Handing shared memory over; see local_host.h.
#include "tcp/local/local_host.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>

#include "base/standard_descriptors.h"
#include "tcp/logging.h"
#include "tcp/socket.h"

namespace weft::tcp {
namespace {

// The system chooses names of six bytes, the first of which is zero: they are not names of files.
constexpr std::size_t kNameBytes = 6;
constexpr socklen_t kNameLen = offsetof(sockaddr_un, sun_path) + kNameBytes;

constexpr int kMostDatagrams = 1024;  // read at once; a mailbox holds net.unix.max_dgram_qlen of them

// A datagram, with the credentials of its sender, and a descriptor.
struct Datagram {
  union Control {
    cmsghdr first;
    std::byte space[CMSG_SPACE(sizeof(ucred)) + CMSG_SPACE(sizeof(int))];
  };
  // Room for no descriptor.
  static constexpr std::size_t kCredentials = CMSG_SPACE(sizeof(ucred));

  Datagram(int mailbox, int flags, std::size_t room) noexcept {
    iovec bytes{&token, sizeof token};
    Control control{};
    msghdr message{};
    message.msg_name = &from;
    message.msg_namelen = sizeof from;
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = &control;
    message.msg_controllen = room;
    len =
        net::checked([&] { return ::recvmsg(mailbox, &message, flags | MSG_DONTWAIT | MSG_TRUNC | MSG_CMSG_CLOEXEC); });
    if (len < 0) return;
    from_len = message.msg_namelen;
    cut = (message.msg_flags & MSG_CTRUNC) != 0;
    for (cmsghdr* each = CMSG_FIRSTHDR(&message); each != nullptr; each = CMSG_NXTHDR(&message, each)) take(*each);
  }

  std::uint64_t token = 0;
  sockaddr_un from{};
  socklen_t from_len = 0;
  ssize_t len = 0;
  ucred sender{};
  UniqueFd memory;
  bool cut = false;  // there was no room for a descriptor

 private:
  void take(const cmsghdr& part) noexcept {
    if (part.cmsg_level != SOL_SOCKET) return;
    if (part.cmsg_type == SCM_CREDENTIALS) std::memcpy(&sender, CMSG_DATA(&part), sizeof sender);
    if (part.cmsg_type != SCM_RIGHTS) return;
    for (std::size_t at = CMSG_LEN(0); at + sizeof(int) <= part.cmsg_len; at += sizeof(int)) {
      int fd;
      std::memcpy(&fd, reinterpret_cast<const std::byte*>(&part) + at, sizeof fd);
      memory.reset(above_standard(fd));
    }
  }
};

// All users without a number in this user namespace appear under the same one.
bool is_our_user(uid_t user) noexcept {
  constexpr uid_t kWithoutNumber = 65534;
  return user == ::geteuid() && user != kWithoutNumber;
}

}  // namespace

// From the shutdown on nothing is added to the mailbox.
LocalHost::~LocalHost() {
  if (!fd_) return;
  net::shutdown(fd_.get(), SHUT_RD);
  read_mailbox();
}

bool LocalHost::open() noexcept {
  if (fd_ || failed_) return static_cast<bool>(fd_);
  UniqueFd fd;
  int error = net::open_mailbox();
  if (error >= 0) {
    fd.reset(error);
    sockaddr_un own{};
    socklen_t len = sizeof own;
    error = net::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &len);
    if (error >= 0 && len != kNameLen) error = -EADDRNOTAVAIL;
    std::memcpy(&name_, own.sun_path, kNameBytes);
  }
  failed_ = error < 0;
  if (failed_) {
    log_unshared(Status(error));
    return false;
  }
  fd_ = std::move(fd);
  return true;
}

std::optional<Invitation> LocalHost::invite(Recipient& recipient) noexcept {
  std::uint64_t token = 0;
  if (!open()) return std::nullopt;
  if (::getrandom(&token, sizeof token, GRND_NONBLOCK) != sizeof token || token == 0) {
    log_unshared(Status::last_errno());
    return std::nullopt;
  }
  expect(recipient, token);
  return Invitation{name_, token};
}

void LocalHost::expect(Recipient& recipient, std::uint64_t token) noexcept {
  recipient.token = token;
  if (!recipient.linked()) expected_.push_back(recipient);
}

int LocalHost::send(const Invitation& to, int memory) noexcept {
  if (!open()) return -EOPNOTSUPP;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, &to.mailbox, kNameBytes);
  std::uint64_t token = to.token;
  iovec bytes{&token, sizeof token};
  Datagram::Control control{};
  msghdr message{};
  message.msg_name = &address;
  message.msg_namelen = kNameLen;
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  if (memory >= 0) {
    message.msg_control = &control;
    message.msg_controllen = CMSG_SPACE(sizeof memory);
    control.first.cmsg_level = SOL_SOCKET;
    control.first.cmsg_type = SCM_RIGHTS;
    control.first.cmsg_len = CMSG_LEN(sizeof memory);
    std::memcpy(CMSG_DATA(&control.first), &memory, sizeof memory);
  }
  const auto sent = net::checked([&] { return ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT); });
  return static_cast<int>(sent < 0 ? sent : 0);
}

// The end of a descriptor may take as long as its sender likes (SO_LINGER), whether the descriptor is closed or dropped
// with its datagram. So one of another user stays where it is until the process exits, and the mailbox with it.
void LocalHost::read_mailbox() noexcept {
  for (int i = 0; fd_ && i < kMostDatagrams; ++i) {
    const Datagram next(fd_.get(), MSG_PEEK, Datagram::kCredentials);
    if (next.len < 0) return;
    const bool ours = is_our_user(next.sender.uid);
    static std::atomic_flag logged;
    if (!ours) log_once(logged, "a process of another user proposes to share memory", Status(-FI_EPERM));
    if (!ours && next.cut) {
      failed_ = true;
      (void)fd_.release();
      return log_unshared(Status(-FI_EPERM));
    }
    Datagram taken(fd_.get(), 0, sizeof(Datagram::Control));
    if (taken.len != sizeof taken.token || !ours) continue;
    std::uint64_t name = 0;
    if (taken.from_len == kNameLen) std::memcpy(&name, taken.from.sun_path, kNameBytes);
    deliver(taken.token, std::move(taken.memory), taken.sender.pid, name);
  }
}

void LocalHost::deliver(std::uint64_t token, UniqueFd memory, pid_t process, std::uint64_t from) noexcept {
  for (Recipient& each : expected_) {
    if (each.token != token) continue;
    each.unlink();
    return each.on_datagram(std::move(memory), process, from);
  }
}

}  // namespace weft::tcp
