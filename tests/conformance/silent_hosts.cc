// SPDX-License-Identifier: BSD-2-Clause
// A peer whose host is dead, or cannot be reached any more: the connection ends although bytes are under way, which the
// system repeats for a quarter of an hour; fi_tcp(7). Each test is a child in a network of its own, whose only
// interface goes down.
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "fixture/driver.h"
#include "fixture/node.h"
#include "fixture/parameter.h"

namespace silent_hosts {

CONFORMANCE_TOPIC(SilentHosts);

namespace {

constexpr int kNoNetwork = 77;

bool set_loopback(bool up) {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  bool done = ioctl(fd, SIOCGIFFLAGS, &request) == 0;
  request.ifr_flags = static_cast<short>(up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
  done = done && ioctl(fd, SIOCSIFFLAGS, &request) == 0;
  close(fd);
  return done;
}

// Runs `body` in a child with a network of its own. Its expectations fail the child.
template <class Body>
void expect_in_own_network(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0 || !set_loopback(true)) _exit(kNoNetwork);
    const Parameter silence("FI_TCP_KEEPALIVE", "1"), sockets("FI_TCP_SHARED_MEMORY", "0");
    body();
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoNetwork) GTEST_SKIP() << "the system allows no network namespace";
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

#define SOCKETS_ONLY() \
  if (!target().provider.starts_with("tcp")) GTEST_SKIP() << "tcp only"

}  // namespace

TEST_P(SilentHosts, EndAConnectionWithBytesUnderWay) {
  SOCKETS_ONLY();
  expect_in_own_network([this] {
    Fabric fabric(target());
    Pair pair(fabric);
    expect_exchange(pair);
    Buffer out(fabric, 64, 'x');
    Context sent;
    ASSERT_TRUE(set_loopback(false));
    iovec piece{out.data(), 64};
    void* desc = out.desc();
    const fi_msg message{&piece, &desc, 1, pair.a().peer, &sent, 0};
    ASSERT_EQ(fi_sendmsg(pair.a().ep(), &message, FI_DELIVERY_COMPLETE | FI_COMPLETION), 0);
    const auto start = Clock::now();
    const Completion failed = pair.a().tx().wait();
    EXPECT_NE(failed.err(), 0) << failed;
    EXPECT_EQ(failed.context(), &sent);
    EXPECT_GT(elapsed_ms(start), 1500);  // a short interruption ends nothing
    if (target().connected()) pair.a().eq().expect(FI_SHUTDOWN, pair.a().fid());
  });
}

TEST_P(SilentHosts, AnInterruptionEndsNothing) {
  SOCKETS_ONLY();
  expect_in_own_network([this] {
    Fabric fabric(target());
    Pair pair(fabric);
    expect_exchange(pair);
    Buffer out(fabric, 64, 'x'), in(fabric, 64);
    Context sent, received;
    ASSERT_EQ(pair.b().recv(in, 64, &received), 0);
    ASSERT_TRUE(set_loopback(false));
    ASSERT_EQ(pair.a().send(out, 64, &sent), 0);
    for (const auto end = after(milliseconds(1000)); Clock::now() < end;) driver::poke_and_rest();
    ASSERT_TRUE(set_loopback(true));
    EXPECT_TRUE(pair.b().rx().wait().ok());
    EXPECT_TRUE(pair.a().tx().wait().ok());
  });
}

// Its system answers the probes for room.
TEST_P(SilentHosts, APeerThatReadsNothingIsAlive) {
  SOCKETS_ONLY();
  if (!target().connected()) GTEST_SKIP() << "reliable datagrams are read, and stored";
  expect_in_own_network([this] {
    constexpr size_t kSize = 1 << 20;
    constexpr int kMost = 64;
    Fabric fabric(target());
    Pair pair(fabric);
    expect_exchange(pair);
    Buffer out(fabric, kSize, 'x'), in(fabric, kSize);
    std::vector<Context> sent(kMost), received(kMost);
    for (Context& context : sent) ASSERT_EQ(pair.a().send(out, kSize, &context), 0);
    for (const auto end = after(milliseconds(6000)); Clock::now() < end;) driver::poke_and_rest();
    for (Context& context : received) {
      ASSERT_EQ(pair.b().recv(in, kSize, &context), 0);
      ASSERT_TRUE(pair.b().rx().wait().ok());
    }
    for (int i = 0; i < kMost; ++i) ASSERT_TRUE(pair.a().tx().wait().ok());
  });
}

}  // namespace silent_hosts
