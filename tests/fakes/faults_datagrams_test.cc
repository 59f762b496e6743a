// SPDX-License-Identifier: BSD-2-Clause
// Datagram endpoints and groups of the verbs provider when something goes wrong: every call of libibverbs and librdmacm
// failing once, ports that go down and come back, groups that the network ends, queue pairs that break, peers that do
// not answer. fi_cm(3) fi_join, fi_av(3).
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>

#include "fake_rdma.h"

namespace {

using Clock = std::chrono::steady_clock;

sockaddr_in ip(const char* host, uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  inet_pton(AF_INET, host, &address.sin_addr);
  return address;
}
const sockaddr_in kGroup = ip("239.7.7.7", 4711);

// Closes what was opened; nothing may be busy.
template <class T>
void close_one(T*& object, const char* what) {
  if (object == nullptr) return;
  EXPECT_EQ(fi_close(&object->fid), 0) << what;
  object = nullptr;
}

struct Event {
  uint32_t type = 0;  // 0: none
  int error = 0;
  fid_t fid = nullptr;
  uint64_t data = 0;
  std::string sentence;
};

// An endpoint with its queues; any step may fail, and then there is nothing more to do.
struct Member {
  fid_eq* eq = nullptr;
  fid_cq* cq = nullptr;
  fid_av* av = nullptr;
  fid_ep* ep = nullptr;
  fid_mc* mc = nullptr;
  sockaddr_in name{};
  char in[100] = "", out[100] = "hello";

  bool open(fid_fabric* fabric, fid_domain* domain, fi_info* info, uint64_t av_flags = 0) {
    fi_eq_attr eq_attr{};
    fi_cq_attr cq_attr{};
    cq_attr.format = FI_CQ_FORMAT_MSG;
    fi_av_attr av_attr{};
    av_attr.flags = av_flags;
    size_t size = sizeof name;
    return fi_eq_open(fabric, &eq_attr, &eq, nullptr) == 0 && fi_cq_open(domain, &cq_attr, &cq, nullptr) == 0 &&
           fi_av_open(domain, &av_attr, &av, nullptr) == 0 && fi_av_bind(av, &eq->fid, 0) == 0 &&
           fi_endpoint(domain, info, &ep, nullptr) == 0 && fi_ep_bind(ep, &eq->fid, 0) == 0 &&
           fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV) == 0 && fi_ep_bind(ep, &av->fid, 0) == 0 &&
           fi_enable(ep) == 0 && fi_getname(&ep->fid, &name, &size) == 0;
  }
  void close() {
    close_one(mc, "group");
    close_one(ep, "endpoint");
    close_one(av, "address vector");
    close_one(cq, "completion queue");
    close_one(eq, "event queue");
  }
  Event read() {
    Event event;
    fi_eq_entry entry{};
    const ssize_t got = fi_eq_read(eq, &event.type, &entry, sizeof entry, 0);
    if (got == sizeof entry) {
      event.fid = entry.fid;
      event.data = entry.data;
    } else if (got == -FI_EAVAIL) {
      fi_eq_err_entry error{};
      fi_eq_readerr(eq, &error, 0);
      event.error = error.err;
      event.fid = error.fid;
      event.sentence = fi_eq_strerror(eq, error.prov_errno, nullptr, nullptr, 0);
    }
    return event;
  }
  bool join() { return fi_join(ep, &kGroup, 0, &mc, nullptr) == 0; }
  // Sends one message to the group.
  bool say() {
    const iovec iov{out, sizeof "hello"};
    const fi_msg message{&iov, nullptr, 1, fi_mc_addr(mc), this, 0};
    return fi_sendmsg(ep, &message, FI_MULTICAST | FI_INJECT | FI_COMPLETION) == 0;
  }
  bool hear() { return fi_recv(ep, in, sizeof in, nullptr, FI_ADDR_UNSPEC, this) == 0; }
  // Completions and errors that are there: how many.
  int drain() {
    fi_cq_msg_entry entry;
    int count = 0;
    for (ssize_t got; (got = fi_cq_read(cq, &entry, 1)) == 1 || got == -FI_EAVAIL; ++count) {
      fi_cq_err_entry error{};
      if (got == -FI_EAVAIL) fi_cq_readerr(cq, &error, 0);
    }
    return count;
  }
};

