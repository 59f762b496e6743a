// SPDX-License-Identifier: BSD-2-Clause
// Ends that share memory wake each other through the socket; local_wire.h. A wake-up that the system cannot send once,
// for lack of memory, is sent later.
#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdarg>

#include "unit/prov/tcp/side.h"

namespace {
std::atomic<int> wake_up_error{0};  // that the next wake-up fails with
std::atomic<bool> unacknowledged{false};
}  // namespace

// Wake-ups are the only bytes that are sent alone.
extern "C" ssize_t send(int fd, const void* data, std::size_t len, int flags) {
  if (len == 1)
    if (const int error = wake_up_error.exchange(0); error != 0) {
      errno = error;
      return -1;
    }
  return syscall(SYS_sendto, fd, data, len, flags, nullptr, 0);
}

// The peer may have read the last wake-up, although its system has not acknowledged that yet.
extern "C" int ioctl(int fd, unsigned long request, ...) noexcept {
  va_list arguments;
  va_start(arguments, request);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  const long result = syscall(SYS_ioctl, fd, request, argument);
  if (result == 0 && request == SIOCOUTQ && unacknowledged) *static_cast<int*>(argument) = 1;
  return static_cast<int>(result);
}

namespace weft::tcp::testing {
namespace {

using namespace std::chrono_literals;

class LostWakeUp : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    server.listen();
    client.connect(server.listening_at());
    bool connected = false;
    EXPECT_TRUE(until([&] {
      Event event;
      if (server.poll(event) && event.number == FI_CONNREQ) server.accept(event);
      connected |= client.poll(event) && event.number == FI_CONNECTED;
      return connected && server.ep != nullptr;
    }));
  }
  template <class Condition>
  static bool until(Condition condition, std::chrono::milliseconds patience = 10s) {
    const auto end = std::chrono::steady_clock::now() + patience;
    while (std::chrono::steady_clock::now() < end)
      if (condition()) return true;
    return false;
  }
  static bool pass(Side& from, Side& to) {
    char byte = 0;
    EXPECT_EQ(fi_recv(to.ep, &byte, sizeof byte, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
    EXPECT_EQ(fi_inject(from.ep, "x", 1, FI_ADDR_UNSPEC), 0);
    return until([&] {
      Done done;
      while (from.poll(done)) {
      }
      return to.poll(done);
    });
  }

  Side client;
  Side server;
};

TEST_P(LostWakeUp, IsRepeated) {
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(pass(client, server));
    ASSERT_TRUE(pass(server, client));
  }
  // Connections that were idle for a while are not polled, but woken.
  EXPECT_FALSE(until(
      [&] {
        Done done;
        return client.poll(done) || server.poll(done);
      },
      200ms));
  wake_up_error = GetParam();
  unacknowledged = true;
  EXPECT_TRUE(pass(client, server));
  unacknowledged = false;
  if (wake_up_error.exchange(0) != 0) GTEST_SKIP() << "the ends share no memory";
}

INSTANTIATE_TEST_SUITE_P(Errors, LostWakeUp, ::testing::Values(EAGAIN, ENOBUFS, ENOMEM));

}  // namespace
}  // namespace weft::tcp::testing
