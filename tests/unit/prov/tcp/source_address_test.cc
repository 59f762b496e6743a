// SPDX-License-Identifier: BSD-2-Clause
// Local addresses that no interface has which is up, but that the system lets a program bind; fi_getinfo(3), ip(7). In
// a network namespace of a child.
#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "base/unique_fd.h"
#include "unit/prov/tcp/side.h"

namespace weft::tcp::testing {
namespace {

constexpr int kNoNamespace = 2;

// The exit status of a child in a network namespace of its own; kNoNamespace if the system refuses.
template <class Body>
int in_namespace(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 ? body() : kNoNamespace);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool bring_loopback_up() {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  if (!socket || ioctl(socket.get(), SIOCGIFFLAGS, &request) != 0) return false;
  request.ifr_flags |= IFF_UP;
  return ioctl(socket.get(), SIOCSIFFLAGS, &request) == 0;
}

bool write_file(const char* path, const char* text) {
  FILE* const file = std::fopen(path, "w");
  if (file == nullptr) return false;
  const bool written = std::fputs(text, file) >= 0;
  return std::fclose(file) == 0 && written;
}

TEST(SourceAddress, LoopbackWhileItsInterfaceIsDown) {
  const int status = in_namespace([] { return source_info("127.0.0.1") != nullptr ? 0 : 1; });
  if (status == kNoNamespace) GTEST_SKIP() << "the system allows no network namespace";
  EXPECT_EQ(status, 0);
}

TEST(SourceAddress, AddressOfAnotherHostThatMayBeBound) {
  const int status = in_namespace([] {
    if (!bring_loopback_up()) return kNoNamespace;
    if (source_info("192.0.2.1") != nullptr) return 1;
    if (!write_file("/proc/sys/net/ipv4/ip_nonlocal_bind", "1")) return kNoNamespace;
    return source_info("192.0.2.1") != nullptr ? 0 : 1;
  });
  if (status == kNoNamespace) GTEST_SKIP() << "the system allows no network namespace, or not this setting";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace weft::tcp::testing
