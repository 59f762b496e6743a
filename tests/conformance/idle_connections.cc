// SPDX-License-Identifier: BSD-2-Clause
// Connections of reliable datagrams that are closed while idle and opened again unseen: no message is lost, doubled or
// overtaken, whichever end sends; fi_endpoint(3) (FI_EP_RDM) knows no connections.
//   WEFT_CONFORMANCE_SEEDS   random schedules of each kind (4)
#include <dirent.h>
#include <sys/socket.h>

#include <cstdlib>
#include <deque>
#include <memory>
#include <random>
#include <thread>

#include "fixture/driver.h"
#include "fixture/member.h"
#include "fixture/parameter.h"

namespace idle_connections {

CONFORMANCE_TOPIC(IdleConnections);

namespace {

constexpr std::chrono::seconds kLong{60};

// In force for fabrics that are opened while it lives; milliseconds.
struct IdleTimeout {
  explicit IdleTimeout(const char* ms) : tcp("FI_TCP_IDLE_TIMEOUT", ms), rxm("FI_OFI_RXM_IDLE_TIMEOUT", ms) {}
  Parameter tcp, rxm;
};

// Connected sockets of this process: the ends of all connections here.
size_t connected_ends() {
  size_t count = 0;
  DIR* folder = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(folder)) {
    sockaddr_storage peer{};
    socklen_t len = sizeof peer;
    if (getpeername(std::atoi(entry->d_name), reinterpret_cast<sockaddr*>(&peer), &len) != 0) continue;
    count += peer.ss_family == AF_INET || peer.ss_family == AF_INET6;
  }
  closedir(folder);
  return count;
}

// Until none is left, or the deadline.
bool all_end() {
  const auto deadline = after(std::chrono::seconds(10));
  while (connected_ends() != 0 && Clock::now() < deadline) driver::poke_and_rest();
  return connected_ends() == 0;
}

void expect_delivery(DatagramEnd& from, DatagramEnd& to, fi_addr_t address, size_t length) {
  Buffer out(from->fabric(), length), in(to->fabric(), length);
  Context contexts[2];
  out.fill_pattern(static_cast<unsigned>(length));
  from->peer = address;
  ASSERT_EQ(to->trecv(in, length, 7, 0, &contexts[0]), 0);
  ASSERT_EQ(from->tsend(out, length, 7, &contexts[1]), 0);
  const Completion received = to->rx().wait(after(kLong));
  ASSERT_TRUE(received.ok()) << received;
  EXPECT_TRUE(in.holds_pattern(static_cast<unsigned>(length), length));
  ASSERT_TRUE(from->tx().wait(after(kLong)).ok());
}

// Messages in both directions, with pauses about as long as the idle time-out.
class Traffic {
 public:
  Traffic(Fabric& ours, Fabric& theirs, unsigned seed) : random_(seed) {
    ends_[0] = std::make_unique<DatagramEnd>(ours);
    ends_[1] = std::make_unique<DatagramEnd>(theirs);
    for (int i = 0; i < 2; ++i) end(i)->peer = end(i).insert(end(1 - i).address());
  }
  void run(int count) {
    for (int i = 0; i < count && !testing::Test::HasFatalFailure(); ++i) {
      const auto until = Clock::now() + std::chrono::microseconds(random_() % 6000);
      do {
        driver::poke();
        check();
      } while (Clock::now() < until);
      for (unsigned burst = random_() % 3 + 1; burst != 0; --burst) send(static_cast<int>(random_() % 2));
    }
    const auto deadline = after(kLong);
    while ((open_sends_ != 0 || arrived_[0] != sent_[1] || arrived_[1] != sent_[0]) && Clock::now() < deadline) {
      driver::poke();
      check();
    }
    EXPECT_EQ(open_sends_, 0u);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(arrived_[i], sent_[1 - i]);
  }

 private:
  struct Operation {
    Context context;
    std::unique_ptr<Buffer> buffer;
    size_t length = 0;
    uint64_t number = 0;
  };
  DatagramEnd& end(int i) { return *ends_[i]; }

