// SPDX-License-Identifier: BSD-2-Clause
// Floods of short messages over many connections: a call for progress handles a part of them, so other peers are served
// meanwhile; docs/limits.md.
#include <sys/socket.h>

#include <ctime>
#include <deque>

#include "fixture/driver.h"
#include "fixture/member.h"
#include "fixture/parameter.h"
#include "fixture/process.h"
#include "fixture/raw_client.h"
#include "fixture/raw_peer.h"

namespace hostile_floods {

CONFORMANCE_TOPIC(HostileFloods);

namespace {

constexpr size_t kAttackers = 150;

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

// As many bytes as the system takes.
void fill(const raw::Socket& socket, const std::string& messages) {
  while (::send(socket.fd(), messages.data(), messages.size(), MSG_DONTWAIT | MSG_NOSIGNAL) ==
         static_cast<ssize_t>(messages.size())) {
  }
}

}  // namespace

TEST_P(HostileFloods, OneCallHandlesAPartOfThem) {
  if (target().provider != "tcp" || target().connected()) GTEST_SKIP() << "reliable datagrams of tcp only";
  const Parameter limit("FI_TCP_UNEXPECTED_BYTES", "400000000");
  Fabric fabric(target(), [](fi_info& hints) { hints.caps = FI_MSG | FI_TAGGED; });
  Pair bystanders(fabric);
  DatagramEnd victim(fabric);
  expect_exchange(bystanders);
  std::deque<raw::Socket> attackers;
  for (uint16_t port = 10; port < 10 + kAttackers; ++port) {
    raw::RawClient client(victim.address(), 1, port, port, 0);
    ASSERT_TRUE(client.accepted);
    attackers.push_back(std::move(client.socket));
  }
  std::string messages;
  while (messages.size() < 24'000) messages += raw::data_header(raw::kTagged, 24, 24) + raw::word(5);
  double longest = 0;
  for (int round = 0; round < 5; ++round) {
    for (const raw::Socket& each : attackers) fill(each, messages);
    for (int i = 0; i < 20; ++i) {
      const double begun = thread_seconds();
      fi_cq_tagged_entry entry;
      ASSERT_EQ(fi_cq_read(victim->rx().get(), &entry, 1), -FI_EAGAIN);
      longest = std::max(longest, thread_seconds() - begun);
    }
  }
  if (!kSanitized) {
    EXPECT_LE(longest, 1.5) << "seconds of the processor in one call";
  }
  expect_exchange(bystanders);
}

}  // namespace hostile_floods
