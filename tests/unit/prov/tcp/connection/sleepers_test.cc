// SPDX-License-Identifier: BSD-2-Clause
// Threads that sleep until a queue's descriptor is readable, while another thread leaves work to the next round.
#include <gtest/gtest.h>
#include <poll.h>
#include <rdma/fi_tagged.h>

#include <chrono>
#include <thread>

#include "unit/prov/tcp/side.h"

namespace weft::tcp::testing {
namespace {

using namespace std::chrono_literals;

constexpr int kMessages = 3, kPatienceMs = 20'000;
constexpr std::size_t kShort = 64, kLong = 4096;

class Sleepers : public ::testing::Test {
 protected:
  void SetUp() override {
    server.listen();
    client.connect(server.listening_at());
    Event event;
    bool connected = false;
    EXPECT_TRUE(until([&] {
      if (server.poll(event) && event.number == FI_CONNREQ) server.accept(event);
      connected |= client.poll(event) && event.number == FI_CONNECTED;
      return connected && server.ep != nullptr;
    }));
  }
  template <class Condition>
  static bool until(Condition condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
    while (std::chrono::steady_clock::now() < end) {
      if (condition()) return true;
      std::this_thread::yield();
    }
    return false;
  }
  void post_receives() {
    for (int i = 0; i < kMessages; ++i)
      ASSERT_EQ(fi_recv(server.ep, buffer, sizeof buffer, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
  }
  // The last call that makes progress for the client precedes the burst.
  void inject_burst() {
    Done done;
    while (client.poll(done)) {
    }
    for (int i = 0; i < kMessages; ++i) ASSERT_EQ(fi_inject(client.ep, bytes, kShort, FI_ADDR_UNSPEC), 0);
  }
  // Afterwards messages of a burst wait for each other, unless the processor was taken away meanwhile.
  void call_for_progress_behind_bursts() {
    for (int i = 0; i < 10; ++i) {
      post_receives();
      inject_burst();
      Done done;
      client.poll(done);
      EXPECT_TRUE(all_arrive());
    }
  }
  bool all_arrive() {
    int arrived = 0;
    Done done;
    return until([&] { return (arrived += server.poll(done)) == kMessages; });
  }

  Side client{"127.0.0.1", FI_WAIT_FD};
  Side server{"127.0.0.1", FI_WAIT_FD};
  char bytes[kLong] = {};
  char buffer[kLong];
};

TEST_F(Sleepers, SendWhatAnotherThreadGathered) {
  call_for_progress_behind_bursts();
  post_receives();
  std::thread sleeper([&] {
    fi_cq_msg_entry entry;
    EXPECT_EQ(fi_cq_sread(client.cq, &entry, 1, nullptr, kPatienceMs), -FI_EAGAIN);
  });
  std::this_thread::sleep_for(50ms);
  inject_burst();
  EXPECT_TRUE(all_arrive());
  fi_cq_signal(client.cq);
  sleeper.join();
}

// Programs older than fi_trywait.
TEST_F(Sleepers, SendABurstWithoutTrywait) {
  int fd = -1;
  ASSERT_EQ(fi_control(&client.cq->fid, FI_GETWAIT, &fd), 0);
  pollfd entry{fd, POLLIN, 0};
  for (int i = 0; i < 10; ++i) {
    call_for_progress_behind_bursts();
    post_receives();
    inject_burst();
    int arrived = 0;
    Done done;
    EXPECT_TRUE(until([&] {
      if (poll(&entry, 1, 0) == 1) client.poll(done);
      return (arrived += server.poll(done)) == kMessages;
    }));
  }
}

// The first message waits for a receive, and the second has one. Either thread may meet them first.
TEST_F(Sleepers, ReceiveBehindAMessageThatAnotherThreadMet) {
  constexpr std::uint64_t kFirst = 1, kSecond = 2;
  constexpr int kTimes = 10;
  fid_cq* idle = nullptr;  // a queue of the same domain
  fi_cq_attr attr{};
  ASSERT_EQ(fi_cq_open(server.domain, &attr, &idle, nullptr), 0);
  for (int i = 0; i < kTimes && !HasFailure(); ++i) {
    ASSERT_EQ(fi_trecv(server.ep, buffer, sizeof buffer, nullptr, FI_ADDR_UNSPEC, kSecond, 0, this), 0);
    std::thread sleeper([&] {
      fi_cq_msg_entry entry{};
      const auto start = std::chrono::steady_clock::now();
      EXPECT_EQ(fi_cq_sread(server.cq, &entry, 1, nullptr, kPatienceMs), 1);
      EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(kPatienceMs));
    });
    std::this_thread::sleep_for(20ms);
    ASSERT_EQ(fi_tsend(client.ep, bytes, kLong, nullptr, FI_ADDR_UNSPEC, kFirst, nullptr), 0);
    ASSERT_EQ(fi_tsend(client.ep, bytes, kLong, nullptr, FI_ADDR_UNSPEC, kSecond, nullptr), 0);
    Done done;
    client.poll(done);
    fi_cq_read(idle, nullptr, 0);
    sleeper.join();
  }
  EXPECT_EQ(fi_close(&idle->fid), 0);
}

}  // namespace
}  // namespace weft::tcp::testing
