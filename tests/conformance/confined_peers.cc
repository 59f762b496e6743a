// SPDX-License-Identifier: BSD-2-Clause
// Processes of one host that may not do everything: calls that a container denies, other users and namespaces, small
// limits; peers that are stopped; many of them. fi_tcp(7): messages then take another way, and nobody notices.
#include <cstdio>
#include <cstring>
#include <deque>
#include <fstream>
#include <memory>

#include "fixture/child.h"
#include "fixture/driver.h"
#include "fixture/member.h"
#include "fixture/process.h"

namespace confined_peers {

CONFORMANCE_TOPIC(ConfinedPeers);

namespace {

#define CONFINED_PEERS_ONLY() \
  if (!target().provider.starts_with("tcp") || target().connected()) GTEST_SKIP() << "RDM over tcp only"

constexpr std::chrono::seconds kLong{60};
constexpr size_t kLengths[] = {0, 8, 4096, 16384, 40000, size_t{1} << 20};
constexpr uint64_t kToChild = 2, kFromChild = 3, kUnread = 9;  // tags, see child.cc

child::Environment environment_of(const Target& target, DatagramEnd& end, const std::string& confinement = "") {
  return {{"WEFT_CONFORMANCE_PEER", target.address + " " + std::to_string(end.address().port())},
          {"WEFT_CONFORMANCE_CONFINEMENT", confinement}};
}

void expect_echo(DatagramEnd& end, size_t length) {
  Buffer out(end->fabric(), length), in(end->fabric(), length);
  out.fill_pattern(static_cast<unsigned>(length));
  Context sent, received;
  ASSERT_EQ(end->trecv(in, length, kFromChild, 0, &received), 0);
  ASSERT_EQ(retry([&] { return end->tsend(out, length, kToChild, &sent); }), 0);
  ASSERT_TRUE(end->tx().wait(after(kLong)).ok()) << length;
  const Completion arrival = end->rx().wait(after(kLong));
  ASSERT_TRUE(arrival.ok()) << arrival << " length " << length;
  ASSERT_EQ(arrival.entry.len, length);
  EXPECT_TRUE(in.holds_pattern(static_cast<unsigned>(length), length)) << length;
}

// Bytes of the mappings that this process shares with peers.
size_t shared_bytes() {
  size_t bytes = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    size_t from = 0, to = 0;
    if (line.find("weft-wire") != std::string::npos && std::sscanf(line.c_str(), "%zx-%zx", &from, &to) == 2)
      bytes += to - from;
  }
  return bytes;
}

// Either end may be the one that gives the memory: the end that has received a few messages proposes to share some.
void expect_service(const Fabric& fabric, const std::string& confinement) {
  for (const bool child_receives_first : {false, true}) {
    SCOPED_TRACE(confinement + (child_receives_first ? ", receives first" : ", sends first"));
    DatagramEnd end(fabric);
    child::Running peer("echo", environment_of(fabric.target(), end, confinement));
    if (!end.meet_child([&] { return peer.ended(); })) {
      ASSERT_EQ(peer.status(), child::kCannot) << "the child has failed";
      continue;  // this process may not confine its children that way
    }
    Buffer word(fabric, 8);
    for (int i = 0; child_receives_first && i < 8; ++i) {
      Context sent;
      ASSERT_EQ(end->tsend(word, 8, kUnread, &sent), 0);
      ASSERT_TRUE(end->tx().wait(after(kLong)).ok());
    }
    for (int round = 0; round < 4; ++round)
      for (const size_t length : kLengths) expect_echo(end, length);
  }
}

}  // namespace

TEST_P(ConfinedPeers, SystemCallsMayBeDenied) {
  CONFINED_PEERS_ONLY();
  const Fabric fabric(target());
  for (const char* call : {"process_vm_readv", "memfd_create", "getrandom", "ftruncate", "unix sockets", "seals",
                           "reading of seals", "shared mappings"})
    for (const char* how : {"deny ", "lacks "}) expect_service(fabric, std::string(how) + call);
}

TEST_P(ConfinedPeers, UsersNamespacesAndLimitsMayDiffer) {
  CONFINED_PEERS_ONLY();
  const Fabric fabric(target());
  for (const char* how : {"untraceable", "other user", "user namespace", "process namespace", "small /dev/shm",
                          "short files", "no locked memory"})
    expect_service(fabric, how);
}