struct World {
  fi_info* info = nullptr;
  fid_fabric* fabric = nullptr;
  fid_domain* domain = nullptr;
  Member speaker, hearer;

  bool open(uint64_t av_flags = 0) {
    fi_info* hints = fi_allocinfo();
    hints->caps = FI_MSG | FI_MULTICAST;
    hints->addr_format = FI_SOCKADDR_IN;
    hints->ep_attr->type = FI_EP_DGRAM;
    hints->domain_attr->mr_mode = FI_MR_LOCAL;
    const int got = fi_getinfo(FI_VERSION(1, 18), "127.0.0.1", nullptr, FI_SOURCE, hints, &info);
    fi_freeinfo(hints);
    return got == 0 && fi_fabric(info->fabric_attr, &fabric, nullptr) == 0 &&
           fi_domain(fabric, info, &domain, nullptr) == 0 && speaker.open(fabric, domain, info, av_flags) &&
           hearer.open(fabric, domain, info, av_flags);
  }
  ~World() {
    speaker.close();
    hearer.close();
    close_one(domain, "domain");
    close_one(fabric, "fabric");
    fi_freeinfo(info);
  }
};

bool wait(const std::function<bool()>& done, int milliseconds = 10'000) {
  const auto limit = Clock::now() + std::chrono::milliseconds(milliseconds);
  while (!done())
    if (Clock::now() > limit) return false;
  return true;
}

Event next_event(Member& member) {
  Event event;
  wait([&] { return (event = member.read()).fid != nullptr; });
  return event;
}

// Joins, and tells whether the one event that follows says that this worked.
bool joins(Member& member) {
  if (!member.join()) return false;
  const Event event = next_event(member);
  EXPECT_EQ(event.fid, &member.mc->fid) << "a join has one event";
  EXPECT_TRUE(event.type == FI_JOIN_COMPLETE || !event.sentence.empty());
  EXPECT_EQ(event.error == 0, fi_mc_addr(member.mc) != FI_ADDR_NOTAVAIL);
  return event.error == 0;
}

// One conversation in the group and one beside it. Whatever fails, it ends and what was posted has completed.
void converse() {
  World world;
  if (!world.open()) return;
  Member &speaker = world.speaker, &hearer = world.hearer;
  int posted = 0, completed = 0;
  if (joins(speaker) && joins(hearer)) {
    posted += hearer.hear();
    posted += speaker.say();
  }
  fi_addr_t peer = FI_ADDR_NOTAVAIL;
  if (fi_av_insert(speaker.av, &hearer.name, 1, &peer, 0, nullptr) == 1) {
    posted += hearer.hear();
    fi_inject(speaker.ep, speaker.out, 6, peer);  // silent, and it may get lost
  }
  wait([&] { return (completed += speaker.drain() + hearer.drain()) >= posted; }, 20);
  close_one(speaker.mc, "group");
  close_one(hearer.mc, "group");
  close_one(speaker.ep, "endpoint");
  close_one(hearer.ep, "endpoint");
  completed += speaker.drain() + hearer.drain();
  EXPECT_EQ(completed, posted);
}

