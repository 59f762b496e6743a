// SPDX-License-Identifier: BSD-2-Clause
// Reliable datagrams and many peers: hundreds that start at once, one that is killed in the middle; fi_endpoint(3)
// (FI_EP_RDM), fi_av(3).
#include <rdma/fi_atomic.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "fixture/child.h"
#include "fixture/driver.h"
#include "fixture/exit_burst.h"
#include "fixture/kept_address.h"
#include "fixture/member.h"
#include "fixture/process.h"
#include "fixture/shared_ends.h"

namespace reliable_peers {

CONFORMANCE_TOPIC(ReliablePeers);

namespace {

constexpr size_t kHundreds = 200;
constexpr size_t kLong = 64 << 20;  // as long as the child's message

bool may_open(rlim_t descriptors) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = std::max(limit.rlim_cur, std::min(limit.rlim_max, descriptors));
  return setrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur >= descriptors;
}

}  // namespace

TEST_P(ReliablePeers, HundredsOfPeersThatStartAtOnceAllConnect) {
  RELIABLE_DATAGRAMS_ONLY();
  if (!may_open(kHundreds * 30)) GTEST_SKIP() << "not allowed so many descriptors";
  Fabric fabric(target());
  DatagramEnd hub(fabric);
  std::vector<std::unique_ptr<DatagramEnd>> ends;
  std::vector<fi_addr_t> handles;
  for (size_t i = 0; i < kHundreds; ++i) {
    ends.push_back(std::make_unique<DatagramEnd>(fabric));
    (*ends.back())->peer = ends.back()->insert(hub.address());
    handles.push_back(hub.insert(ends.back()->address()));
  }
  Buffer out(fabric, 64), in(fabric, 64);
  std::vector<Context> contexts(4 * kHundreds);
  for (size_t i = 0; i < kHundreds; ++i) {
    ASSERT_EQ(hub->trecv(in, 64, i, 0, &contexts[4 * i]), 0);
    ASSERT_EQ((*ends[i])->trecv(in, 64, i, 0, &contexts[4 * i + 1]), 0);
    ASSERT_EQ((*ends[i])->tsend(out, 64, i, &contexts[4 * i + 2]), 0);
    if (i % 2 == 0) continue;  // every second pair connects from both ends
    hub->peer = handles[i];
    ASSERT_EQ(hub->tsend(out, 64, i, &contexts[4 * i + 3]), 0);
  }
  std::vector<char> heard(kHundreds, 0);
  for (size_t i = 0; i < kHundreds; ++i) {
    const Completion received = hub->rx().wait(after(std::chrono::seconds(60)));
    ASSERT_TRUE(received.ok()) << received << " after " << i;
    EXPECT_EQ(std::exchange(heard[received.entry.tag], 1), 0);
  }
  for (size_t i = 0; i < kHundreds; ++i) {
    ASSERT_TRUE((*ends[i])->tx().wait().ok()) << i;
    if (i % 2 == 0) continue;
    ASSERT_TRUE(hub->tx().wait().ok()) << i;
    ASSERT_TRUE((*ends[i])->rx().wait().ok()) << i;
  }
}

// Each client has another name.
TEST_P(ReliablePeers, ClientsThatComeAndGoLeaveNoMemoryBehind) {
  RELIABLE_DATAGRAMS_ONLY();
  // Peers are forgotten at 1024. ThreadSanitizer would take minutes for as many.
  constexpr int kAtFirst = kSanitized ? 100 : 1500;
  constexpr int kThen = kFollowsThreads ? 100 : kSanitized ? 1100 : 4000;
  constexpr size_t kMostKib = 768;  // 200 bytes a client
  Fabric fabric(target());
  DatagramEnd server(fabric);
  const Address name = server.address();
  Buffer out(fabric, 64), in(fabric, 64);
  Context sent, received;
  size_t before = 0;
  for (int i = 0; i < kAtFirst + kThen; ++i) {
    if (i == kAtFirst) before = allocated_kib();
    DatagramEnd client(fabric);
    client->peer = client.insert(name);
    ASSERT_EQ(server->trecv(in, 64, 1, 0, &received), 0);
    ASSERT_EQ(client->tsend(out, 64, 1, &sent), 0);
    ASSERT_TRUE(server->rx().wait().ok()) << i;
    ASSERT_TRUE(client->tx().wait().ok()) << i;
  }
  if (!kSanitized) {
    EXPECT_LE(allocated_kib(), before + kMostKib);
  }
}

