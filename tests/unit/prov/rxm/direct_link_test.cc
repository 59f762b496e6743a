// SPDX-License-Identifier: BSD-2-Clause
// Direct reads reach only the memory of the process that consents to them for this very connection, and only while that
// process keeps our proof. The other end is a forked child.
#include "rxm/local/direct_link.h"

#include <gtest/gtest.h>
#include <rdma/fi_errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

#include "base/unique_fd.h"

namespace weft::rxm {
namespace {

constexpr std::size_t kBytes = 200'000;

Address name_of(int fd, int (*call)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage name{};
  socklen_t len = sizeof name;
  EXPECT_EQ(call(fd, reinterpret_cast<sockaddr*>(&name), &len), 0);
  return Address::from(&name, len).value_or(Address());
}

// Both ends of a tcp connection.
struct Connection {
  explicit Connection(int family) : listener(::socket(family, SOCK_STREAM, 0)), ours(::socket(family, SOCK_STREAM, 0)) {
    Address any = Address::loopback(family, 0);
    EXPECT_EQ(::bind(listener.get(), any.data(), any.size()), 0);
    EXPECT_EQ(::listen(listener.get(), 1), 0);
    any = name_of(listener.get(), ::getsockname);
    EXPECT_EQ(::connect(ours.get(), any.data(), any.size()), 0);
    theirs.reset(::accept(listener.get(), nullptr, nullptr));
    local = name_of(ours.get(), ::getsockname);
    remote = name_of(ours.get(), ::getpeername);
  }
  UniqueFd listener, ours, theirs;
  Address local, remote;
};

class DirectLinkTest : public ::testing::Test {
 protected:
  DirectLinkTest() {
    ours_offer_ = ours_.offer().value();
    theirs_offer_ = theirs_.offer().value();
    theirs_.accept(ours_offer_);
    std::fill(source_.begin(), source_.end(), 'p');
    EXPECT_TRUE(box_.open().ok());
    EXPECT_TRUE(childs_box_.open().ok());
  }
  ~DirectLinkTest() override { kill(); }

  // From now on the child's `theirs_` and `source_` are another process's: it changes them, then waits for its end.
  template <class Change>
  void fork_other_end(Change change) {
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    child_ = ::fork();
    ASSERT_GE(child_, 0);
    if (child_ == 0) {
      std::fill(source_.begin(), source_.end(), 'c');
      change();
      [[maybe_unused]] const ssize_t written = ::write(ready[1], "", 1);
      for (;;) ::pause();
    }
    char told;
    EXPECT_EQ(::read(ready[0], &told, 1), 1);
    ::close(ready[0]);
    ::close(ready[1]);
    connection_.theirs.reset();
    theirs_offer_.process = static_cast<std::uint32_t>(child_);
    ours_.accept(theirs_offer_);
  }
  void kill() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    EXPECT_EQ(::waitpid(child_, nullptr, 0), child_);
    child_ = -1;
  }

  using State = DirectLink::State;
  // For the other end: consents to reads over a connection, `own` being the caller's end of it.
  void consent(const Address& own, const Address& peer) {
    EXPECT_TRUE(childs_box_.post(box_.name(), {theirs_.kept(), kConsent, own, peer}));
  }
  void consent() { consent(connection_.remote, connection_.local); }
  // Takes what was posted before the child reported that it is ready.
  State prove() {
    Wakeup wakeup;
    for (pid_t sender = 0; box_.take(wakeup, sender);)
      if (wakeup.message == kConsent) ours_.on_consent(wakeup, sender);
    ours_.prove(connection_.local, connection_.remote);
    return ours_.state();
  }
  Status read(std::size_t len = kBytes) {
    const iovec to[] = {{target_.data(), len / 3}, {target_.data() + len / 3, len - len / 3}};
    const iovec from{source_.data(), len};
    return ours_.read(to, {&from, 1});
  }
  bool arrived() const { return std::count(target_.begin(), target_.end(), 'c') == static_cast<long>(kBytes); }

