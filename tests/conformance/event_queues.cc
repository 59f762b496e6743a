// SPDX-License-Identifier: BSD-2-Clause
// Event queues: user events, peeking, errors, waiting; fi_eq(3).
#include <poll.h>

#include <thread>

#include "fixture/node.h"
#include "fixture/raw_peer.h"
#include "fixture/signals.h"

namespace event_queues {

CONFORMANCE_TOPIC(EventQueues);

namespace {

constexpr uint32_t kUserEvent = 4711;  // the application's own number

fi_eq_attr writable() {
  fi_eq_attr attr{};
  attr.flags = FI_WRITE;
  attr.wait_obj = FI_WAIT_UNSPEC;
  return attr;
}

fi_eq_entry entry_of(uint64_t data) {
  fi_eq_entry entry{};
  entry.data = data;
  return entry;
}

ssize_t write(EventQueue& eq, uint64_t data) {
  const fi_eq_entry entry = entry_of(data);
  return fi_eq_write(eq.get(), kUserEvent, &entry, sizeof entry, 0);
}

}  // namespace

TEST_P(EventQueues, EmptyQueueAnswersAgain) {
  Fabric fabric(target());
  EventQueue eq(fabric);
  EXPECT_EQ(eq.read().rc, -FI_EAGAIN);
  fi_eq_err_entry entry{};
  EXPECT_EQ(fi_eq_readerr(eq.get(), &entry, 0), -FI_EAGAIN);
}

TEST_P(EventQueues, WrittenEventsAreReadInOrder) {
  Fabric fabric(target());
  EventQueue eq(fabric, writable());
  for (uint64_t i = 0; i < 10; ++i) ASSERT_EQ(write(eq, i), static_cast<ssize_t>(sizeof(fi_eq_entry)));
  for (uint64_t i = 0; i < 10; ++i) {
    const Event event = eq.read();
    EXPECT_EQ(event.type, static_cast<int>(kUserEvent));
    EXPECT_EQ(event.rc, static_cast<ssize_t>(sizeof(fi_eq_entry)));
    EXPECT_EQ(event.data, i);
  }
  EXPECT_EQ(eq.read().rc, -FI_EAGAIN);
}

TEST_P(EventQueues, QueueHoldsAtLeastTheRequestedNumber) {
  Fabric fabric(target());
  fi_eq_attr attr = writable();
  attr.size = 500;
  EventQueue eq(fabric, attr);
  for (uint64_t i = 0; i < 500; ++i) ASSERT_GT(write(eq, i), 0) << i;
  for (uint64_t i = 0; i < 500; ++i) ASSERT_EQ(eq.read().data, i);
}

TEST_P(EventQueues, WriteNeedsTheFlag) {
  Fabric fabric(target());
  EventQueue eq(fabric);
  EXPECT_LT(write(eq, 1), 0);
  EXPECT_EQ(eq.read().rc, -FI_EAGAIN);
}

TEST_P(EventQueues, PeekLeavesTheEvent) {
  Fabric fabric(target());
  EventQueue eq(fabric, writable());
  ASSERT_GT(write(eq, 77), 0);
  for (int i = 0; i < 3; ++i) {
    fi_eq_entry entry{};
    uint32_t type = 0;
    ASSERT_EQ(fi_eq_read(eq.get(), &type, &entry, sizeof entry, FI_PEEK), static_cast<ssize_t>(sizeof entry));
    EXPECT_EQ(type, kUserEvent);
    EXPECT_EQ(entry.data, 77u);
  }
  EXPECT_EQ(eq.read().data, 77u);
  EXPECT_EQ(eq.read().rc, -FI_EAGAIN);
}

TEST_P(EventQueues, TooSmallABufferKeepsTheEvent) {
  Fabric fabric(target());
  EventQueue eq(fabric, writable());
  ASSERT_GT(write(eq, 99), 0);
  char small[8];
  uint32_t type = 0;
  EXPECT_EQ(fi_eq_read(eq.get(), &type, small, sizeof small, 0), -FI_ETOOSMALL);
  EXPECT_EQ(fi_eq_sread(eq.get(), &type, small, sizeof small, 10, 0), -FI_ETOOSMALL);
  EXPECT_EQ(eq.read().data, 99u);
}

TEST_P(EventQueues, TooSmallABufferKeepsAConnectionRequest) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Listener listener(fabric);
  Node client(fabric);
  ASSERT_EQ(client.connect(listener.address(), "kept"), 0);
  ASSERT_FALSE(listener.eq().stays_silent(kPatience));
  char small[sizeof(fi_eq_cm_entry) - 1];
  uint32_t type = 0;
  EXPECT_EQ(fi_eq_read(listener.eq().get(), &type, small, sizeof small, 0), -FI_ETOOSMALL);
  std::vector<char> data;
  EXPECT_TRUE(listener.next_request(&data));
  EXPECT_EQ(std::string(data.data(), 4), "kept");
}

