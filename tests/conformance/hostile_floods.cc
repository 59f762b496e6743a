// SPDX-License-Identifier: BSD-2-Clause
// Floods over many connections: of short messages, of which a call for progress handles a part, so that other peers are
// served meanwhile, and of reads, whose answers to all peers have a limit in common; docs/limits.md.
#include <malloc.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <deque>
#include <thread>
#include <vector>

#include "fixture/driver.h"
#include "fixture/member.h"
#include "fixture/parameter.h"
#include "fixture/process.h"
#include "fixture/raw_client.h"
#include "fixture/raw_peer.h"

namespace hostile_floods {

CONFORMANCE_TOPIC(HostileFloods);

namespace {

constexpr size_t kAttackers = kSanitized ? 20 : 150;
constexpr size_t kBriefPeers = 900;

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

// A peer that sends these bytes and closes its side, without a call for progress.
raw::Socket brief_peer(const Address& to, const std::string& bytes) {
  raw::Socket peer(::socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  require(::connect(peer.fd(), to.get(), static_cast<socklen_t>(to.size)) == 0, "connect");
  require(::send(peer.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()), "send");
  require(::shutdown(peer.fd(), SHUT_WR) == 0, "shutdown");
  return peer;
}

// The number of peers that have an answer, or were closed.
size_t count_handled(const std::deque<raw::Socket>& peers) {
  return static_cast<size_t>(std::count_if(peers.begin(), peers.end(), [](const raw::Socket& peer) {
    pollfd state{peer.fd(), POLLIN, 0};
    return ::poll(&state, 1, 0) == 1;
  }));
}

// Sends the same messages again and again, and reads nothing.
class Repeater {
 public:
  Repeater(raw::Socket socket, const std::string& messages) : socket_(std::move(socket)), messages_(messages) {}
  // False: the system took no byte.
  bool send() {
    const size_t at = sent_ % messages_.size();
    const ssize_t taken =
        ::send(socket_.fd(), messages_.data() + at, messages_.size() - at, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (taken <= 0) return false;
    sent_ += static_cast<size_t>(taken);
    return true;
  }

 private:
  raw::Socket socket_;
  const std::string& messages_;
  size_t sent_ = 0;
};

// Reads all that arrives, in a thread of its own.
class Drain {
 public:
  explicit Drain(const raw::Socket& socket) : thread_([this, fd = socket.fd()] { run(fd); }) {}
  ~Drain() {
    stop_ = true;
    thread_.join();
  }
  Drain(const Drain&) = delete;
  Drain& operator=(const Drain&) = delete;
  // Bytes so far, once no more arrive.
  size_t settled() const {
    for (size_t seen = SIZE_MAX; seen != read_; std::this_thread::sleep_for(milliseconds(10))) seen = read_;
    return read_;
  }

 private:
  void run(int fd) {
    std::vector<char> bytes(1 << 20);
    while (!stop_) {
      const ssize_t got = ::recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (got > 0) read_ += static_cast<size_t>(got);
    }
  }
  std::atomic<size_t> read_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

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

// While one ends the next one comes.
TEST_P(HostileFloods, OneCallEndsAPartOfBriefConnections) {
  if (target().provider != "tcp" || target().connected()) GTEST_SKIP() << "reliable datagrams of tcp only";
  Fabric fabric(target(), [](fi_info& hints) { hints.caps = FI_MSG | FI_TAGGED; });
  DatagramEnd victim(fabric);
  const Address to = victim.address();
  constexpr uint16_t kConnections = 4000;
  std::atomic<bool> done{false};
  std::thread flood([&] {
    for (uint16_t port = 10; port < 10 + kConnections; ++port)
      brief_peer(to, raw::cm_message(raw::kConnreq, raw::greeting(1, port, port)));
    done = true;
  });
  double longest = 0;
  while (!done) {
    const double begun = thread_seconds();
    fi_cq_tagged_entry entry;
    EXPECT_EQ(fi_cq_read(victim->rx().get(), &entry, 1), -FI_EAGAIN);
    longest = std::max(longest, thread_seconds() - begun);
  }
  flood.join();
  EXPECT_LE(longest, 0.1) << "seconds of the processor in one call";
}

TEST_P(HostileFloods, OneCallAcceptsAPartOfTheConnections) {
  if (target().provider != "tcp" || target().connected()) GTEST_SKIP() << "reliable datagrams of tcp only";
  Fabric fabric(target(), [](fi_info& hints) { hints.caps = FI_MSG | FI_TAGGED; });
  DatagramEnd victim(fabric);
  const Address to = victim.address();
  std::deque<raw::Socket> peers;
  while (peers.size() < kBriefPeers) peers.push_back(brief_peer(to, std::string(raw::kCmHeader, 'x')));
  fi_cq_tagged_entry entry;
  ASSERT_EQ(fi_cq_read(victim->rx().get(), &entry, 1), -FI_EAGAIN);
  EXPECT_LT(count_handled(peers), kBriefPeers) << "one call accepted and dropped them";
  for (const auto limit = after(kPatience); count_handled(peers) < kBriefPeers && Clock::now() < limit;) driver::poke();
  EXPECT_EQ(count_handled(peers), kBriefPeers);
}

TEST_P(HostileFloods, OneCallSendsAPartOfALongAnswer) {
  if (target().provider != "tcp" || target().connected()) GTEST_SKIP() << "reliable datagrams of tcp only";
  // Bytes may be in the sockets from the call before.
  constexpr size_t kRegion = 128 << 20, kOfOneCall = 16 << 20;
  Fabric fabric(target(), [](fi_info& hints) { hints.caps = FI_MSG | FI_TAGGED | FI_RMA; });
  DatagramEnd victim(fabric);
  Buffer region(fabric, kRegion, 0, FI_REMOTE_READ);
  raw::RawClient client(victim.address(), 1, 10, 10, 0);
  ASSERT_TRUE(client.accepted);
  ASSERT_TRUE(client.socket.write(raw::data_header(raw::kReadReq, 40, 40, 0, 1) + raw::word(region.remote_address()) +
                                  raw::word(kRegion) + raw::word(region.key())));
  const Drain drain(client.socket);
  size_t most = 0, sent = 0;
  for (const auto limit = after(kPatience); sent < kRegion && Clock::now() < limit;) {
    fi_cq_tagged_entry entry;
    ASSERT_EQ(fi_cq_read(victim->rx().get(), &entry, 1), -FI_EAGAIN);
    const size_t now = drain.settled();
    most = std::max(most, now - sent);
    sent = now;
  }
  EXPECT_GE(sent, kRegion);
  EXPECT_LE(most, kOfOneCall) << "bytes that one call sent";
}

TEST_P(HostileFloods, AnswersToAllPeersHaveALimitInCommon) {
  if (target().provider != "tcp" || target().connected()) GTEST_SKIP() << "reliable datagrams of tcp only";
  if (kSanitized) GTEST_SKIP() << "a sanitizer has memory of its own";
  constexpr uint16_t kReaders = 10;
  constexpr size_t kOfOne = 40, kOfAll = 256, kShare = 2, kRest = 24;  // MiB
  static_assert(kOfAll + kReaders * kShare + kRest < kReaders * kOfOne);
  Fabric fabric(target(), [](fi_info& hints) { hints.caps = FI_MSG | FI_TAGGED | FI_RMA; });
  Pair bystanders(fabric);
  DatagramEnd victim(fabric);
  Buffer region(fabric, 16'384, 0, FI_REMOTE_READ);
  expect_exchange(bystanders);
  std::string reads;
  while (reads.size() < 64'000) {
    reads += raw::data_header(raw::kReadReq, 40, 40, 0, 1) + raw::word(region.remote_address()) + raw::word(16'000) +
             raw::word(region.key());
  }
  std::deque<Repeater> readers;
  for (uint16_t port = 10; port < 10 + kReaders; ++port) {
    raw::RawClient client(victim.address(), 1, port, port, 0);
    ASSERT_TRUE(client.accepted);
    readers.emplace_back(std::move(client.socket), reads);
  }
  malloc_trim(0);  // returns what other tests freed
  const size_t before = resident_kib();
  for (int idle = 0; idle < 100; ++idle) {
    for (Repeater& each : readers)
      while (each.send()) idle = 0;
    driver::poke();
  }
  EXPECT_GT(resident_kib(), before + kOfOne * 1024) << "the flood did not reach the limit of one peer";
  EXPECT_LE(resident_kib(), before + (kOfAll + kReaders * kShare + kRest) * 1024);
  expect_exchange(bystanders);
}

}  // namespace hostile_floods
