// SPDX-License-Identifier: BSD-2-Clause
// Acknowledgements between processes of one host; see mailbox.h.
#include "rxm/local/mailbox.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstring>

#include "base/socket.h"

namespace weft::rxm {
namespace {

// The system chooses names of six bytes, the first of which is zero: they are not names of files.
constexpr socklen_t kNameLen = offsetof(sockaddr_un, sun_path) + 6;
static_assert(6 <= std::tuple_size_v<MailboxName>);

}  // namespace

Status Mailbox::open() noexcept {
  UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return Status::last_errno();
  sockaddr_un own{};
  own.sun_family = AF_UNIX;
  if (const int error = net::bind(fd.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own.sun_family); error < 0)
    return Status(error);
  socklen_t len = sizeof own;
  if (const int error = net::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &len); error < 0)
    return Status(error);
  if (len != kNameLen) return Status(-EADDRNOTAVAIL);
  const int on = 1;
  if (::setsockopt(fd.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0) return Status::last_errno();
  std::memcpy(name_.data(), own.sun_path, kNameLen - offsetof(sockaddr_un, sun_path));
  fd_ = std::move(fd);
  return {};
}

bool Mailbox::post(const MailboxName& to, const Wakeup& wakeup) noexcept {
  if (!fd_ || to == MailboxName{}) return false;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, to.data(), kNameLen - offsetof(sockaddr_un, sun_path));
  return ::sendto(fd_.get(), &wakeup, sizeof wakeup, MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address),
                  kNameLen) == static_cast<ssize_t>(sizeof wakeup);
}

bool Mailbox::take(Wakeup& wakeup, pid_t& sender) noexcept {
  if (!fd_) return false;
  for (;;) {
    iovec bytes{&wakeup, sizeof wakeup};
    alignas(cmsghdr) std::byte control[CMSG_SPACE(sizeof(ucred))];
    msghdr message{};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const auto got = net::checked([&] { return ::recvmsg(fd_.get(), &message, MSG_TRUNC | MSG_CMSG_CLOEXEC); });
    if (got < 0) return false;
    if (got != static_cast<ssize_t>(sizeof wakeup)) continue;
    ucred credentials{};
    const cmsghdr* const added = CMSG_FIRSTHDR(&message);
    if (added != nullptr && added->cmsg_level == SOL_SOCKET && added->cmsg_type == SCM_CREDENTIALS)
      std::memcpy(&credentials, CMSG_DATA(added), sizeof credentials);
    sender = credentials.pid;
    return true;
  }
}

}  // namespace weft::rxm