TEST_P(EventQueues, SreadTimesOutOnAnAbsoluteDeadline) {
  Fabric fabric(target());
  EventQueue eq(fabric);
  char entry[256];
  uint32_t type = 0;
  const auto start = Clock::now();
  EXPECT_EQ(fi_eq_sread(eq.get(), &type, entry, sizeof entry, 100, 0), -FI_EAGAIN);
  EXPECT_GE(elapsed_ms(start), 99);
  EXPECT_LE(elapsed_ms(start), kPromptMs);
  EXPECT_LE(quickest_ms([&] { EXPECT_EQ(fi_eq_sread(eq.get(), &type, entry, sizeof entry, 0, 0), -FI_EAGAIN); }), 50);
}

TEST_P(EventQueues, ASignalEndsAnEndlessWait) {
  Fabric fabric(target());
  EventQueue eq(fabric);
  const Signals signals;
  char entry[256];
  uint32_t type = 0;
  EXPECT_EQ(fi_eq_sread(eq.get(), &type, entry, sizeof entry, -1, 0), -FI_EAGAIN);
}

TEST_P(EventQueues, ASignalEndsAnEndlessWaitThatPolls) {
  Fabric fabric(target());
  for (fi_wait_obj wait_obj : {FI_WAIT_NONE, FI_WAIT_YIELD}) {
    fi_eq_attr attr{};
    attr.wait_obj = wait_obj;
    const auto eq = opened<fid_eq>("fi_eq_open",
                                   [&](fid_eq** queue) { return fi_eq_open(fabric.fabric(), &attr, queue, nullptr); });
    const Signals signals;
    char entry[256];
    uint32_t type = 0;
    EXPECT_EQ(fi_eq_sread(eq.get(), &type, entry, sizeof entry, -1, 0), -FI_EAGAIN);
  }
}

TEST_P(EventQueues, InternalWakeUpsDoNotExtendSread) {
  CONNECTED_ONLY();
  if (!speaks_tcp()) GTEST_SKIP() << "wakes the library with bare sockets";
  Fabric fabric(target());
  Listener listener(fabric);
  std::atomic<bool> stop{false};
  std::thread nuisance([&] {  // each attempt wakes the listener without an event
    while (!stop) {
      raw::Socket::connected_to(listener.address()).reset();
      std::this_thread::sleep_for(milliseconds(20));
    }
  });
  char entry[256];
  uint32_t type = 0;
  const auto start = Clock::now();
  EXPECT_EQ(fi_eq_sread(listener.eq().get(), &type, entry, sizeof entry, 200, 0), -FI_EAGAIN);
  EXPECT_GE(elapsed_ms(start), 199);
  EXPECT_LE(elapsed_ms(start), kPromptMs);
  stop = true;
  nuisance.join();
}

TEST_P(EventQueues, SreadIsWokenByAnEventOfAnotherThread) {
  Fabric fabric(target());
  EventQueue eq(fabric, writable());
  std::thread writer([&] {
    std::this_thread::sleep_for(milliseconds(50));
    write(eq, 5);
  });
  fi_eq_entry entry{};
  uint32_t type = 0;
  const auto start = Clock::now();
  EXPECT_EQ(fi_eq_sread(eq.get(), &type, &entry, sizeof entry, kWaitMs, 0), static_cast<ssize_t>(sizeof entry));
  EXPECT_LT(elapsed_ms(start), kPromptMs);
  EXPECT_EQ(entry.data, 5u);
  writer.join();
}

