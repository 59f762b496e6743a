// SPDX-License-Identifier: BSD-2-Clause
// Processes of one host that may not do everything: calls that a container denies, other users and namespaces, small
// limits; peers that are stopped; many of them. fi_tcp(7): messages then take another way, and nobody notices.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>

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

// Bytes of memory that this process shares with peers: the mappings' pages that are in use.
size_t shared_bytes() {
  size_t kilobytes = 0;
  bool counts = false;
  std::ifstream maps("/proc/self/smaps");
  for (std::string line; std::getline(maps, line);) {
    size_t from = 0, to = 0, resident = 0;
    if (std::sscanf(line.c_str(), "%zx-%zx ", &from, &to) == 2) counts = line.find("weft-wire") != std::string::npos;
    if (counts && std::sscanf(line.c_str(), "Rss: %zu kB", &resident) == 1) kilobytes += resident;
  }
  return kilobytes * 1024;
}

// A file that has no name.
class Scratch {
 public:
  Scratch() : file_(std::tmpfile()) { require(file_ != nullptr, "tmpfile"); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { std::fclose(file_); }
  int fd() const { return fileno(file_); }
  std::string text() const {
    std::string text;
    char chunk[4096];
    std::rewind(file_);
    for (size_t got; (got = std::fread(chunk, 1, sizeof chunk, file_)) > 0;) text.append(chunk, got);
    return text;
  }

 private:
  std::FILE* file_;
};

size_t occurrences(const std::string& sentence, const std::string& text) {
  size_t count = 0;
  for (size_t at = text.find(sentence); at != text.npos; at = text.find(sentence, at + 1)) ++count;
  return count;
}

// A way, and the sentence of the child's log about it, if there is one.
struct Confined {
  const char* how;
  const char* reason;
};
constexpr const char kUnshared[] = "no memory is shared with";
constexpr const char kCopied[] = "long messages of peers on this host are copied twice";
constexpr const char kForeign[] = "a process of another user proposes to share memory";

// Either end may be the one that gives the memory: the end that has received a few messages proposes to share some. The
// child proposes if it has time to read the messages one by one.
void greet(const Fabric& fabric, DatagramEnd& end, milliseconds pause) {
  Buffer word(fabric, 8);
  for (int i = 0; pause.count() != 0 && i < 8; ++i) {
    Context sent;
    ASSERT_EQ(end->tsend(word, 8, kUnread, &sent), 0);
    ASSERT_TRUE(end->tx().wait(after(kLong)).ok());
    std::this_thread::sleep_for(pause);
  }
}

void expect_service(const Fabric& fabric, const std::string& confinement, const char* reason) {
  constexpr milliseconds kPauses[] = {milliseconds(0), milliseconds(3), milliseconds(30), milliseconds(300)};
  size_t logged = 0;
  for (size_t attempt = 0; attempt < 2 || (reason != nullptr && logged == 0); ++attempt) {
    ASSERT_LT(attempt, std::size(kPauses)) << confinement << ": the log does not have: " << reason;
    SCOPED_TRACE(confinement + (attempt != 0 ? ", receives first" : ", sends first"));
    DatagramEnd end(fabric);
    const Scratch log;
    child::Environment environment = environment_of(fabric.target(), end, confinement);
    environment.emplace_back("FI_LOG_LEVEL", "info");
    child::Running peer("echo", environment, log.fd());
    if (!end.meet_child([&] { return peer.ended(); })) {
      ASSERT_EQ(peer.status(), child::kCannot) << "the child has failed:\n" << log.text();
      return;  // this process may not confine its children that way
    }
    greet(fabric, end, kPauses[attempt]);
    for (int round = 0; round < 4; ++round)
      for (const size_t length : kLengths) expect_echo(end, length);
    for (const char* each : {kUnshared, kCopied, kForeign}) EXPECT_LE(occurrences(each, log.text()), 1) << log.text();
    logged += reason != nullptr ? occurrences(reason, log.text()) : 0;
  }
}

}  // namespace

TEST_P(ConfinedPeers, SystemCallsMayBeDenied) {
  CONFINED_PEERS_ONLY();
  const Fabric fabric(target());
  constexpr Confined kCalls[] = {
      {"process_vm_readv", kCopied},   {"memfd_create", kUnshared},    {"getrandom", kUnshared},
      {"ftruncate", kUnshared},        {"unix sockets", kUnshared},    {"seals", kUnshared},
      {"reading of seals", kUnshared}, {"shared mappings", kUnshared}, {"netlink sockets", nullptr}};
  for (const auto& [call, reason] : kCalls)
    for (const char* how : {"deny ", "lacks "}) expect_service(fabric, std::string(how) + call, reason);
}

TEST_P(ConfinedPeers, UsersNamespacesAndLimitsMayDiffer) {
  CONFINED_PEERS_ONLY();
  const Fabric fabric(target());
  constexpr Confined kHow[] = {{"untraceable", nullptr},       {"no capabilities", kCopied},
                               {"other user", kForeign},       {"user namespace", kForeign},
                               {"process namespace", kCopied}, {"small /dev/shm", nullptr},
                               {"short files", kUnshared},     {"no locked memory", nullptr}};
  for (const auto& [how, reason] : kHow) expect_service(fabric, how, reason);
}

