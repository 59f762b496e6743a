// SPDX-License-Identifier: BSD-2-Clause
// Mailboxes: descriptors that processes of other users send, whose end takes long.
#include "tcp/local/local_host.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <vector>

#include "tcp/socket.h"

namespace weft::tcp {
namespace {

using namespace std::chrono_literals;

constexpr uid_t kOtherUser = 12345;
constexpr int kLingersFor = 5;  // seconds

// A socket with bytes that its peer does not read: its end waits for kLingersFor.
struct SlowSocket {
  SlowSocket() {
    const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t len = sizeof name;
    EXPECT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&name), len), 0);
    EXPECT_EQ(::listen(listener.get(), 1), 0);
    EXPECT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&name), &len), 0);
    slow.reset(net::open_stream(AF_INET));
    net::connect(slow.get(), reinterpret_cast<sockaddr*>(&name), len);
    peer.reset(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const std::vector<std::byte> bytes(64 * 1024);
    while (net::send(slow.get(), bytes.data(), bytes.size()) > 0) continue;
    const linger how{1, kLingersFor};
    EXPECT_EQ(::setsockopt(slow.get(), SOL_SOCKET, SO_LINGER, &how, sizeof how), 0);
  }
  UniqueFd slow, peer;
};

// A process of another user sends the descriptor to the mailbox. False: this process may not become another user.
bool send_as_other_user(const Invitation& to, int fd) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(kOtherUser) != 0 || ::setuid(kOtherUser) != 0) ::_exit(1);
    constexpr std::size_t kNameBytes = 6;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, &to.mailbox, kNameBytes);
    std::uint64_t token = to.token;
    iovec bytes{&token, sizeof token};
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof fd)> control{};
    msghdr message{};
    message.msg_name = &address;
    message.msg_namelen = offsetof(sockaddr_un, sun_path) + kNameBytes;
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(part), &fd, sizeof fd);
    const int from = ::socket(AF_UNIX, SOCK_DGRAM, 0);
    ::_exit(::sendmsg(from, &message, 0) == sizeof token ? 0 : 2);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status == 0;
}

struct Expecting final : Recipient {
  void on_datagram(UniqueFd, pid_t, std::uint64_t) noexcept override { received = true; }
  bool received = false;
};

TEST(LocalHostTest, ADescriptorOfAnotherUserEndsElsewhere) {
  Clock::time_point begun;
  Expecting recipient;
  SlowSocket socket;
  {
    LocalHost host;
    const auto invitation = host.invite(recipient);
    ASSERT_TRUE(invitation);
    if (!send_as_other_user(*invitation, socket.slow.get())) GTEST_SKIP() << "needs root";
    if (!send_as_other_user(*invitation, socket.slow.get())) GTEST_SKIP() << "needs root";
    socket.slow.reset();  // its last references are in the mailbox
    begun = net::now();
    host.read_mailbox();
    host.read_mailbox();
    EXPECT_FALSE(host.invite(recipient)) << "the mailbox is of no use any more";
  }
  EXPECT_LT(net::now() - begun, 1s);
  EXPECT_FALSE(recipient.received);
}

TEST(LocalHostTest, TheEndOfAMailboxDoesNotWaitForDescriptors) {
  SlowSocket socket;
  Clock::time_point begun;
  Expecting recipient;
  {
    LocalHost host;
    const auto invitation = host.invite(recipient);
    ASSERT_TRUE(invitation);
    if (!send_as_other_user(*invitation, socket.slow.get())) GTEST_SKIP() << "needs root";
    socket.slow.reset();
    begun = net::now();
  }
  EXPECT_LT(net::now() - begun, 1s);
}

}  // namespace
}  // namespace weft::tcp