// The manual forbids it to the application, but programs do it.
TEST_P(EventQueues, SreadWaitsWithoutAWaitObjectToo) {
  Fabric fabric(target());
  fi_eq_attr attr = writable();
  attr.wait_obj = FI_WAIT_NONE;
  EventQueue eq(fabric, attr);
  fi_eq_entry entry{};
  uint32_t type = 0;
  auto start = Clock::now();
  EXPECT_EQ(fi_eq_sread(eq.get(), &type, &entry, sizeof entry, 100, 0), -FI_EAGAIN);
  EXPECT_GE(elapsed_ms(start), 99);
  std::thread writer([&] {
    std::this_thread::sleep_for(milliseconds(50));
    write(eq, 5);
  });
  start = Clock::now();
  EXPECT_EQ(fi_eq_sread(eq.get(), &type, &entry, sizeof entry, kWaitMs, 0), static_cast<ssize_t>(sizeof entry));
  EXPECT_LT(elapsed_ms(start), kPromptMs);
  EXPECT_EQ(entry.data, 5u);
  writer.join();
}

TEST_P(EventQueues, WaitDescriptorBecomesReadable) {
  Fabric fabric(target());
  fi_eq_attr attr = writable();
  attr.wait_obj = FI_WAIT_FD;
  EventQueue eq(fabric, attr);
  int fd = -1;
  ASSERT_EQ(fi_control(eq.fid(), FI_GETWAIT, &fd), 0);
  ASSERT_GE(fd, 0);
  pollfd entry{fd, POLLIN, 0};
  fid_t fids[] = {eq.fid()};
  ASSERT_EQ(fi_trywait(fabric.fabric(), fids, 1), 0);
  EXPECT_EQ(poll(&entry, 1, 20), 0) << "nothing to read yet";
  ASSERT_GT(write(eq, 1), 0);
  EXPECT_EQ(poll(&entry, 1, kWaitMs), 1);
  EXPECT_EQ(fi_trywait(fabric.fabric(), fids, 1), -FI_EAGAIN) << "there is an event queued";
  EXPECT_EQ(eq.read().data, 1u);
  ASSERT_EQ(fi_trywait(fabric.fabric(), fids, 1), 0);
  EXPECT_EQ(poll(&entry, 1, 20), 0) << "drained again";
}

TEST_P(EventQueues, EveryErrorOfManyIsKept) {
  CONNECTED_ONLY();
  constexpr int kClients = 40;
  Fabric fabric(target());
  Listener listener(fabric);
  EventQueue shared(fabric);
  CompletionQueue cq(fabric);
  std::vector<Handle<fid_ep>> clients;
  std::vector<InfoPtr> requests;
  for (int i = 0; i < kClients; ++i) {
    clients.push_back(opened<fid_ep>(
        "fi_endpoint", [&](fid_ep** e) { return fi_endpoint(fabric.domain(), fabric.info(), e, nullptr); }));
    ASSERT_EQ(fi_ep_bind(clients.back().get(), shared.fid(), 0), 0);
    ASSERT_EQ(fi_ep_bind(clients.back().get(), cq.fid(), FI_TRANSMIT | FI_RECV), 0);
    ASSERT_EQ(fi_connect(clients.back().get(), listener.address().get(), nullptr, 0), 0);
    requests.push_back(listener.next_request());
  }
  for (int i = 0; i < kClients; ++i) {
    const std::string reason = "reason " + std::to_string(i);
    ASSERT_EQ(fi_reject(listener.pep(), requests[i]->handle, reason.data(), reason.size()), 0);
  }
  listener.eq().stays_silent();  // lets all of them arrive before the first is read
  std::vector<std::string> reasons;
  for (int i = 0; i < kClients; ++i) {
    const Event event = shared.wait();
    ASSERT_EQ(event.type, static_cast<int>(Event::kError)) << event;
    reasons.emplace_back(event.err_data.begin(), event.err_data.end());
  }
  std::sort(reasons.begin(), reasons.end());
  EXPECT_EQ(std::unique(reasons.begin(), reasons.end()), reasons.end()) << "each error with its own data";
  EXPECT_TRUE(shared.stays_silent());
}