// Processes of other users are served through the socket: memory is neither given to them nor taken from them.
TEST_P(ConfinedPeers, NothingIsSharedWithOtherUsers) {
  CONFINED_PEERS_ONLY();
  const Fabric fabric(target());
  for (const char* how : {"other user", "other user's namespace"}) {
    SCOPED_TRACE(how);
    for (int attempt = 0; attempt < 6; ++attempt) {  // either end may be the one that would give the memory
      DatagramEnd end(fabric);
      child::Running peer("echo", environment_of(fabric.target(), end, how));
      if (!end.meet_child([&] { return peer.ended(); })) {
        ASSERT_EQ(peer.status(), child::kCannot) << "the child has failed";
        continue;  // this process may not confine its children that way
      }
      greet(fabric, end, milliseconds(attempt % 3 != 0 ? 3 : 0));
      for (int round = 0; round < 4; ++round) {
        for (const size_t length : kLengths) expect_echo(end, length);
        EXPECT_EQ(shared_bytes(), 0u);
      }
    }
  }
}

// A peer may stop at any point of a long message. Others are served meanwhile, and nothing is lost.
//   WEFT_CONFORMANCE_STOPPED_MS   the peer stops only once, for so many milliseconds
TEST_P(ConfinedPeers, AStoppedPeerHarmsNobodyElse) {
  CONFINED_PEERS_ONLY();
  constexpr size_t kMessages = 12;
  const Fabric fabric(target());
  DatagramEnd end(fabric);
  child::Running peer("echo", environment_of(fabric.target(), end));
  ASSERT_TRUE(end.meet_child([&] { return peer.ended(); }));
  for (const size_t length : kLengths) expect_echo(end, length);
  Pair others(fabric);
  const char* const asked = std::getenv("WEFT_CONFORMANCE_STOPPED_MS");
  const milliseconds stopped(asked != nullptr ? std::atoi(asked) : 200);
  for (int round = 0; round < (asked != nullptr ? 1 : 4); ++round) {
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
    const auto resume_at = after(stopped);
    for (int i = 0; Clock::now() < resume_at || i < 20; ++i) {
      go_on();
      expect_exchange(others);
      if (asked != nullptr) std::this_thread::sleep_for(milliseconds(2));
    }
    peer.go_on();
    const auto deadline = after(kLong);
    while (arrived < kMessages && Clock::now() < deadline && !HasFailure()) go_on();
    ASSERT_EQ(arrived, kMessages);
  }
}

// Both ends go on as before when one forks, and when the child becomes another program.
TEST_P(ConfinedPeers, APeerMayFork) {
  CONFINED_PEERS_ONLY();
  const Fabric fabric(target());
  DatagramEnd end(fabric);
  child::Environment environment = environment_of(target(), end);
  environment.emplace_back("WEFT_CONFORMANCE_FORKS", "1");
  child::Running peer("echo", environment);
  ASSERT_TRUE(end.meet_child([&] { return peer.ended(); }));
  for (int round = 0; round < 10; ++round)
    for (const size_t length : kLengths) expect_echo(end, length);
}

// Nothing is read from its parent, whose memory has other bytes at the same address.
TEST_P(ConfinedPeers, AForkedChildMayGoOn) {
  CONFINED_PEERS_ONLY();
  const Fabric fabric(target());
  DatagramEnd end(fabric);
  child::Environment environment = environment_of(target(), end);
  environment.emplace_back("WEFT_CONFORMANCE_CONTINUES", "24");
  child::Running peer("echo", environment);
  ASSERT_TRUE(end.meet_child([&] { return peer.ended(); }));
  for (int round = 0; round < 20; ++round)
    for (const size_t length : kLengths) expect_echo(end, length);
}

// Its process goes on without the connection, and keeps its number.
TEST_P(ConfinedPeers, APeerThatBecomesAnotherProgramIsGone) {
  CONFINED_PEERS_ONLY();
  constexpr int kMessages = 12;
  const Fabric fabric(target());
  for (const size_t length : kLengths) {
    DatagramEnd end(fabric);
    child::Environment environment = environment_of(target(), end);
    environment.emplace_back("WEFT_CONFORMANCE_EXECUTES", std::to_string(kMessages));
    child::Running peer("echo", environment);
    ASSERT_TRUE(end.meet_child([&] { return peer.ended(); }));
    for (int message = 0; message < kMessages; ++message) expect_echo(end, length);
    Buffer out(fabric, length);
    const auto start = Clock::now();
    ssize_t posted = 0;
    Completion done;
    done.rc = 1;
    while (done.ok() && Clock::now() < start + kLong) {  // the first messages may be on their way
      Context sent;
      posted = retry([&] { return end->tsend(out, length, kToChild, &sent); });
      if (posted != 0) break;
      done = end->tx().wait(after(kLong));
    }
    EXPECT_TRUE(posted != 0 || done.err() != 0) << done;
    EXPECT_LT(elapsed_ms(start), 10'000);
    EXPECT_FALSE(peer.ended());
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