  Connection connection_{AF_INET};
  Mailbox box_, childs_box_;
  DirectLink ours_, theirs_;
  DirectOffer ours_offer_, theirs_offer_;
  std::vector<char> source_ = std::vector<char>(kBytes), target_ = source_;
  pid_t child_ = -1;
};

TEST_F(DirectLinkTest, ReadsTheMemoryOfTheProcessAtTheOtherEnd) {
  fork_other_end([this] { consent(); });
  EXPECT_TRUE(ours_.mutual());
  ASSERT_EQ(prove(), State::kProven);
  ASSERT_EQ(read().code(), 0);
  EXPECT_TRUE(arrived());
  EXPECT_EQ(ours_.state(), DirectLink::State::kProven);
}

TEST_F(DirectLinkTest, ReadsNothingBeforeTheProof) {
  fork_other_end([this] { consent(); });
  EXPECT_EQ(read().code(), -FI_EINVAL);
  EXPECT_EQ(std::count(target_.begin(), target_.end(), 'c'), 0);
}

TEST_F(DirectLinkTest, WithoutConsentNothingIsProven) {
  fork_other_end([] {});
  EXPECT_EQ(prove(), State::kUnproven);
  EXPECT_EQ(read().code(), -FI_EINVAL);
}

// The peer, which is this process, names a third process: the child, which has the peer's socket and proof.
TEST_F(DirectLinkTest, ProcessThatWasHandedTheSocketIsRefused) {
  int channel[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM, 0, channel), 0);
  const auto message_with = [](iovec& byte, std::array<std::byte, CMSG_SPACE(sizeof(int))>& space) {
    msghdr message{};
    message.msg_iov = &byte;
    message.msg_iovlen = 1;
    message.msg_control = space.data();
    message.msg_controllen = space.size();
    return message;
  };
  char text = 's';
  iovec byte{&text, 1};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> space{};
  msghdr message = message_with(byte, space);
  cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  const int socket = connection_.theirs.get();
  std::memcpy(CMSG_DATA(rights), &socket, sizeof socket);
  ASSERT_EQ(::sendmsg(channel[0], &message, 0), 1);
  consent();  // by this process
  fork_other_end([&] {
    connection_.theirs.reset();
    msghdr arrived = message_with(byte, space);
    if (::recvmsg(channel[1], &arrived, 0) != 1 || CMSG_FIRSTHDR(&arrived) == nullptr) ::_exit(1);
  });
  EXPECT_EQ(prove(), State::kRefused);
  EXPECT_EQ(read().code(), -FI_EINVAL);
  EXPECT_EQ(std::count(target_.begin(), target_.end(), 'c'), 0);
  for (const int fd : channel) ::close(fd);
}

// The peer relays our proof to another process, which consents to reads over its own connection.
TEST_F(DirectLinkTest, ConsentForAnotherConnectionIsRefused) {
  Connection other(AF_INET);
  fork_other_end([&] { consent(other.remote, other.local); });
  EXPECT_EQ(prove(), State::kRefused);
  EXPECT_EQ(read().code(), -FI_EINVAL);
}

TEST_F(DirectLinkTest, ConsentWithAnotherProofIsIgnored) {
  fork_other_end([this] {
    EXPECT_TRUE(childs_box_.post(box_.name(), {Proof{1}, kConsent, connection_.remote, connection_.local}));
    EXPECT_TRUE(childs_box_.post(box_.name(), {Proof{}, kConsent, connection_.remote, connection_.local}));
  });
  EXPECT_EQ(prove(), State::kUnproven);
}

TEST_F(DirectLinkTest, FailsWhenTheOtherEndKeepsAnotherProof) {
  fork_other_end([this] {
    consent();
    theirs_.end();
  });
  ASSERT_EQ(prove(), State::kProven);
  EXPECT_EQ(read().code(), -FI_ECONNRESET);
  EXPECT_EQ(ours_.state(), DirectLink::State::kRefused);
  EXPECT_EQ(read().code(), -FI_EINVAL);
}

TEST_F(DirectLinkTest, FailsWhenTheProcessHasEnded) {
  fork_other_end([this] { consent(); });
  ASSERT_EQ(prove(), State::kProven);
  kill();
  EXPECT_EQ(read().code(), -ESRCH);
  EXPECT_EQ(ours_.state(), DirectLink::State::kRefused);
}

TEST_F(DirectLinkTest, FailsWhenPartOfTheMemoryIsNotMapped) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* pages = ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  fork_other_end([&] {
    consent();
    ::munmap(static_cast<char*>(pages) + page, page);
  });
  ASSERT_EQ(prove(), State::kProven);
  const iovec to{target_.data(), 2 * page}, from{pages, 2 * page};
  EXPECT_EQ(ours_.read({&to, 1}, {&from, 1}).code(), -FI_EFAULT);
  EXPECT_EQ(ours_.state(), DirectLink::State::kRefused);
  ::munmap(pages, 2 * page);
}

TEST(DirectOffers, AreFoundBehindOtherPrivateData) {
  DirectLink link;
  Introduction<AcceptData> said;
  said.offer = link.offer().value();
  constexpr std::size_t kEnd = sizeof said.data + sizeof said.offer;
  const auto found = direct_offer(&said, kEnd, sizeof said.data);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->proof, said.offer.proof);
  EXPECT_NE(found->proof, Proof{});
  EXPECT_FALSE(direct_offer(&said, kEnd - 1, sizeof said.data));
  EXPECT_FALSE(direct_offer(&said, sizeof said.data, sizeof said.data));
  said.offer.magic ^= 1;
  EXPECT_FALSE(direct_offer(&said, kEnd, sizeof said.data));
}

TEST(DirectOffers, AreMutualWhenBothEndsMadeOne) {
  DirectLink one, other;
  EXPECT_FALSE(one.mutual());
  const DirectOffer offer = one.offer().value();
  EXPECT_FALSE(one.mutual());
  other.accept(offer);
  EXPECT_FALSE(other.mutual());
  EXPECT_NE(other.offer()->proof, offer.proof);
  EXPECT_TRUE(other.mutual());
}

}  // namespace
}  // namespace weft::rxm