// A rejected connection whose error waits to be read.
struct Rejected {
  explicit Rejected(const Target& target) : fabric(target), listener(fabric), client(fabric) {
    require_ok(client.connect(listener.address()), "fi_connect");
    const InfoPtr request = listener.next_request();
    require_ok(fi_reject(listener.pep(), request->handle, "0123456789", 10), "fi_reject");
    require(!client.eq().stays_silent(kPatience), "no error entry");
  }
  Fabric fabric;
  Listener listener;
  Node client;
};

TEST_P(EventQueues, ReadAnswersErrorAvailableUntilItIsRead) {
  CONNECTED_ONLY();
  Rejected scene(target());
  char bytes[256];
  uint32_t type = 0;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(fi_eq_read(scene.client.eq().get(), &type, bytes, sizeof bytes, 0), -FI_EAVAIL);
    EXPECT_EQ(fi_eq_sread(scene.client.eq().get(), &type, bytes, sizeof bytes, kWaitMs, 0), -FI_EAVAIL);
  }
  fi_eq_err_entry entry{};
  EXPECT_GT(fi_eq_readerr(scene.client.eq().get(), &entry, 0), 0);
  EXPECT_EQ(entry.fid, scene.client.fid());
  EXPECT_EQ(entry.err, FI_ECONNREFUSED);
  EXPECT_EQ(fi_eq_read(scene.client.eq().get(), &type, bytes, sizeof bytes, 0), -FI_EAGAIN);
}

TEST_P(EventQueues, ErrDataIsCopiedIntoTheCallersBuffer) {
  CONNECTED_ONLY();
  Rejected scene(target());
  char room[32];
  std::memset(room, '#', sizeof room);
  fi_eq_err_entry entry{};
  entry.err_data = room;
  entry.err_data_size = 4;
  ASSERT_GT(fi_eq_readerr(scene.client.eq().get(), &entry, 0), 0);
  EXPECT_EQ(entry.err_data, room);
  EXPECT_EQ(entry.err_data_size, 4u) << "the number of bytes copied";
  EXPECT_EQ(std::string(room, 6), "0123##");
}

TEST_P(EventQueues, ErrDataWithoutABufferBelongsToTheProvider) {
  CONNECTED_ONLY();
  Rejected scene(target());
  fi_eq_err_entry entry{};
  ASSERT_GT(fi_eq_readerr(scene.client.eq().get(), &entry, 0), 0);
  ASSERT_NE(entry.err_data, nullptr);
  ASSERT_GE(entry.err_data_size, 10u);
  EXPECT_EQ(std::string(static_cast<const char*>(entry.err_data), 10), "0123456789");
}

TEST_P(EventQueues, StrerrorFillsTheCallersBuffer) {
  CONNECTED_ONLY();
  Rejected scene(target());
  fi_eq_err_entry entry{};
  ASSERT_GT(fi_eq_readerr(scene.client.eq().get(), &entry, 0), 0);
  char text[512] = "", shorter[8];
  std::memset(shorter, '#', sizeof shorter);
  const char* sentence = fi_eq_strerror(scene.client.eq().get(), entry.prov_errno, entry.err_data, text, sizeof text);
  ASSERT_NE(sentence, nullptr);
  EXPECT_STRNE(sentence, "");
  EXPECT_NE(fi_eq_strerror(scene.client.eq().get(), entry.prov_errno, entry.err_data, nullptr, 0), nullptr);
  fi_eq_strerror(scene.client.eq().get(), entry.prov_errno, entry.err_data, shorter, 4);
  EXPECT_EQ(shorter[4], '#') << "wrote beyond the buffer";
}

}  // namespace event_queues
