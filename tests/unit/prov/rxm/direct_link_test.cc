// SPDX-License-Identifier: BSD-2-Clause
// Direct reads reach only the memory of the process that holds the other end of the connection, and only while that
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
#include <cstring>
#include <memory>
#include <vector>

#include "base/unique_fd.h"
#include "rxm/local/socket_owner.h"

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

  Status prove() { return ours_.prove(connection_.local, connection_.remote); }
  Status read(std::size_t len = kBytes) {
    const iovec to[] = {{target_.data(), len / 3}, {target_.data() + len / 3, len - len / 3}};
    const iovec from{source_.data(), len};
    return ours_.read(to, {&from, 1});
  }
  bool arrived() const { return std::count(target_.begin(), target_.end(), 'c') == static_cast<long>(kBytes); }

  Connection connection_{AF_INET};
  DirectLink ours_, theirs_;
  DirectOffer ours_offer_, theirs_offer_;
  std::vector<char> source_ = std::vector<char>(kBytes), target_ = source_;
  pid_t child_ = -1;
};

TEST_F(DirectLinkTest, ReadsTheMemoryOfTheProcessAtTheOtherEnd) {
  fork_other_end([] {});
  EXPECT_TRUE(ours_.mutual());
  ASSERT_EQ(prove().code(), 0);
  ASSERT_EQ(read().code(), 0);
  EXPECT_TRUE(arrived());
  EXPECT_EQ(ours_.state(), DirectLink::State::kProven);
}

TEST_F(DirectLinkTest, ReadsNothingBeforeTheProof) {
  fork_other_end([] {});
  EXPECT_EQ(read().code(), -FI_EINVAL);
  EXPECT_EQ(std::count(target_.begin(), target_.end(), 'c'), 0);
}

TEST_F(DirectLinkTest, AProcessWithoutTheConnectionIsRefused) {
  fork_other_end([this] { connection_.theirs.reset(); });
  // No process holds the other end any more.
  EXPECT_EQ(prove().code(), -FI_ENOENT);
  EXPECT_EQ(ours_.state(), DirectLink::State::kRefused);
  EXPECT_EQ(read().code(), -FI_EINVAL);
}

TEST_F(DirectLinkTest, AProcessThatNamesAnotherProcessIsRefused) {
  Connection other(AF_INET);
  fork_other_end([&] { other.theirs.reset(); });
  EXPECT_EQ(ours_.prove(other.local, other.remote).code(), -FI_EACCES);  // this process holds that end
  EXPECT_EQ(ours_.state(), DirectLink::State::kRefused);
}

TEST_F(DirectLinkTest, FailsWhenTheOtherEndKeepsAnotherProof) {
  fork_other_end([this] { theirs_.end(); });
  ASSERT_EQ(prove().code(), 0);
  EXPECT_EQ(read().code(), -FI_ECONNRESET);
  EXPECT_EQ(ours_.state(), DirectLink::State::kRefused);
  EXPECT_EQ(read().code(), -FI_EINVAL);
}

TEST_F(DirectLinkTest, FailsWhenTheProcessHasEnded) {
  fork_other_end([] {});
  ASSERT_EQ(prove().code(), 0);
  kill();
  EXPECT_EQ(read().code(), -ESRCH);
  EXPECT_EQ(ours_.state(), DirectLink::State::kRefused);
}

TEST_F(DirectLinkTest, FailsWhenPartOfTheMemoryIsNotMapped) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* pages = ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  fork_other_end([&] { ::munmap(static_cast<char*>(pages) + page, page); });
  ASSERT_EQ(prove().code(), 0);
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

TEST(SocketOwner, IsThisProcessForItsOwnConnections) {
  for (const int family : {AF_INET, AF_INET6}) {
    if (family == AF_INET6 && ::access("/proc/net/if_inet6", F_OK) != 0) continue;
    const Connection connection(family);
    EXPECT_EQ(holds_connection(::getpid(), connection.remote, connection.local).code(), 0);
    EXPECT_EQ(holds_connection(::getpid(), connection.local, connection.remote).code(), 0);
  }
}

TEST(SocketOwner, IsNotFoundWithoutAConnectionEvenIfAProcessListens) {
  const Connection connection(AF_INET);
  Address elsewhere = connection.local;
  elsewhere.set_port(1);
  EXPECT_EQ(holds_connection(::getpid(), connection.remote, elsewhere).code(), -FI_ENOENT);
  EXPECT_EQ(holds_connection(::getpid(), elsewhere, connection.local).code(), -FI_ENOENT);
  EXPECT_EQ(holds_connection(0, connection.remote, connection.local).code(), -FI_EINVAL);
}

}  // namespace
}  // namespace weft::rxm