// A peer may stop at any point of a long message. Others are served meanwhile, and nothing is lost.
TEST_P(ConfinedPeers, AStoppedPeerHarmsNobodyElse) {
  CONFINED_PEERS_ONLY();
  constexpr size_t kMessages = 12;
  const Fabric fabric(target());
  DatagramEnd end(fabric);
  child::Running peer("echo", environment_of(fabric.target(), end));
  ASSERT_TRUE(end.meet_child([&] { return peer.ended(); }));
  for (const size_t length : kLengths) expect_echo(end, length);
  Pair others(fabric);
  for (int round = 0; round < 4; ++round) {
    const size_t length = size_t{1} << 20;
    std::deque<Buffer> out, in;
    std::vector<Context> sent(kMessages), received(kMessages);
    for (size_t i = 0; i < kMessages; ++i) {
      out.emplace_back(fabric, length).fill_pattern(static_cast<unsigned>(i));
      in.emplace_back(fabric, length);
      ASSERT_EQ(end->trecv(in[i], length, kFromChild, 0, &received[i]), 0);
    }
    size_t arrived = 0, posted = 0;
    const auto go_on = [&] {
      if (posted < kMessages && end->tsend(out[posted], length, kToChild, &sent[posted]) == 0) ++posted;
      driver::poke();
      (void)end->tx().read();
      const Completion done = end->rx().read();
      if (done.rc == -FI_EAGAIN) return;
      ASSERT_TRUE(done.ok()) << done;
      ASSERT_EQ(done.context(), &received[arrived]);
      EXPECT_TRUE(in[arrived].holds_pattern(static_cast<unsigned>(arrived), length)) << arrived;
      ++arrived;
    };
    const auto stop_at = after(milliseconds(round));
    while (Clock::now() < stop_at) go_on();
    peer.stop();
    const auto resume_at = after(milliseconds(200));
    for (int i = 0; Clock::now() < resume_at || i < 20; ++i) {
      go_on();
      expect_exchange(others);
    }
    peer.go_on();
    const auto deadline = after(kLong);
    while (arrived < kMessages && Clock::now() < deadline && !HasFailure()) go_on();
    ASSERT_EQ(arrived, kMessages);
  }
}

// Each peer that has talked takes 32 KiB and no descriptor beside its socket; nothing is left of those that end.
TEST_P(ConfinedPeers, ManyProcessesTakeLittleMemory) {
  CONFINED_PEERS_ONLY();
  constexpr size_t kProcesses = kSanitized ? 12 : 140;
  constexpr size_t kBytes = 32 * 1024;
  const Fabric fabric(target());
  DatagramEnd hub(fabric);
  const size_t descriptors_before = open_descriptors();
  {
    std::vector<std::unique_ptr<child::Running>> peers;
    for (size_t i = 0; i < kProcesses; ++i)
      peers.push_back(std::make_unique<child::Running>("echo_at_leisure", environment_of(target(), hub)));
    std::vector<fi_addr_t> addresses;
    for (size_t i = 0; i < kProcesses; ++i) {
      hub.meet_child();
      addresses.push_back(hub->peer);
    }
    Buffer out(fabric, 64), in(fabric, 64);
    for (int round = 0; round < 8; ++round) {
      std::vector<Context> sent(kProcesses), received(kProcesses);
      for (size_t i = 0; i < kProcesses; ++i) {
        hub->peer = addresses[i];
        ASSERT_EQ(hub->trecv(in, 64, kFromChild, 0, &received[i]), 0);
        ASSERT_EQ(retry([&] { return hub->tsend(out, 64, kToChild, &sent[i]); }), 0);
      }
      for (size_t i = 0; i < kProcesses; ++i) {
        ASSERT_TRUE(hub->tx().wait(after(kLong)).ok());
        ASSERT_TRUE(hub->rx().wait(after(kLong)).ok());
      }
    }
    EXPECT_GT(shared_bytes(), 0);
    EXPECT_LE(shared_bytes(), kProcesses * kBytes);
    EXPECT_LE(open_descriptors(), descriptors_before + 2 * kProcesses);
  }
  const auto deadline = after(kLong);
  while (shared_bytes() != 0 && Clock::now() < deadline) driver::poke_and_rest();
  EXPECT_EQ(shared_bytes(), 0);
}

}  // namespace confined_peers
