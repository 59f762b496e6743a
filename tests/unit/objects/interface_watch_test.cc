// SPDX-License-Identifier: BSD-2-Clause
// Interfaces while they change: in a child process with a network of its own, which needs root or user namespaces.
#include "objects/interface_watch.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <new>
#include <string>

#include "../failing_allocations.h"

namespace weft {
namespace {

constexpr int kNoNetwork = 77;

int status_of_child(const std::function<bool()>& holds) {
  const pid_t child = ::fork();
  if (child == 0) {
    const bool own = ::unshare(CLONE_NEWNET) == 0 || ::unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0;
    ::_exit(!own ? kNoNetwork : holds() ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#define EXPECT_IN_OWN_NETWORK(holds)                                     \
  if (const int outcome = status_of_child(holds); outcome == kNoNetwork) \
    GTEST_SKIP() << "no right to make a network namespace";              \
  else                                                                   \
    EXPECT_EQ(outcome, 0)

bool set_loopback(bool up) {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM, 0));
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = static_cast<short>(up ? IFF_UP : 0);
  return ::ioctl(socket.get(), SIOCSIFFLAGS, &request) == 0;
}

bool add_address(const char* text) {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM, 0));
  ifreq request{};
  std::strcpy(request.ifr_name, "lo:1");
  auto* name = reinterpret_cast<sockaddr_in*>(&request.ifr_addr);
  name->sin_family = AF_INET;
  return ::inet_pton(AF_INET, text, &name->sin_addr) == 1 && ::ioctl(socket.get(), SIOCSIFADDR, &request) == 0;
}

bool has(InterfaceWatch& watch, const std::string& host) {
  const auto found = watch.interfaces().value();
  return std::any_of(found.begin(), found.end(),
                     [&](const Interface& each) { return each.address.host_string() == host; });
}

TEST(InterfaceWatch, AgreesWithTheSystem) {
  InterfaceWatch watch;
  for (int i = 0; i < 3; ++i) {
    const auto expected = local_interfaces().value();
    const auto found = watch.interfaces().value();
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t each = 0; each < found.size(); ++each) {
      EXPECT_EQ(found[each].name, expected[each].name);
      EXPECT_TRUE(found[each].address == expected[each].address);
    }
  }
}

TEST(InterfaceWatch, LackOfMemoryHasNoEffectOnTheNextAnswer) {
  const std::size_t expected = local_interfaces().value().size();
  test::fail_each_allocation([&](std::size_t nth, std::size_t count) {
    InterfaceWatch watch;
    bool failed = true;
    try {
      const test::FailingAllocation failure(nth, count);
      static_cast<void>(watch.interfaces());
      failed = failure.failed();
    } catch (const std::bad_alloc&) {
    }
    EXPECT_EQ(watch.interfaces().value().size(), expected) << nth;
    return failed;
  });
}

TEST(InterfaceWatch, ChangesShowAtOnce) {
  EXPECT_IN_OWN_NETWORK([] {
    InterfaceWatch watch;
    bool holds = watch.interfaces().value().empty() && watch.interfaces().value().empty();
    for (int i = 0; i < 100; ++i) {  // more announcements than are stored
      holds =
          holds && set_loopback(true) && has(watch, "127.0.0.1") && add_address("10.1.2.3") && has(watch, "10.1.2.3");
      holds = holds && has(watch, "127.0.0.1") && set_loopback(false) && watch.interfaces().value().empty();
      for (int each = 0; each < 10; ++each) holds = holds && set_loopback(true) && set_loopback(false);
    }
    return holds;
  });
}

TEST(InterfaceWatch, ParentAndChildBothSeeAChange) {
  EXPECT_IN_OWN_NETWORK([] {
    InterfaceWatch watch;
    if (!set_loopback(true) || !has(watch, "127.0.0.1")) return false;
    const pid_t child = ::fork();
    if (child == 0)
      ::_exit(has(watch, "127.0.0.1") && add_address("10.1.2.3") && has(watch, "10.1.2.3") && !has(watch, "10.1.2.4"));
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 1 && has(watch, "10.1.2.3") && has(watch, "10.1.2.3");
  });
}

TEST(InterfaceWatch, AnotherNetworkHasItsOwnInterfaces) {
  EXPECT_IN_OWN_NETWORK([] {
    InterfaceWatch watch;
    if (!set_loopback(true) || !has(watch, "127.0.0.1")) return false;
    return ::unshare(CLONE_NEWNET) == 0 && !has(watch, "127.0.0.1") && set_loopback(true) && has(watch, "127.0.0.1");
  });
}

}  // namespace
}  // namespace weft
