// SPDX-License-Identifier: BSD-2-Clause
// Failures of datagram endpoints and groups of the verbs provider: every call of libibverbs and librdmacm fails once,
// ports go down and come back, the network ends groups, queue pairs break, peers do not answer. fi_cm(3) fi_join,
// fi_av(3).
#include <sys/epoll.h>
#include <unistd.h>

#include <set>
#include <vector>

#include "call_failures.h"
#include "datagram_world.h"

namespace faults_datagrams_test {

namespace {

struct Kind {
  uint64_t av_flags = 0;
  uint32_t addr_format = FI_SOCKADDR_IN;  // FI_ADDR_IB_UD: without groups
};

// One conversation in the group and one beside it. Whichever call fails, the conversation ends and all posted
// operations have completed.
void converse(const Kind& kind) {
  World world;
  if (!world.open(kind.av_flags, kind.addr_format)) return;
  Member &sender = world.sender, &receiver = world.receiver;
  int posted = 0, completed = 0;
  if (kind.addr_format != FI_ADDR_IB_UD && joins(sender) && joins(receiver)) {
    posted += receiver.post_receive();
    posted += sender.send_to_group();
  }
  fi_addr_t peer = FI_ADDR_NOTAVAIL;
  int inserted = fi_av_insert(sender.av, receiver.raw_name, 1, &peer, 0, nullptr);
  if (inserted == 0 && kind.av_flags == FI_EVENT) {
    Event event;
    EXPECT_TRUE(wait([&] { return (event = sender.read()).type == FI_AV_COMPLETE; })) << "an insertion must end";
    inserted = static_cast<int>(event.data);
  }
  if (inserted == 1) {
    posted += receiver.post_receive();
    fi_inject(sender.ep, sender.out, 6, peer);  // no completion, and it may get lost
  }
  wait([&] { return (completed += sender.drain() + receiver.drain()) >= posted; }, 20);
  close_one(sender.mc, "group");
  close_one(receiver.mc, "group");
  close_one(sender.ep, "endpoint");
  close_one(receiver.ep, "endpoint");
  completed += sender.drain() + receiver.drain();
  EXPECT_EQ(completed, posted);
}

std::map<std::string, uint64_t> calls_without_failure(const Kind& kind) {
  fake::reset();
  converse(kind);
  return fake::calls();
}

int error_for(const std::string& call) {
  return call.find("create") != call.npos || call.find("attach") != call.npos ? ENOMEM : EIO;
}

}  // namespace

class FaultsDatagrams : public testing::Test {
 protected:
  void SetUp() override {
    setenv("FI_VERBS_CONNECT_TIMEOUT", "500", 1);
    fake::reset();
  }
  void TearDown() override {
    fake::reset();
    unsetenv("FI_VERBS_CONNECT_TIMEOUT");
    EXPECT_EQ(fake::leaks(), "");
  }
};

void each_call_fails_once(const Kind& kind) {
  int runs = 0, reached = 0;
  for (const auto& [call, count] : calls_without_failure(kind)) {
    for (const uint64_t nth : ends::occurrences(count)) {
      SCOPED_TRACE(call + " number " + std::to_string(nth));
      fake::reset();
      fake::fail(call, nth, error_for(call));
      converse(kind);
      ++runs;
      reached += fake::failure_happened();
      EXPECT_EQ(fake::leaks(), "");
    }
  }
  EXPECT_GT(reached, runs / 2);
  std::printf("%d runs, the failing call was reached in %d\n", runs, reached);
}

TEST_F(FaultsDatagrams, EachCallFailsOnce) {
  each_call_fails_once({});
}

TEST_F(FaultsDatagrams, EachCallFailsOnceWhileInsertionsHaveEvents) {
  each_call_fails_once({.av_flags = FI_EVENT});
}

TEST_F(FaultsDatagrams, EachCallFailsOnceBetweenNativeAddresses) {
  each_call_fails_once({.addr_format = FI_ADDR_IB_UD});
}

TEST_F(FaultsDatagrams, PortDownIsReportedAndMembershipIsRestored) {
  World world;
  ASSERT_TRUE(world.open() && joins(world.sender) && joins(world.receiver));
  fake::set_port_state("fake0", IBV_PORT_DOWN);
  for (Member* member : {&world.sender, &world.receiver}) {
    const Event event = next_event(*member);
    EXPECT_EQ(event.error, FI_ENETDOWN);
    EXPECT_EQ(event.fid, &member->mc->fid);
    EXPECT_NE(event.sentence.find("239.7.7.7"), std::string::npos) << event.sentence;
  }
  EXPECT_FALSE(world.sender.send_to_group()) << "not a member now";
  fake::set_port_state("fake0", IBV_PORT_ACTIVE);
  for (Member* member : {&world.sender, &world.receiver}) EXPECT_EQ(next_event(*member).type, FI_JOIN_COMPLETE);
  ASSERT_TRUE(world.receiver.post_receive() && world.sender.send_to_group());
  EXPECT_TRUE(wait([&] { return world.receiver.drain() == 1; }));
  EXPECT_STREQ(world.receiver.in, "hello");
}

TEST_F(FaultsDatagrams, MembershipEndedByTheNetworkIsReportedAndRestored) {
  World world;
  ASSERT_TRUE(world.open() && joins(world.receiver));
  for (const auto kind : {RDMA_CM_EVENT_MULTICAST_ERROR, RDMA_CM_EVENT_ADDR_CHANGE}) {
    fake::inject_cm_event(fake::ids().back().id, kind, -ENETUNREACH);
    EXPECT_EQ(next_event(world.receiver).error, kind == RDMA_CM_EVENT_ADDR_CHANGE ? FI_EADDRNOTAVAIL : FI_ENETUNREACH);
    EXPECT_EQ(next_event(world.receiver).type, FI_JOIN_COMPLETE);
  }
}

TEST_F(FaultsDatagrams, DeviceWithoutRoomForMembersIsNamedInTheError) {
  World world;
  ASSERT_TRUE(world.open());
  fake::fail("ibv_attach_mcast", 1, ENOMEM);
  ASSERT_TRUE(world.receiver.join());
  const Event event = next_event(world.receiver);
  EXPECT_EQ(event.error, EUSERS);
  EXPECT_NE(event.sentence.find("members"), std::string::npos) << event.sentence;
  close_one(world.receiver.mc, "group");
  EXPECT_TRUE(joins(world.receiver)) << "a failed join does not prevent the next";
}

TEST_F(FaultsDatagrams, NextJoinReusesTheIdOfTheLast) {
  World world;
  ASSERT_TRUE(world.open() && joins(world.receiver));
  close_one(world.receiver.mc, "group");
  const uint64_t made = fake::calls()["rdma_create_id"];
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(joins(world.receiver));
    close_one(world.receiver.mc, "group");
  }
  EXPECT_EQ(fake::calls()["rdma_create_id"], made);
  fake::fail("rdma_join_multicast", 1, EINVAL);
  ASSERT_TRUE(joins(world.receiver)) << "an id that became useless does not prevent the next join";
  EXPECT_EQ(fake::calls()["rdma_create_id"], made + 1);
  ASSERT_TRUE(world.receiver.post_receive() && joins(world.sender) && world.sender.send_to_group());
  EXPECT_TRUE(wait([&] { return world.receiver.drain() == 1; }));
}

