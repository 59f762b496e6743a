// SPDX-License-Identifier: BSD-2-Clause
// Datagrams and multicast groups of the fakes, as a raw rdma_cm program sees them on rxe.
#include "raw_end.h"

using namespace raw;

class RawDatagram : public Fakes {
 protected:
  static sockaddr_in group() {
    sockaddr_in address = loopback();
    address.sin_addr.s_addr = htonl(0xe0000101);
    return address;
  }
  static std::unique_ptr<End> open(Lab& lab) {
    rdma_cm_id* id = lab.new_id(RDMA_PS_UDP);
    sockaddr_in address = loopback();
    EXPECT_EQ(rdma_bind_addr(id, generic(address)), 0);
    return std::make_unique<End>(id);
  }
  static int send_to(End& end, ibv_ah* ah, uint32_t qpn) {
    ibv_sge entry = end.sge(0, 8);
    ibv_send_wr wr = end.request(1, IBV_WR_SEND, &entry);
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = qpn;
    wr.wr.ud.remote_qkey = RDMA_UDP_QKEY;
    return end.post(wr);
  }
  // Joins and returns the address handle of the group.
  static ibv_ah* join(Lab& lab, End& end, bool receives = true) {
    sockaddr_in address = group();
    rdma_cm_join_mc_attr_ex attr = {};
    attr.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
    attr.join_flags = receives ? RDMA_MC_JOIN_FLAG_FULLMEMBER : RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER;
    attr.addr = generic(address);
    EXPECT_EQ(rdma_join_multicast_ex(end.id(), &attr, nullptr), 0);
    rdma_cm_event* event = nullptr;
    EXPECT_EQ(rdma_get_cm_event(lab.events.channel(), &event), 0);
    EXPECT_EQ(event->event, RDMA_CM_EVENT_MULTICAST_JOIN);
    EXPECT_EQ(event->param.ud.qp_num, 0xffffffU);
    EXPECT_EQ(event->param.ud.qkey, 0x01234567U);
    ibv_ah* ah = ibv_create_ah(end.pd(), &event->param.ud.ah_attr);
    rdma_ack_cm_event(event);
    return ah;
  }
};

TEST_F(RawDatagram, ArrivesBehindTheRouteHeader) {
  Lab lab;
  auto sender = open(lab), receiver = open(lab);
  std::strcpy(sender->memory(), "message");
  ASSERT_EQ(receiver->receive(1, 0, 100), 0);
  ibv_ah_attr attr = {};
  attr.is_global = attr.port_num = 1;
  ASSERT_EQ(ibv_query_gid(sender->id()->verbs, 1, 0, &attr.grh.dgid), 0);
  ibv_ah* ah = ibv_create_ah(sender->pd(), &attr);
  ASSERT_EQ(send_to(*sender, ah, receiver->qp()->qp_num), 0);
  const ibv_wc wc = receiver->completion();
  EXPECT_EQ(wc.byte_len, 48U);
  EXPECT_EQ(wc.wc_flags & IBV_WC_GRH, static_cast<unsigned>(IBV_WC_GRH));
  EXPECT_EQ(wc.src_qp, sender->qp()->qp_num);
  EXPECT_STREQ(receiver->memory() + 40, "message");
  ASSERT_EQ(send_to(*sender, ah, receiver->qp()->qp_num), 0) << "without a receive it is dropped";
  EXPECT_EQ(sender->poll_all().size(), 2U);
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

TEST_F(RawDatagram, MembersReceiveIncludingTheSender) {
  Lab lab;
  auto one = open(lab), two = open(lab), mute = open(lab);
  ibv_ah* from_one = join(lab, *one);
  ibv_ah* from_two = join(lab, *two);
  ibv_ah* from_mute = join(lab, *mute, false);
  for (auto* end : {one.get(), two.get(), mute.get()}) ASSERT_EQ(end->receive(9, 0, 100), 0);
  ASSERT_EQ(send_to(*one, from_one, 0xffffff), 0);
  EXPECT_EQ(one->poll_all().size(), 2U);
  EXPECT_EQ(two->poll_all().size(), 1U);
  EXPECT_EQ(mute->poll_all().size(), 0U);
  sockaddr_in address = group();
  ASSERT_EQ(rdma_leave_multicast(one->id(), generic(address)), 0);
  ASSERT_EQ(two->receive(9, 0, 100), 0);
  ASSERT_EQ(send_to(*mute, from_mute, 0xffffff), 0);
  EXPECT_EQ(one->poll_all().size(), 0U);
  EXPECT_EQ(two->poll_all().size(), 1U);
  for (ibv_ah* ah : {from_one, from_two, from_mute}) EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

TEST_F(RawDatagram, JoiningAUnicastAddressFailsWithAnEvent) {
  Lab lab;
  auto end = open(lab);
  sockaddr_in address = loopback();
  ASSERT_EQ(rdma_join_multicast(end->id(), generic(address), nullptr), 0);
  lab.events.expect(RDMA_CM_EVENT_MULTICAST_ERROR, -1);
}