std::map<std::string, uint64_t> calls_without_failure() {
  fake::reset();
  converse();
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

TEST_F(FaultsDatagrams, EachCallFailsOnce) {
  int runs = 0, reached = 0;
  for (const auto& [call, count] : calls_without_failure()) {
    for (uint64_t nth = 1; nth <= std::min<uint64_t>(count, 6); ++nth) {
      SCOPED_TRACE(call + " number " + std::to_string(nth));
      fake::reset();
      fake::fail(call, nth, error_for(call));
      converse();
      ++runs;
      reached += fake::failure_happened();
      EXPECT_EQ(fake::leaks(), "");
    }
  }
  EXPECT_GT(reached, runs / 2);
}

TEST_F(FaultsDatagrams, PortDownIsToldAndMembershipComesBack) {
  World world;
  ASSERT_TRUE(world.open() && joins(world.speaker) && joins(world.hearer));
  fake::set_port_state("fake0", IBV_PORT_DOWN);
  for (Member* member : {&world.speaker, &world.hearer}) {
    const Event event = next_event(*member);
    EXPECT_EQ(event.error, FI_ENETDOWN);
    EXPECT_EQ(event.fid, &member->mc->fid);
    EXPECT_NE(event.sentence.find("239.7.7.7"), std::string::npos) << event.sentence;
  }
  EXPECT_FALSE(world.speaker.say()) << "not a member now";
  fake::set_port_state("fake0", IBV_PORT_ACTIVE);
  for (Member* member : {&world.speaker, &world.hearer}) EXPECT_EQ(next_event(*member).type, FI_JOIN_COMPLETE);
  ASSERT_TRUE(world.hearer.hear() && world.speaker.say());
  EXPECT_TRUE(wait([&] { return world.hearer.drain() == 1; }));
  EXPECT_STREQ(world.hearer.in, "hello");
}

TEST_F(FaultsDatagrams, MembershipThatTheNetworkEndsIsToldAndComesBack) {
  World world;
  ASSERT_TRUE(world.open() && joins(world.hearer));
  for (const auto kind : {RDMA_CM_EVENT_MULTICAST_ERROR, RDMA_CM_EVENT_ADDR_CHANGE}) {
    fake::inject_cm_event(fake::ids().back().id, kind, -ENETUNREACH);
    EXPECT_EQ(next_event(world.hearer).error, kind == RDMA_CM_EVENT_ADDR_CHANGE ? FI_EADDRNOTAVAIL : FI_ENETUNREACH);
    EXPECT_EQ(next_event(world.hearer).type, FI_JOIN_COMPLETE);
  }
}

TEST_F(FaultsDatagrams, DeviceWithoutRoomForMembersIsNamed) {
  World world;
  ASSERT_TRUE(world.open());
  fake::fail("ibv_attach_mcast", 1, ENOMEM);
  ASSERT_TRUE(world.hearer.join());
  const Event event = next_event(world.hearer);
  EXPECT_EQ(event.error, FI_ENOSPC);
  EXPECT_NE(event.sentence.find("room"), std::string::npos) << event.sentence;
  close_one(world.hearer.mc, "group");
  EXPECT_TRUE(joins(world.hearer)) << "a failed join does not stand in the way";
}

TEST_F(FaultsDatagrams, LeavingWhileTheJoinIsPendingIsQuiet) {
  World world;
  ASSERT_TRUE(world.open());
  fake::hold();
  ASSERT_TRUE(world.hearer.join());
  for (int i = 0; i < 10; ++i) EXPECT_EQ(world.hearer.read().fid, nullptr);
  close_one(world.hearer.mc, "group");
  fake::deliver_all();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(world.hearer.read().fid, nullptr);
}

TEST_F(FaultsDatagrams, BrokenQueuePairStartsAnew) {
  World world;
  ASSERT_TRUE(world.open() && joins(world.speaker) && joins(world.hearer));
  const auto all = fake::queue_pairs();  // before ours: those that other tests kept from being destroyed
  for (auto qp = all.end() - 2; qp != all.end(); ++qp) fake::raise(*qp, IBV_EVENT_QP_FATAL);
  const auto heard = [&] {
    world.speaker.read();
    world.hearer.read();
    world.speaker.say();  // refused, or lost, while the queue pairs are broken
    world.speaker.drain();
    return world.hearer.drain() == 1;
  };
  ASSERT_TRUE(world.hearer.hear());
  EXPECT_TRUE(wait(heard));
}

TEST_F(FaultsDatagrams, PeersThatCannotBeFoundAreRefused) {
  World world;
  ASSERT_TRUE(world.open());
  const sockaddr_in nobody = ip("127.0.0.1", 9);
  fi_addr_t peer = 0;
  int status = 0;
  EXPECT_EQ(fi_av_insert(world.speaker.av, &nobody, 1, &peer, FI_SYNC_ERR, &status), 0);
  EXPECT_EQ(status, FI_ECONNREFUSED);
  EXPECT_EQ(peer, FI_ADDR_NOTAVAIL);
  fake::lose(fake::Message::kRequest);
  EXPECT_EQ(fi_av_insert(world.speaker.av, &world.hearer.name, 1, &peer, FI_SYNC_ERR, &status), 0);
  EXPECT_EQ(status, FI_ETIMEDOUT);
  EXPECT_EQ(fi_av_insert(world.speaker.av, &world.hearer.name, 1, &peer, 0, nullptr), 1);
}

TEST_F(FaultsDatagrams, InsertionWithEventsTellsEachFailureAndTheNumber) {
  World world;
  ASSERT_TRUE(world.open(FI_EVENT));
  const sockaddr_in peers[3] = {world.hearer.name, ip("127.0.0.1", 9), world.speaker.name};
  fi_addr_t handles[3];
  ASSERT_EQ(fi_av_insert(world.speaker.av, peers, 3, handles, 0, nullptr), 0);
  const Event failed = next_event(world.speaker);
  EXPECT_EQ(failed.error, FI_ECONNREFUSED);
  EXPECT_NE(failed.sentence.find("127.0.0.1:9"), std::string::npos) << failed.sentence;
  const Event done = next_event(world.speaker);
  EXPECT_EQ(done.type, FI_AV_COMPLETE);
  EXPECT_EQ(done.data, 2u);
  EXPECT_EQ(handles[1], FI_ADDR_NOTAVAIL);
}

TEST_F(FaultsDatagrams, ClosingAVectorGivesUpItsLookups) {
  World world;
  ASSERT_TRUE(world.open(FI_EVENT));
  fake::lose(fake::Message::kRequest, 100);
  fi_addr_t handle;
  ASSERT_EQ(fi_av_insert(world.speaker.av, &world.hearer.name, 1, &handle, 0, nullptr), 0);
  close_one(world.speaker.ep, "endpoint");
  const auto start = Clock::now();
  close_one(world.speaker.av, "address vector");
  EXPECT_LT(Clock::now() - start, std::chrono::milliseconds(400)) << "and not the time that a lookup may take";
}

// For TSan above all: sending, receiving, joining, leaving and inserting at the same time.
TEST_F(FaultsDatagrams, ThreadsSendWhileOthersJoinAndLeave) {
  constexpr int kRounds = 100;
  World world;
  ASSERT_TRUE(world.open() && joins(world.speaker) && joins(world.hearer));
  std::atomic<bool> over{false};
  std::atomic<int> heard{0};
  std::thread sender([&] {
    while (!over) {
      world.speaker.say();
      world.speaker.drain();
    }
  });
  std::thread listener([&] {
    while (!over) {
      world.hearer.hear();
      heard += world.hearer.drain();
    }
  });
  const sockaddr_in other = ip("239.7.7.8", 4711);
  for (int i = 0; i < kRounds; ++i) {
    fid_mc* mc = nullptr;
    ASSERT_EQ(fi_join(world.hearer.ep, &other, 0, &mc, nullptr), 0);
    EXPECT_EQ(next_event(world.hearer).type, FI_JOIN_COMPLETE);
    close_one(mc, "group");
    fi_addr_t peer;
    EXPECT_EQ(fi_av_insert(world.speaker.av, &world.hearer.name, 1, &peer, 0, nullptr), 1);
    EXPECT_EQ(fi_av_remove(world.speaker.av, &peer, 1, 0), 0);
  }
  EXPECT_TRUE(wait([&] { return heard > 0; }));
  over = true;
  sender.join();
  listener.join();
}