TEST_P(ReliablePeers, ConnectionsOfClientsThatAreGoneAreFreed) {
  RELIABLE_DATAGRAMS_ONLY();
  if (target().provider != "tcp") GTEST_SKIP() << "the pool of an engine keeps the buffers for other connections";
  constexpr size_t kClients = 200, kMostKib = 260;  // a connection takes 1 KiB more
  Fabric fabric(target());
  DatagramEnd server(fabric);
  const Address name = server.address();
  Buffer out(fabric, 64), in(fabric, 64);
  Context sent, received;
  const size_t before = allocated_kib();
  {
    std::vector<std::unique_ptr<DatagramEnd>> clients(kClients);
    for (auto& client : clients) {
      client = std::make_unique<DatagramEnd>(fabric);
      (*client)->peer = client->insert(name);
      ASSERT_EQ(server->trecv(in, 64, 1, 0, &received), 0);
      ASSERT_EQ((*client)->tsend(out, 64, 1, &sent), 0);
      ASSERT_TRUE(server->rx().wait().ok());
      ASSERT_TRUE((*client)->tx().wait().ok());
    }
  }
  EXPECT_TRUE(server->rx().stays_silent(milliseconds(100)));
  if (!kSanitized) {
    EXPECT_LE(allocated_kib(), before + kMostKib);
  }
}

// The receiver makes progress in a thread of its own, as another process does.
TEST_P(ReliablePeers, InjectedMessagesArriveAlthoughTheirEndpointCloses) {
  RELIABLE_DATAGRAMS_ONLY();
  if (!target().provider.starts_with("tcp")) GTEST_SKIP() << "a queue pair ends with what its device has not sent";
  constexpr size_t kMessages = 20;
  const HintsEditor safe = [](fi_info& hints) { hints.domain_attr->threading = FI_THREAD_SAFE; };
  Fabric theirs(target(), safe);
  DatagramEnd receiver(theirs);
  Buffer in(theirs, 8);
  for (const bool connected : {false, true}) {
    SCOPED_TRACE(connected ? "connected before" : "a new peer");
    std::vector<Context> contexts(kMessages + 1);
    for (size_t i = 0; i < kMessages + connected; ++i) ASSERT_EQ(receiver->recv(in, 8, &contexts[i]), 0);
    std::atomic<size_t> arrived{0};
    std::jthread reader([&] {
      for (const auto deadline = after(kPatience); arrived < kMessages + connected && Clock::now() < deadline;)
        if (receiver->rx().read().ok()) ++arrived;
    });
    {
      Fabric ours(target(), safe);
      DatagramEnd sender(ours);
      const fi_addr_t peer = sender.insert(receiver.address());
      Buffer out(ours, 8);
      Context sent;
      ssize_t rc = 0;
      if (connected) {
        while ((rc = fi_send(sender->ep(), out.data(), 8, out.desc(), peer, &sent)) == -FI_EAGAIN) sender->tx().read();
        ASSERT_EQ(rc, 0);
        for (const auto deadline = after(kPatience); !sender->tx().read().ok();) ASSERT_LT(Clock::now(), deadline);
      }
      for (size_t i = 0; i < kMessages; ++i) {
        while ((rc = fi_inject(sender->ep(), "message", 8, peer)) == -FI_EAGAIN) sender->tx().read();
        ASSERT_EQ(rc, 0);
      }
    }
    reader.join();
    EXPECT_EQ(arrived, kMessages + connected);
  }
}

TEST_P(ReliablePeers, InjectedMessagesOfANewPeerArriveHoweverManyTheyAre) {
  RELIABLE_DATAGRAMS_ONLY();
  constexpr size_t kMost = 1800, kLongest = 8000;
  Fabric theirs(target()), ours(target());
  DatagramEnd receiver(theirs), sender(ours);
  const fi_addr_t peer = sender.insert(receiver.address());
  const size_t length = std::min(kLongest, ours.info()->tx_attr->inject_size);
  Buffer out(ours, length), in(theirs, length);
  size_t taken = 0, arrived = 0;
  while (taken < kMost && fi_inject(sender->ep(), out.data(), length, peer) == 0) ++taken;
  EXPECT_GT(taken, 0U);
  Context received;
  ASSERT_EQ(receiver->recv(in, length, &received), 0);
  for (const auto deadline = after(kPatience); arrived < taken && Clock::now() < deadline;) {
    const Completion sent = sender->tx().read();
    ASSERT_EQ(sent.rc, -FI_EAGAIN) << sent;
    if (!receiver->rx().read().ok()) continue;
    ASSERT_EQ(receiver->recv(in, length, &received), 0);
    ++arrived;
  }
  EXPECT_EQ(arrived, taken);
}