// The kernel limits the paths of an event through nested epoll descriptors, to 100 at this depth.
TEST_F(FaultsDatagrams, HundredsOfEndpointsFitInOneEpollSet) {
  constexpr int kCount = 300;
  World world;
  ASSERT_TRUE(world.open());
  world.info->rx_attr->size = 4;
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  std::vector<Member> members(kCount);
  for (int i = 0; i < kCount; ++i) {
    ASSERT_TRUE(members[i].open(world.fabric, world.domain, world.info, 0, FI_WAIT_FD)) << i;
    int fd = -1;
    ASSERT_EQ(fi_control(&members[i].cq->fid, FI_GETWAIT, &fd), 0) << i;
    epoll_event event{.events = EPOLLIN, .data = {.u32 = static_cast<uint32_t>(i)}};
    ASSERT_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), 0) << i << ": " << std::strerror(errno);
  }
  for (const int i : {0, kCount - 1}) {
    fi_addr_t peer = FI_ADDR_NOTAVAIL;
    ASSERT_EQ(fi_av_insert(world.sender.av, &members[i].name, 1, &peer, 0, nullptr), 1);
    ASSERT_TRUE(members[i].post_receive());
    fid_t queue = &members[i].cq->fid;
    ASSERT_TRUE(wait([&] { return fi_trywait(world.fabric, &queue, 1) == 0; }));
    ASSERT_EQ(fi_inject(world.sender.ep, world.sender.out, 6, peer), 0);
    epoll_event event{};
    ASSERT_EQ(epoll_wait(epoll, &event, 1, 10'000), 1);
    EXPECT_TRUE(wait([&] { return members[i].drain() == 1; }));
  }
  close(epoll);
  for (Member& member : members) member.close();
}

TEST_F(FaultsDatagrams, LeavingWhileTheJoinIsPendingPostsNoEvent) {
  World world;
  ASSERT_TRUE(world.open());
  fake::hold();
  ASSERT_TRUE(world.receiver.join());
  for (int i = 0; i < 10; ++i) EXPECT_EQ(world.receiver.read().fid, nullptr);
  close_one(world.receiver.mc, "group");
  fake::deliver_all();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(world.receiver.read().fid, nullptr);
}

TEST_F(FaultsDatagrams, BrokenQueuePairIsRestarted) {
  World world;
  ASSERT_TRUE(world.open() && joins(world.sender) && joins(world.receiver));
  const auto all = fake::queue_pairs();  // queue pairs that other tests kept from being destroyed come first
  for (auto qp = all.end() - 2; qp != all.end(); ++qp) fake::raise(*qp, IBV_EVENT_QP_FATAL);
  const auto heard = [&] {
    world.sender.read();
    world.receiver.read();
    world.sender.send_to_group();  // refused, or lost, while the queue pairs are broken
    world.sender.drain();
    return world.receiver.drain() == 1;
  };
  ASSERT_TRUE(world.receiver.post_receive());
  EXPECT_TRUE(wait(heard));
}

TEST_F(FaultsDatagrams, UnresolvablePeersAreRefused) {
  World world;
  ASSERT_TRUE(world.open());
  const sockaddr_in nobody = ip("127.0.0.1", 9);
  fi_addr_t peer = 0;
  int status = 0;
  EXPECT_EQ(fi_av_insert(world.sender.av, &nobody, 1, &peer, FI_SYNC_ERR, &status), 0);
  EXPECT_EQ(status, FI_ECONNREFUSED);
  EXPECT_EQ(peer, FI_ADDR_NOTAVAIL);
  fake::lose(fake::Message::kRequest);
  EXPECT_EQ(fi_av_insert(world.sender.av, &world.receiver.name, 1, &peer, FI_SYNC_ERR, &status), 0);
  EXPECT_EQ(status, FI_ETIMEDOUT);
  EXPECT_EQ(fi_av_insert(world.sender.av, &world.receiver.name, 1, &peer, 0, nullptr), 1);
}

// A lookup that the peer answers with an error status (IBA 16.7.2) fails with a number and a sentence for that status.
TEST_F(FaultsDatagrams, EachLookupStatusHasItsError) {
  const std::pair<int, int> rows[] = {
      {1, FI_ECONNREFUSED}, {2, FI_ECONNREFUSED}, {3, FI_EREMOTEIO}, {4, FI_EHOSTUNREACH}, {5, FI_ENOPROTOOPT}};
  std::set<std::string> sentences;
  for (const auto& [status, error] : rows) {
    World world;
    ASSERT_TRUE(world.open(FI_EVENT));
    const size_t before = fake::ids().size();
    fi_addr_t peer = FI_ADDR_NOTAVAIL;
    fake::lose(fake::Message::kRequest);
    ASSERT_EQ(fi_av_insert(world.sender.av, &world.receiver.name, 1, &peer, 0, nullptr), 0);
    const auto asking = [&] {
      return fake::ids().size() > before && fake::ids().back().state == std::string("request sent");
    };
    ASSERT_TRUE(wait(asking));
    fake::inject_cm_event(fake::ids().back().id, RDMA_CM_EVENT_UNREACHABLE, status);
    const Event event = next_event(world.sender);
    EXPECT_EQ(event.error, error) << event.sentence;
    EXPECT_NE(event.sentence.find("looking up the datagram endpoint 127.0.0.1:"), std::string::npos) << event.sentence;
    EXPECT_TRUE(sentences.insert(event.sentence.substr(event.sentence.find("answer"))).second) << event.sentence;
  }
}

TEST_F(FaultsDatagrams, InsertionWithEventsReportsEachFailureAndTheCount) {
  World world;
  ASSERT_TRUE(world.open(FI_EVENT));
  const sockaddr_in peers[3] = {world.receiver.name, ip("127.0.0.1", 9), world.sender.name};
  fi_addr_t handles[3];
  ASSERT_EQ(fi_av_insert(world.sender.av, peers, 3, handles, 0, nullptr), 0);
  const Event failed = next_event(world.sender);
  EXPECT_EQ(failed.error, FI_ECONNREFUSED);
  EXPECT_NE(failed.sentence.find("127.0.0.1:9"), std::string::npos) << failed.sentence;
  const Event done = next_event(world.sender);
  EXPECT_EQ(done.type, FI_AV_COMPLETE);
  EXPECT_EQ(done.data, 2u);
  EXPECT_EQ(handles[1], FI_ADDR_NOTAVAIL);
}

TEST_F(FaultsDatagrams, ClosingAVectorCancelsItsLookups) {
  World world;
  ASSERT_TRUE(world.open(FI_EVENT));
  fake::lose(fake::Message::kRequest, 100);
  fi_addr_t handle;
  ASSERT_EQ(fi_av_insert(world.sender.av, &world.receiver.name, 1, &handle, 0, nullptr), 0);
  close_one(world.sender.ep, "endpoint");
  const auto start = Clock::now();
  close_one(world.sender.av, "address vector");
  EXPECT_LT(Clock::now() - start, std::chrono::milliseconds(400)) << "closing does not wait for the lookup's time-out";
}

// Mainly for TSan: sending, receiving, joining, leaving and inserting at the same time.
TEST_F(FaultsDatagrams, ThreadsSendWhileOthersJoinAndLeave) {
  constexpr int kRounds = 100;
  World world;
  ASSERT_TRUE(world.open() && joins(world.sender) && joins(world.receiver));
  std::atomic<bool> over{false};
  std::atomic<int> heard{0};
  std::thread sender([&] {
    while (!over) {
      world.sender.send_to_group();
      world.sender.drain();
    }
  });
  std::thread listener([&] {
    while (!over) {
      world.receiver.post_receive();
      heard += world.receiver.drain();
    }
  });
  const sockaddr_in other = ip("239.7.7.8", 4711);
  for (int i = 0; i < kRounds; ++i) {
    fid_mc* mc = nullptr;
    ASSERT_EQ(fi_join(world.receiver.ep, &other, 0, &mc, nullptr), 0);
    EXPECT_EQ(next_event(world.receiver).type, FI_JOIN_COMPLETE);
    close_one(mc, "group");
    fi_addr_t peer;
    EXPECT_EQ(fi_av_insert(world.sender.av, &world.receiver.name, 1, &peer, 0, nullptr), 1);
    EXPECT_EQ(fi_av_remove(world.sender.av, &peer, 1, 0), 0);
  }
  EXPECT_TRUE(wait([&] { return heard > 0; }));
  over = true;
  sender.join();
  listener.join();
}

// Mainly for ASan and TSan: the reader of a queue posts the chains (FI_MORE) of all endpoints that are bound to it.
TEST_F(FaultsDatagrams, EndpointsCloseWhileAnotherThreadPostsTheirChains) {
  constexpr int kRounds = 100;
  World world;
  ASSERT_TRUE(world.open());
  Member& sender = world.sender;
  fi_addr_t peer = FI_ADDR_NOTAVAIL;
  ASSERT_EQ(fi_av_insert(sender.av, &world.receiver.name, 1, &peer, 0, nullptr), 1);
  const iovec iov{sender.out, sizeof "hello"};
  const fi_msg message{&iov, nullptr, 1, peer, nullptr, 0};
  std::atomic<bool> over{false};
  std::thread reader([&] {
    while (!over) sender.drain();
  });
  for (int i = 0; i < kRounds; ++i) {
    fid_ep* ep = nullptr;
    EXPECT_EQ(fi_endpoint(world.domain, world.info, &ep, nullptr), 0);
    EXPECT_EQ(fi_ep_bind(ep, &sender.eq->fid, 0) + fi_ep_bind(ep, &sender.cq->fid, FI_TRANSMIT | FI_RECV) +
                  fi_ep_bind(ep, &sender.av->fid, 0) + fi_enable(ep),
              0);
    const uint64_t posts = fake::calls()["ibv_post_send"];
    EXPECT_EQ(fi_sendmsg(ep, &message, FI_MORE | FI_INJECT), 0);
    EXPECT_TRUE(wait([&] { return fake::calls()["ibv_post_send"] > posts; }));
    EXPECT_EQ(fi_close(&ep->fid), 0);
  }
  over = true;
  reader.join();
}

}  // namespace faults_datagrams_test
