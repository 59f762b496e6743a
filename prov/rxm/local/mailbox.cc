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

bool Mailbox::take(Wakeup& wakeup) noexcept {
  if (!fd_) return false;
  for (;;) {
    const auto got = net::checked([&] { return ::recv(fd_.get(), &wakeup, sizeof wakeup, MSG_TRUNC); });
    if (got < 0) return false;
    if (got == static_cast<ssize_t>(sizeof wakeup)) return true;
  }
}

}  // namespace weft::rxm
