// SPDX-License-Identifier: BSD-2-Clause
// Datagram endpoints and groups of the verbs provider at the limits of a device, and when the device or its address is
// removed; partition and queue keys. fi_cm(3) fi_join.
#include <infiniband/ib.h>
#include <poll.h>

#include "conformance/fixture/parameter.h"
#include "datagram_world.h"

namespace faults_datagram_limits_test {

namespace {

// The next event of `member` for `fid`; skips others.
Event event_of(Member& member, fid_t fid) {
  Event event;
  wait([&] { return (event = member.read()).fid == fid; });
  return event;
}

ibv_qp_attr attributes(ibv_qp* qp) {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  EXPECT_EQ(ibv_query_qp(qp, &attr, IBV_QP_QKEY | IBV_QP_PKEY_INDEX, &init), 0);
  return attr;
}

// ff12:... is a group; any other first byte is none.
sockaddr_ib gid_group(uint8_t first) {
  sockaddr_ib group{};
  const uint8_t gid[16] = {first, 0x12, 0xa0, 0x1b, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0x77, 0x11};
  group.sib_family = AF_IB;
  std::memcpy(&group.sib_addr, gid, sizeof gid);
  return group;
}

// Sends one message; returns whether it arrives in time.
bool reaches(Member& from, Member& to, int milliseconds) {
  fi_addr_t peer = FI_ADDR_NOTAVAIL;
  EXPECT_EQ(fi_av_insert(from.av, to.raw_name, 1, &peer, 0, nullptr), 1);
  EXPECT_TRUE(to.post_receive());
  EXPECT_EQ(fi_inject(from.ep, from.out, 6, peer), 0);
  return wait(
      [&] {
        from.drain();
        return to.drain() == 1;
      },
      milliseconds);
}

}  // namespace

class FaultsDatagramLimits : public testing::Test {
 protected:
  void SetUp() override { fake::reset(); }
  void TearDown() override {
    fake::reset();
    EXPECT_EQ(fake::leaks(), "");
    fake::retire_devices();
  }
  static void use_device(const fake::DeviceConfig& config) {
    fake::retire_devices();
    fake::add_device(config);
  }
};

TEST_F(FaultsDatagramLimits, InfinibandGroupsAreNamedByGid) {
  fake::DeviceConfig config;
  config.infiniband = true;
  use_device(config);
  World world;
  ASSERT_TRUE(world.open());
  const sockaddr_ib group = gid_group(0xff);
  for (Member* member : {&world.sender, &world.receiver}) {
    ASSERT_EQ(fi_join(member->ep, &group, 0, &member->mc, nullptr), 0);
    const Event event = next_event(*member);
    EXPECT_EQ(event.type, static_cast<uint32_t>(FI_JOIN_COMPLETE)) << event.sentence;
    EXPECT_EQ(event.fid, &member->mc->fid);
  }
  fid_mc* again = nullptr;
  EXPECT_EQ(fi_join(world.receiver.ep, &group, 0, &again, nullptr), -FI_EALREADY);
  ASSERT_TRUE(world.receiver.post_receive() && world.sender.post_receive() && world.sender.send_to_group());
  ASSERT_TRUE(wait([&] { return world.receiver.drain() == 1; }));
  EXPECT_STREQ(world.receiver.in, "hello");
  EXPECT_EQ(world.sender.drain(), 1) << "the send completed, and the message does not return";

  close_one(world.receiver.mc, "group");
  ASSERT_TRUE(world.receiver.post_receive() && world.sender.send_to_group());
  ASSERT_TRUE(wait([&] { return world.sender.drain() == 1; }));
  EXPECT_EQ(world.receiver.drain(), 0) << "no message after leaving the group";
}

TEST_F(FaultsDatagramLimits, GidsAreRefusedWithoutInfiniband) {
  use_device({});
  World world;
  ASSERT_TRUE(world.open());
  const sockaddr_ib group = gid_group(0xff), host = gid_group(0xfe);
  EXPECT_EQ(fi_join(world.sender.ep, &host, 0, &world.sender.mc, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_join(world.sender.ep, &group, 0, &world.sender.mc, nullptr), -FI_EADDRNOTAVAIL);
  EXPECT_EQ(world.sender.mc, nullptr);
  EXPECT_TRUE(joins(world.sender)) << "a group that has an IP address";
}

TEST_F(FaultsDatagramLimits, TooManyMembersAndTooManyGroupsHaveDifferentErrors) {
  fake::DeviceConfig config;
  config.max_groups = 2;
  config.max_group_members = 1;
  use_device(config);
  World world;
  ASSERT_TRUE(world.open() && joins(world.sender));

  ASSERT_TRUE(world.receiver.join());
  Event event = next_event(world.receiver);
  EXPECT_EQ(event.error, EUSERS);
  EXPECT_NE(event.sentence.find("members"), std::string::npos) << event.sentence;
  close_one(world.receiver.mc, "group");

  fid_mc* groups[2] = {};
  const sockaddr_in others[2] = {ip("239.7.7.8", 0), ip("239.7.7.9", 0)};
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(fi_join(world.receiver.ep, &others[i], 0, &groups[i], nullptr), 0);
    event = next_event(world.receiver);
    EXPECT_EQ(event.error, i == 0 ? 0 : FI_ENOSPC);
  }
  EXPECT_NE(event.sentence.find("another group"), std::string::npos) << event.sentence;
  for (fid_mc*& group : groups) close_one(group, "group");
  close_one(world.sender.mc, "group");
  EXPECT_TRUE(joins(world.receiver)) << "room is available again, and the failed joins left nothing behind";
}

TEST_F(FaultsDatagramLimits, DeviceRemovalIsReported) {
  World world;
  ASSERT_TRUE(world.open() && joins(world.receiver));
  fake::remove_device("fake0");
  bool endpoint_told = false, group_told = false;
  EXPECT_TRUE(wait([&] {
    const Event event = world.receiver.read();
    if (event.error == FI_ENODEV && event.fid == &world.receiver.ep->fid) endpoint_told = true;
    if (event.error == FI_ENODEV && event.fid == &world.receiver.mc->fid) group_told = true;
    EXPECT_TRUE(event.fid == nullptr || !event.sentence.empty());
    return endpoint_told && group_told;
  }));
  EXPECT_FALSE(world.receiver.send_to_group()) << "not a member any more";
  EXPECT_EQ(event_of(world.sender, &world.sender.ep->fid).error, FI_ENODEV);
  fake::restore_device("fake0");
}

TEST_F(FaultsDatagramLimits, RemovedDeviceKeepsNobodyAwake) {
  World world;
  ASSERT_TRUE(world.open());
  fi_eq_attr attr{};
  attr.wait_obj = FI_WAIT_FD;
  Member sleeper;
  ASSERT_EQ(fi_eq_open(world.fabric, &attr, &sleeper.eq, nullptr), 0);
  ASSERT_EQ(fi_endpoint(world.domain, world.info, &sleeper.ep, nullptr), 0);
  ASSERT_EQ(fi_ep_bind(sleeper.ep, &sleeper.eq->fid, 0), 0);
  int fd = -1;
  ASSERT_EQ(fi_control(&sleeper.eq->fid, FI_GETWAIT, &fd), 0);
  fake::remove_device("fake0");
  EXPECT_EQ(event_of(world.sender, &world.sender.ep->fid).error, FI_ENODEV);
  EXPECT_TRUE(wait(
      [&] {
        sleeper.read();
        pollfd readiness{fd, POLLIN, 0};
        return ::poll(&readiness, 1, 20) == 0;
      },
      2000));
  fake::restore_device("fake0");
  sleeper.close();
}

TEST_F(FaultsDatagramLimits, FatalDeviceErrorIsReported) {
  World world;
  ASSERT_TRUE(world.open());
  fake::raise_device("fake0", IBV_EVENT_DEVICE_FATAL);
  const Event event = event_of(world.receiver, &world.receiver.ep->fid);
  EXPECT_EQ(event.error, FI_EIO);
  EXPECT_NE(event.sentence.find("fake0"), std::string::npos) << event.sentence;
}

TEST_F(FaultsDatagramLimits, HardwareAddressChangeIsReported) {
  World world;
  ASSERT_TRUE(world.open());
  fake::inject_cm_event(fake::ids().back().id, RDMA_CM_EVENT_ADDR_CHANGE);
  EXPECT_EQ(event_of(world.receiver, &world.receiver.ep->fid).error, FI_EADDRNOTAVAIL);
}

TEST_F(FaultsDatagramLimits, QueueKeyIsTheConventionalOneOrTheParameter) {
  const uint32_t kConvention = 0x11111111;
  World usual;
  ASSERT_TRUE(usual.open(0, FI_ADDR_IB_UD));
  EXPECT_EQ(attributes(fake::queue_pairs().back()).qkey, kConvention);
  EXPECT_TRUE(reaches(usual.sender, usual.receiver, 10'000));

  const Parameter own("FI_VERBS_DGRAM_QKEY", "4711");
  World other;
  ASSERT_TRUE(other.open(0, FI_ADDR_IB_UD));
  EXPECT_EQ(attributes(fake::queue_pairs().back()).qkey, 4711u);
  EXPECT_TRUE(reaches(other.sender, other.receiver, 10'000));
  EXPECT_FALSE(reaches(usual.sender, other.receiver, 50)) << "the device drops messages with another key";
}

TEST_F(FaultsDatagramLimits, PartitionIsTheFirstOneOrTheParameter) {
  fake::DeviceConfig config;
  config.pkeys = {0xffff, 0x8123};
  use_device(config);
  {
    World first;
    ASSERT_TRUE(first.open(0, FI_ADDR_IB_UD));
    EXPECT_EQ(attributes(fake::queue_pairs().back()).pkey_index, 0);
  }
  {
    const Parameter second("FI_VERBS_DGRAM_PKEY", "291");  // 0x123, full membership or not
    World world;
    ASSERT_TRUE(world.open(0, FI_ADDR_IB_UD));
    EXPECT_EQ(attributes(fake::queue_pairs().back()).pkey_index, 1);
    uint16_t named = 0;
    std::memcpy(&named, world.receiver.raw_name + 22, sizeof named);  // behind GID, queue pair and LID
    EXPECT_EQ(be16toh(named), 0x8123);
  }
  const Parameter none("FI_VERBS_DGRAM_PKEY", "1911");
  World stranger;
  EXPECT_FALSE(stranger.open(0, FI_ADDR_IB_UD)) << "the port is in no such partition";
  EXPECT_EQ(fi_enable(stranger.sender.ep), -FI_EINVAL);
}

TEST_F(FaultsDatagramLimits, SendsToNobodyDoNotFillTheQueue) {
  World world;
  ASSERT_TRUE(world.open());
  fi_addr_t peer = FI_ADDR_NOTAVAIL;
  ASSERT_EQ(fi_av_insert(world.sender.av, &world.receiver.name, 1, &peer, 0, nullptr), 1);
  const size_t size = world.info->tx_attr->size;
  for (size_t i = 0; i < 4 * size; ++i) {
    EXPECT_EQ(fi_send(world.sender.ep, world.sender.out, 6, nullptr, FI_ADDR_NOTAVAIL, nullptr), -FI_EINVAL);
    ASSERT_TRUE(wait([&] { return fi_inject(world.sender.ep, world.sender.out, 6, peer) != -FI_EAGAIN; }, 2000)) << i;
  }
}

TEST_F(FaultsDatagramLimits, LengthsThatAddUpBeyondTheirTypeAreRefused) {
  World world;
  ASSERT_TRUE(world.open());
  fi_addr_t peer = FI_ADDR_NOTAVAIL;
  ASSERT_EQ(fi_av_insert(world.sender.av, &world.receiver.name, 1, &peer, 0, nullptr), 1);
  const iovec iov[] = {{world.sender.out, SIZE_MAX - 7}, {world.sender.out, 40}};
  EXPECT_EQ(fi_sendv(world.sender.ep, iov, nullptr, 2, peer, nullptr), -FI_EMSGSIZE);
  const fi_msg message{iov, nullptr, 2, peer, nullptr, 0};
  EXPECT_EQ(fi_sendmsg(world.sender.ep, &message, FI_MORE | FI_INJECT), -FI_EMSGSIZE);
}

// As in libfabric: room for the route header in front of received messages, none in front of sent ones.
TEST_F(FaultsDatagramLimits, PrefixAppliesToReceivedMessagesOnly) {
  constexpr size_t kHeader = 40;
  World world;
  ASSERT_TRUE(world.open(0, FI_ADDR_IB_UD, FI_MSG_PREFIX));
  EXPECT_EQ(world.info->mode, FI_MSG_PREFIX);
  EXPECT_EQ(world.info->rx_attr->mode, FI_MSG_PREFIX);
  EXPECT_EQ(world.info->tx_attr->mode, 0u);
  EXPECT_EQ(world.info->ep_attr->msg_prefix_size, kHeader);
  EXPECT_TRUE(reaches(world.sender, world.receiver, 10'000));
  EXPECT_STREQ(world.receiver.in + kHeader, world.sender.out);
}

}  // namespace faults_datagram_limits_test