  // A receive of each message is posted before or after it is sent; tags make sure that it is that message.
  void send(int from) {
    constexpr size_t kLengths[] = {0, 8, 4000, 16384, 70'000, 300'000};
    const size_t length = kLengths[random_() % std::size(kLengths)];
    const uint64_t number = ++sent_[from];
    const bool early = random_() % 2 == 0;
    if (early) post(1 - from, number, length);
    Operation& out = operations_.emplace_back();
    out.buffer = std::make_unique<Buffer>(end(from)->fabric(), length + 1);
    out.buffer->fill_pattern(static_cast<unsigned>(number));
    ++open_sends_;
    ASSERT_EQ(end(from)->tsend(*out.buffer, length, number % 3, &out.context), 0);
    if (!early) post(1 - from, number, length);
  }
  void post(int at, uint64_t number, size_t length) {
    Operation& in = operations_.emplace_back();
    in.buffer = std::make_unique<Buffer>(end(at)->fabric(), length + 1);
    in.length = length;
    in.number = number;
    ASSERT_EQ(end(at)->trecv(*in.buffer, length, number % 3, 0, &in.context), 0);
  }
  void check() {
    for (int i = 0; i < 2; ++i) {
      for (Completion done = end(i)->tx().read(); done.rc != -FI_EAGAIN; done = end(i)->tx().read()) {
        ASSERT_TRUE(done.ok()) << done;
        --open_sends_;
      }
      for (Completion done = end(i)->rx().read(); done.rc != -FI_EAGAIN; done = end(i)->rx().read()) {
        ASSERT_TRUE(done.ok()) << done;
        const Operation& in = *reinterpret_cast<const Operation*>(done.context());
        ASSERT_EQ(done.entry.len, in.length) << "another message";
        EXPECT_TRUE(in.buffer->holds_pattern(static_cast<unsigned>(in.number), in.length));
        ++arrived_[i];
      }
    }
  }

  std::mt19937 random_;
  std::deque<Operation> operations_;
  std::unique_ptr<DatagramEnd> ends_[2];
  uint64_t sent_[2] = {}, arrived_[2] = {};
  size_t open_sends_ = 0;
};

unsigned seeds() {
  const char* asked = std::getenv("WEFT_CONFORMANCE_SEEDS");
  return asked != nullptr ? static_cast<unsigned>(std::atoi(asked)) : 4;
}

}  // namespace

TEST_P(IdleConnections, AreClosedAndReopenedTransparently) {
  RELIABLE_DATAGRAMS_ONLY();
  if (target().provider.rfind("tcp", 0) != 0) GTEST_SKIP() << "sockets do not show a connection";
  const IdleTimeout soon("20");
  Fabric ours(target()), theirs(target());
  DatagramEnd a(ours), b(theirs);
  const fi_addr_t to_b = a.insert(b.address()), to_a = b.insert(a.address());
  for (const size_t length : {64ul, 20'000ul, 400'000ul}) {
    expect_delivery(a, b, to_b, length);
    EXPECT_TRUE(all_end());
    expect_delivery(b, a, to_a, length);
    EXPECT_TRUE(all_end());
  }
  EXPECT_TRUE(a->tx().stays_silent(milliseconds(1)));
  EXPECT_TRUE(b->rx().stays_silent(milliseconds(1)));
}

TEST_P(IdleConnections, StayOpenByDefault) {
  RELIABLE_DATAGRAMS_ONLY();
  if (target().provider.rfind("tcp", 0) != 0) GTEST_SKIP() << "sockets do not show a connection";
  const IdleTimeout soon("20");
  Fabric ours(target());
  setenv("FI_TCP_IDLE_TIMEOUT", "0", 1);
  setenv("FI_OFI_RXM_IDLE_TIMEOUT", "0", 1);
  Fabric theirs(target());
  DatagramEnd a(ours), b(theirs);
  const fi_addr_t to_b = a.insert(b.address());
  expect_delivery(a, b, to_b, 64);
  const auto until = after(milliseconds(150));
  while (Clock::now() < until) driver::poke_and_rest();
  EXPECT_EQ(connected_ends(), 2u) << "one end has never agreed to it";
}

TEST_P(IdleConnections, ClosingLosesNothingWhicheverEndSends) {
  RELIABLE_DATAGRAMS_ONLY();
  for (const char* ms : {"1", "2", "4"}) {
    const IdleTimeout soon(ms);
    for (unsigned seed = 1; seed <= seeds() && !HasFailure(); ++seed) {
      SCOPED_TRACE(std::string(ms) + " ms, seed " + std::to_string(seed));
      Fabric ours(target()), theirs(target());
      Traffic(ours, theirs, seed).run(60);
    }
  }
}

TEST_P(IdleConnections, ThreadsAtBothEndsLoseNothing) {
  RELIABLE_DATAGRAMS_ONLY();
  const IdleTimeout soon("1");
  const HintsEditor automatic = [](fi_info& hints) { hints.domain_attr->data_progress = FI_PROGRESS_AUTO; };
  NEEDS(automatic, "FI_PROGRESS_AUTO");
  for (unsigned seed = 1; seed <= seeds() && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Fabric ours(target(), automatic), theirs(target(), automatic);
    Traffic(ours, theirs, 100 + seed).run(60);
  }
}

}  // namespace idle_connections