// Calls that have returned 0 have taken the messages over, as the system takes over what is written to a socket.
TEST_P(ReliablePeers, InjectedMessagesArriveAlthoughTheirProcessExits) {
  RELIABLE_DATAGRAMS_ONLY();
  if (!target().provider.starts_with("tcp")) GTEST_SKIP() << "a queue pair ends with what its device has not sent";
  using namespace exit_burst;
  for (const char* shares : {"0", "1"})
    for (const size_t length : {8ul, 64ul, 2000ul, 10'000ul}) {
      if (length > 64 && target().provider != "tcp") continue;  // the lower provider has no copy
      SCOPED_TRACE(std::string(shares) + " " + std::to_string(length));
      Fabric fabric(target());
      DatagramEnd stays(fabric);
      Receives receives(stays, kLast, length);
      Buffer out(fabric, 1);
      child::Running leaves("inject_and_exit",
                            {{"WEFT_CONFORMANCE_PEER", target().address + " " + std::to_string(stays.address().port())},
                             {"WEFT_CONFORMANCE_LENGTH", std::to_string(length)},
                             {"FI_TCP_SHARED_MEMORY", shares}});
      stays.meet_child();
      const auto expect = [&](size_t count) {
        for (size_t i = 0; i < count; ++i) {
          const Completion arrival = stays->rx().wait();
          ASSERT_TRUE(arrival.ok()) << i << ": " << arrival;
          ASSERT_TRUE(receives[i].holds_pattern(static_cast<unsigned>(i), length)) << i;
        }
      };
      for (size_t burst = 0; burst < kBursts; ++burst) {
        receives.post(kBurst, kToParent);
        ASSERT_NO_FATAL_FAILURE(expect(kBurst)) << burst;
        if (burst + 1 == kBursts) receives.post(kLast, kToParent);
        Context answered;
        ASSERT_EQ(stays->tsend(out, 1, kToChild, &answered), 0);
        ASSERT_TRUE(stays->tx().wait().ok());
      }
      expect(kLast);
    }
}

// Injected messages of all peers have a second together.
TEST_P(ReliablePeers, ClosingWaitsForManyStoppedPeersNoLongerThanForOne) {
  RELIABLE_DATAGRAMS_ONLY();
  if (!target().provider.starts_with("tcp")) GTEST_SKIP() << "a queue pair ends with what its device has not sent";
  constexpr size_t kPeers = 6, kMost = 5000;
  constexpr std::chrono::seconds kTogether{4};
  Fabric fabric(target());
  DatagramEnd ours(fabric);
  const std::string name = target().address + " " + std::to_string(ours.address().port());
  Buffer bytes(fabric, 1000);
  std::vector<std::unique_ptr<child::Running>> peers;
  for (size_t i = 0; i < kPeers; ++i) {
    peers.push_back(std::make_unique<child::Running>("echo", child::Environment{{"WEFT_CONFORMANCE_PEER", name}}));
    ours.meet_child();
    for (int round = 0; round < 12; ++round) {
      Context sent, received;
      ASSERT_EQ(ours->trecv(bytes, bytes.size(), 3, 0, &received), 0);
      ASSERT_EQ(ours->tsend(bytes, bytes.size(), 2, &sent), 0);
      ASSERT_TRUE(ours->tx().wait().ok());
      ASSERT_TRUE(ours->rx().wait().ok());
    }
    peers.back()->stop();
    size_t injected = 0;
    while (injected < kMost && fi_tinject(ours->ep(), bytes.data(), bytes.size(), ours->peer, 2) == 0) ++injected;
    EXPECT_GT(injected, 1u);
  }
  const auto start = Clock::now();
  ours->close();
  EXPECT_LT(Clock::now() - start, kTogether);
}

// As much as a socket's buffer takes. A program may wait for its completions while the peer waits for something else.
TEST_P(ReliablePeers, ShortMessagesCompleteAlthoughTheirPeerMakesNoProgress) {
  RELIABLE_DATAGRAMS_ONLY();
  if (!target().provider.starts_with("tcp")) GTEST_SKIP() << "a device sends what the peer has receives for";
  constexpr size_t kMessages = 500, kLength = 2000;
  for (const bool sleeps : {false, true}) {
    SCOPED_TRACE(sleeps);
    Fabric fabric(target());
    NodeOptions options;
    options.tx_cq.wait_obj = FI_WAIT_UNSPEC;
    DatagramEnd end(fabric, options);
    child::Running peer("echo",
                        {{"WEFT_CONFORMANCE_PEER", target().address + " " + std::to_string(end.address().port())}});
    end.meet_child();
    Buffer out(fabric, kLength), in(fabric, kLength);
    for (int round = 0; round < 12; ++round) {
      Context sent, received;
      ASSERT_EQ(end->trecv(in, kLength, 3, 0, &received), 0);
      ASSERT_EQ(end->tsend(out, kLength, 2, &sent), 0);
      ASSERT_TRUE(end->tx().wait().ok());
      ASSERT_TRUE(end->rx().wait().ok());
    }
    peer.stop();
    std::vector<Context> sent(kMessages);
    for (Context& context : sent) ASSERT_EQ(retry([&] { return end->tsend(out, kLength, 2, &context); }), 0);
    for (size_t i = 0; i < kMessages; ++i) {
      fi_cq_tagged_entry entry;
      if (sleeps)
        ASSERT_EQ(fi_cq_sread(end->tx().get(), &entry, 1, nullptr, kPatience.count()), 1) << i;
      else
        ASSERT_TRUE(end->tx().wait().ok()) << i;
    }
    // The messages arrive once the peer goes on.
    std::vector<Context> received(kMessages);
    peer.go_on();
    for (Context& context : received) {
      ASSERT_EQ(end->trecv(in, kLength, 3, 0, &context), 0);
      ASSERT_TRUE(end->rx().wait().ok());
    }
  }
}

// Injected messages have no completions, so nothing reminds a program of its queue. Calls alone get ahead.
TEST_P(ReliablePeers, SendersThatReadNoQueueReachTheirPeers) {
  RELIABLE_DATAGRAMS_ONLY();
  constexpr size_t kReceives = 16, kAlone = 20, kAtOnce = 3000;
  const HintsEditor safe = [](fi_info& hints) { hints.domain_attr->threading = FI_THREAD_SAFE; };
  Fabric theirs(target(), safe), ours(target(), safe);
  DatagramEnd receiver(theirs), sender(ours);
  const fi_addr_t peer = sender.insert(receiver.address());
  Buffer in(theirs, 8), out(ours, 8);
  std::vector<Context> receives(kReceives), sends(kAtOnce);
  for (Context& context : receives) ASSERT_EQ(receiver->recv(in, 8, &context), 0);
  std::atomic<size_t> arrived{0};
  std::jthread reader([&](std::stop_token stop) {
    while (!stop.stop_requested()) {
      const Completion received = receiver->rx().read();
      if (!received.ok()) continue;
      EXPECT_EQ(receiver->recv(in, 8, static_cast<Context*>(received.context())), 0);
      ++arrived;
    }
  });
  const auto arrives = [&](size_t count, std::chrono::milliseconds patience) {
    for (const auto deadline = after(patience); arrived < count && Clock::now() < deadline;) std::this_thread::yield();
    return arrived >= count;
  };
  size_t sent = 0;
  for (const auto deadline = after(kPatience); arrived == 0;) {
    ASSERT_LT(Clock::now(), deadline) << "no message arrives";
    const ssize_t rc = fi_inject(sender->ep(), "message", 8, peer);
    ASSERT_TRUE(rc == 0 || rc == -FI_EAGAIN) << rc;
    sent += rc == 0;
    (void)arrives(1, std::chrono::milliseconds(20));
  }
  for (size_t i = 0; i < kAlone; ++i) {
    ASSERT_EQ(fi_inject(sender->ep(), "message", 8, peer), 0);
    ASSERT_TRUE(arrives(++sent, kPatience)) << i;
  }
  // A program that repeats a call until there is room.
  for (Context& context : sends) {
    ASSERT_EQ(repeat([&] { return fi_send(sender->ep(), out.data(), 8, out.desc(), peer, &context); }), 0);
    ++sent;
  }
  for (size_t i = 0; i < kAtOnce; ++i) ASSERT_TRUE(sender->tx().wait().ok()) << i;
  EXPECT_TRUE(arrives(sent, kPatience));
}

TEST_P(ReliablePeers, PeerThatIsKilledFailsItsOperationsAndNoOthers) {
  RELIABLE_DATAGRAMS_ONLY();
  Fabric fabric(target());
  DatagramEnd stays(fabric), other(fabric);
  const fi_addr_t friendly = stays.insert(other.address());
  for (int round = 0; round < 3; ++round) {
    child::Running peer("announce_and_stay",
                        {{"WEFT_CONFORMANCE_PEER", target().address + " " + std::to_string(stays.address().port())}});
    Buffer out(fabric, 1 << 20), in(fabric, kLong), small(fabric, 64);
    Context fetching, sends[3], greeting, greeted;
    stays.meet_child();
    for (Context& context : sends) ASSERT_EQ(stays->tsend(out, out.size(), 77, &context), 0);
    // The announced message is in flight when the child dies, at some point of the transfer.
    ASSERT_EQ(stays->trecv(in, kLong, 2, 0, &fetching), 0);
    for (int i = 0; i < 200 * round; ++i) driver::poke();
    peer.kill();
    const Completion fetched = stays->rx().wait(after(std::chrono::seconds(30)));
    EXPECT_EQ(fetched.context(), &fetching);
    EXPECT_TRUE(fetched.ok() || fetched.err() == FI_ECONNRESET) << fetched;
    bool seen[3] = {};
    for (int i = 0; i < 3; ++i) {
      const Completion failed = stays->tx().wait(after(std::chrono::seconds(30)));
      EXPECT_EQ(failed.err(), FI_ECONNRESET) << failed;
      const auto* context = static_cast<const Context*>(failed.context());
      ASSERT_TRUE(context >= sends && context < sends + 3);
      EXPECT_FALSE(std::exchange(seen[context - sends], true));
    }
    ASSERT_EQ(other->trecv(small, 64, 5, 0, &greeted), 0);
    stays->peer = friendly;
    ASSERT_EQ(stays->tsend(small, 64, 5, &greeting), 0);
    EXPECT_TRUE(stays->tx().wait().ok());
    EXPECT_TRUE(other->rx().wait().ok());
    EXPECT_TRUE(stays->tx().stays_silent());
    EXPECT_TRUE(stays->rx().stays_silent(milliseconds(1)));
  }
}

namespace {

// Traffic in both directions while the peer's entry comes and goes.
void expect_traffic_after_removal(const Target& target, fi_av_type type) {
  const HintsEditor typed = [&](fi_info& hints) { hints.domain_attr->av_type = type; };
  Fabric fabric(target, typed);
  DatagramEnd end(fabric, {}, type), first(fabric, {}, type), second(fabric, {}, type);
  first->peer = first.insert(end.address());
  second->peer = second.insert(end.address());
  fi_addr_t handle = end.insert(first.address());
  for (int round = 0; round < 20; ++round) {
    DatagramEnd& there = round % 3 == 2 ? second : first;
    end->peer = handle;
    expect_round_trip(*end, *there);
    expect_round_trip(*there, *end);
    expect_round_trip(*end, *there, 200'000);
    ASSERT_EQ(fi_av_remove(end.av(), &handle, 1, 0), 0);
    expect_round_trip(*there, *end);  // messages of removed peers still arrive
    const fi_addr_t before = handle;
    handle = end.insert(((round + 1) % 3 == 2 ? second : first).address());
    if (type == FI_AV_TABLE) {
      EXPECT_EQ(handle, before) << "the lowest unused index";
    }
  }
}

}  // namespace

TEST_P(ReliablePeers, PeerRemovedFromATableAndInsertedAgainIsReached) {
  RELIABLE_DATAGRAMS_ONLY();
  expect_traffic_after_removal(target(), FI_AV_TABLE);
}

TEST_P(ReliablePeers, PeerRemovedFromAMapAndInsertedAgainIsReached) {
  RELIABLE_DATAGRAMS_ONLY();
  expect_traffic_after_removal(target(), FI_AV_MAP);
}

// The entry is removed while its operations are outstanding: they end, each once.
TEST_P(ReliablePeers, PeerRemovedMeanwhileReceivesSentMessages) {
  RELIABLE_DATAGRAMS_ONLY();
  Fabric fabric(target());
  DatagramEnd end(fabric), other(fabric);
  const size_t length = fabric.length_up_to(1 << 20);
  Buffer out(fabric, length), in(fabric, length);
  for (int round = 0; round < 10; ++round) {
    Context sends[4], receives[4];
    end->peer = end.insert(other.address());
    out.fill_pattern(static_cast<unsigned>(round));
    for (Context& context : sends) ASSERT_EQ(end->tsend(out, length, 6, &context), 0);
    for (int i = 0; i < round; ++i) driver::poke();
    ASSERT_EQ(fi_av_remove(end.av(), &end->peer, 1, 0), 0);
    for (Context& context : receives) {
      ASSERT_EQ(other->trecv(in, length, 6, 0, &context), 0);
      const Completion received = other->rx().wait();
      ASSERT_TRUE(received.ok()) << received;
      EXPECT_TRUE(in.holds_pattern(static_cast<unsigned>(round), length));
    }
    for (Context& context : sends) {
      const Completion sent = end->tx().wait();
      ASSERT_TRUE(sent.ok()) << sent;
      EXPECT_EQ(sent.context(), &context);
    }
    EXPECT_TRUE(end->tx().stays_silent(milliseconds(1)));
  }
}

// One round of progress reads the events of 32 endpoints at most; all of these have messages in every round.
TEST_P(ReliablePeers, MoreEndpointsThanOneRoundServesConnectWhileAllAreBusy) {
  RELIABLE_DATAGRAMS_ONLY();
  constexpr size_t kEnds = 40;
  constexpr uint64_t kRing = 1, kLate = 2;
  Fabric fabric(target());
  Buffer out(fabric, 8), in(fabric, 8);
  std::vector<std::unique_ptr<DatagramEnd>> ends(kEnds);
  for (auto& end : ends) end = std::make_unique<DatagramEnd>(fabric);
  std::vector<Context> ring(kEnds), late(kEnds), sent(kEnds), sent_late(kEnds);
  std::vector<fi_addr_t> next(kEnds), behind(kEnds);
  std::vector<size_t> turns(kEnds), pending(kEnds, 2);
  const auto pass_on = [&](size_t i) {
    ASSERT_EQ((*ends[i])->trecv(in, 8, kRing, 0, &ring[i]), 0);
    (*ends[i])->peer = next[i];
    ASSERT_EQ((*ends[i])->tsend(out, 8, kRing, &sent[i]), 0);
  };
  size_t arrived = 0;
  const auto round = [&] {
    for (size_t i = 0; i < kEnds; ++i) {
      for (CompletionQueue* queue : {&(*ends[i])->tx(), &(*ends[i])->rx()}) {
        const Completion done = queue->read();
        if (done.rc == -FI_EAGAIN) continue;
        ASSERT_TRUE(done.ok()) << done;
        arrived += done.context() == &late[i];
        pending[i] -= done.context() == &ring[i] || done.context() == &sent[i];
      }
      if (pending[i] != 0) continue;
      pending[i] = 2;
      ++turns[i];
      pass_on(i);
    }
  };
  for (size_t i = 0; i < kEnds; ++i) {
    next[i] = ends[i]->insert(ends[(i + 1) % kEnds]->address());
    behind[i] = ends[i]->insert(ends[(i + 7) % kEnds]->address());
  }
  for (size_t i = 0; i < kEnds; ++i) pass_on(i);
  const auto all_turned = [&] { return *std::min_element(turns.begin(), turns.end()) >= 10; };
  for (const auto limit = after(kPatience); !all_turned() && Clock::now() < limit;) round();
  ASSERT_TRUE(all_turned());
  for (size_t i = 0; i < kEnds; ++i) {
    ASSERT_EQ((*ends[i])->trecv(in, 8, kLate, 0, &late[i]), 0);
    (*ends[i])->peer = behind[i];
    ASSERT_EQ((*ends[i])->tsend(out, 8, kLate, &sent_late[i]), 0);
  }
  for (const auto limit = after(kPatience); arrived < kEnds && Clock::now() < limit;) round();
  EXPECT_EQ(arrived, kEnds);
}

// The peer has not noticed the end of the connection.
TEST_P(ReliablePeers, AnAddressIsFreeOnceItsEndpointIsClosed) {
  RELIABLE_DATAGRAMS_ONLY();
  Fabric ours(target()), theirs(target());
  DatagramEnd peer(theirs);
  auto first = std::make_unique<DatagramEnd>(ours);
  Address name = first->address();
  peer->peer = peer.insert(name);
  expect_round_trip(*peer, **first);
  first.reset();
  NodeOptions same;
  same.configure = [&](fid_ep* ep) { EXPECT_EQ(fi_setname(&ep->fid, &name.storage, name.size), 0); };
  DatagramEnd second(ours, same);
  EXPECT_EQ(second.address().port(), name.port());
}

// Both have it from the beginning, but one endpoint only may listen there.
TEST_P(ReliablePeers, AnEndpointIsEnabledOnceItsAddressIsFree) {
  RELIABLE_DATAGRAMS_ONLY();
  if (!target().provider.starts_with("tcp")) GTEST_SKIP() << "an identifier of verbs has its address alone";
  Fabric fabric(target());
  const KeptAddress name(fabric);
  const Handle<fid_av> vector = open_vector(fabric);
  NodeOptions same = name.options();
  same.configure = [&, set_name = same.configure](fid_ep* ep) {
    set_name(ep);
    require_ok(fi_ep_bind(ep, &vector->fid, 0), "fi_ep_bind AV");
  };
  Node first(fabric, same), second(fabric, same);
  first.enable();
  EXPECT_EQ(fi_enable(second.ep()), -FI_EADDRINUSE);
  EXPECT_EQ(fi_enable(second.ep()), -FI_EADDRINUSE);
  first.close();
  EXPECT_EQ(fi_enable(second.ep()), 0);
  EXPECT_EQ(Address::local_name(second.fid()), *name);
  second.close();
}

// A program that posts an operation for each completion, and reads nothing else: its queue is never empty while
// operations fail at once.
TEST_P(ReliablePeers, AProgramThatReadsItsCompletionsOnlyReachesAPeerAgain) {
  RELIABLE_DATAGRAMS_ONLY();
  const HintsEditor rma = [](fi_info& hints) {
    hints.caps = FI_MSG | FI_RMA;
    hints.tx_attr->op_flags = FI_DELIVERY_COMPLETE;
  };
  Fabric here(target(), rma), there(target(), rma);  // apart, or driving one drives the other
  DatagramEnd a(here), b(there);
  a->peer = a.insert(b.address());
  b->peer = b.insert(a.address());
  expect_round_trip(*a, *b);
  Buffer local(here, 64, 'l', FI_WRITE), remote(there, 64, 'r', FI_REMOTE_WRITE);
  constexpr int kAtATime = 2;
  Context contexts[kAtATime];
  const auto write_at_once = [&](uint64_t key) {
    int ended = 0, succeeded = 0;
    for (Context& context : contexts)
      while (fi_write(a->ep(), local.data(), 64, local.desc(), a->peer, remote.remote_address(), key, &context) ==
             -FI_EAGAIN)
        fi_cq_read(b->rx().get(), nullptr, 0);
    for (const auto limit = after(kPatience); ended < kAtATime && Clock::now() < limit;) {
      fi_cq_read(b->rx().get(), nullptr, 0);
      const Completion completion = a->tx().read();
      ended += completion.rc != -FI_EAGAIN;
      succeeded += completion.ok();
    }
    EXPECT_EQ(ended, kAtATime);
    return succeeded;
  };
  EXPECT_EQ(write_at_once(remote.key()), kAtATime);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(write_at_once(remote.key() + 1000), 0) << "no such key, which ends the connection";
    int written = 0;
    for (const auto limit = after(kPatience); written != kAtATime && Clock::now() < limit;)
      written = write_at_once(remote.key());
    ASSERT_EQ(written, kAtATime) << "the peer lives and is not reached";
  }
}

}  // namespace reliable_peers
