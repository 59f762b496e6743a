// SPDX-License-Identifier: BSD-2-Clause
// Queue pairs of the fakes: which messages arrive, which fail and with which status, and how queues fill.
#include "raw_end.h"

using namespace raw;

class RawTransfer : public Fakes {
 protected:
  static uint64_t address(End& end, size_t offset) { return reinterpret_cast<uint64_t>(end.memory()) + offset; }
  static void expect_status(const ibv_wc& wc, uint64_t wr_id, ibv_wc_status status) {
    EXPECT_EQ(wc.wr_id, wr_id);
    EXPECT_STREQ(ibv_wc_status_str(wc.status), ibv_wc_status_str(status));
  }
};

TEST_F(RawTransfer, SendFillsReceive) {
  Lab lab;
  Pair pair(lab);
  std::strcpy(pair.client.memory(), "payload");
  ASSERT_EQ(pair.server->receive(7, 100, 64), 0);
  ibv_sge entry = pair.client.sge(0, 8);
  ibv_send_wr wr = pair.client.request(3, IBV_WR_SEND_WITH_IMM, &entry);
  wr.imm_data = htobe32(42);
  ASSERT_EQ(pair.client.post(wr), 0);
  const auto received = pair.server->poll_all();
  ASSERT_EQ(received.size(), 1U);
  expect_status(received[0], 7, IBV_WC_SUCCESS);
  EXPECT_EQ(received[0].opcode, IBV_WC_RECV);
  EXPECT_EQ(received[0].byte_len, 8U);
  EXPECT_EQ(received[0].imm_data, htobe32(42));
  EXPECT_STREQ(pair.server->memory() + 100, "payload");
  const auto sent = pair.client.poll_all();
  ASSERT_EQ(sent.size(), 1U);
  expect_status(sent[0], 3, IBV_WC_SUCCESS);
}

TEST_F(RawTransfer, ListsAreGatheredAndScattered) {
  Lab lab;
  Pair pair(lab);
  std::memcpy(pair.client.memory(), "abcdefghij", 10);
  ibv_sge to[] = {pair.server->sge(0, 3), pair.server->sge(100, 20)};
  ibv_recv_wr receive = {1, nullptr, to, 2}, *bad_receive = nullptr;
  ASSERT_EQ(ibv_post_recv(pair.server->qp(), &receive, &bad_receive), 0);
  ibv_sge from[] = {pair.client.sge(5, 5), pair.client.sge(0, 2)};
  ibv_send_wr wr = pair.client.request(1, IBV_WR_SEND, from);
  wr.num_sge = 2;
  ASSERT_EQ(pair.client.post(wr), 0);
  EXPECT_EQ(pair.server->completion().byte_len, 7U);
  EXPECT_EQ(std::string(pair.server->memory(), 3), "fgh");
  EXPECT_EQ(std::string(pair.server->memory() + 100, 4), "ijab");
}

TEST_F(RawTransfer, InlineDataIsCopiedAtOnce) {
  Lab lab;
  Pair pair(lab);
  fake::hold_data();
  char local[8] = "inline!";
  ibv_sge entry = {reinterpret_cast<uint64_t>(local), 8, 0};
  ASSERT_EQ(pair.client.post(pair.client.request(1, IBV_WR_SEND, &entry, IBV_SEND_INLINE)), 0);
  std::memset(local, 'x', sizeof local);
  ASSERT_EQ(pair.server->receive(1, 0, 8), 0);
  fake::deliver_data();
  EXPECT_STREQ(pair.server->memory(), "inline!");
  EXPECT_TRUE(pair.client.poll_all().empty()) << "not signalled";
  entry.length = 65;
  EXPECT_NE(pair.client.post(pair.client.request(1, IBV_WR_SEND, &entry, IBV_SEND_INLINE)), 0);
}

TEST_F(RawTransfer, SenderWaitsForAReceiveWithoutLimit) {
  Lab lab;
  Pair pair(lab);
  ASSERT_EQ(pair.client.send(1, 0, 8), 0);
  EXPECT_TRUE(pair.client.poll_all().empty());
  ASSERT_EQ(pair.server->receive(2, 0, 8), 0);
  expect_status(pair.client.completion(), 1, IBV_WC_SUCCESS);
}

TEST_F(RawTransfer, SenderFailsAfterItsRetries) {
  Lab lab;
  Pair pair(lab, {}, 0);
  ASSERT_EQ(pair.client.send(1, 0, 8), 0);
  ASSERT_EQ(pair.client.send(2, 0, 8, 0), 0);
  expect_status(pair.client.completion(), 1, IBV_WC_RNR_RETRY_EXC_ERR);
  expect_status(pair.client.completion(), 2, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(pair.client.qp()->state, IBV_QPS_ERR);
}

TEST_F(RawTransfer, TruncationFailsBothEnds) {
  Lab lab;
  Pair pair(lab);
  ASSERT_EQ(pair.server->receive(1, 0, 4), 0);
  ASSERT_EQ(pair.server->receive(2, 0, 64), 0);
  ASSERT_EQ(pair.client.send(5, 0, 8), 0);
  expect_status(pair.server->completion(), 1, IBV_WC_LOC_LEN_ERR);
  expect_status(pair.server->completion(), 2, IBV_WC_WR_FLUSH_ERR);
  expect_status(pair.client.completion(), 5, IBV_WC_REM_INV_REQ_ERR);
}

TEST_F(RawTransfer, WriteAndReadWithImmediateData) {
  Lab lab;
  Pair pair(lab);
  std::memcpy(pair.client.memory(), "written", 8);
  const uint32_t rkey = pair.server->mr()->rkey;
  ASSERT_EQ(pair.client.rdma(IBV_WR_RDMA_WRITE, 1, pair.client.sge(0, 8), address(*pair.server, 64), rkey), 0);
  expect_status(pair.client.completion(), 1, IBV_WC_SUCCESS);
  EXPECT_STREQ(pair.server->memory() + 64, "written");
  EXPECT_TRUE(pair.server->poll_all().empty());
  ASSERT_EQ(pair.client.rdma(IBV_WR_RDMA_READ, 2, pair.client.sge(32, 8), address(*pair.server, 64), rkey), 0);
  expect_status(pair.client.completion(), 2, IBV_WC_SUCCESS);
  EXPECT_STREQ(pair.client.memory() + 32, "written");
  ASSERT_EQ(pair.server->receive(9, 0, 0), 0);
  ASSERT_EQ(pair.client.rdma(IBV_WR_RDMA_WRITE_WITH_IMM, 3, pair.client.sge(0, 8), address(*pair.server, 0), rkey), 0);
  const ibv_wc wc = pair.server->completion();
  EXPECT_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(wc.imm_data, htobe32(77));
  EXPECT_EQ(wc.byte_len, 8U);
}

TEST_F(RawTransfer, RemoteMemoryIsChecked) {
  constexpr int kReadable = IBV_ACCESS_REMOTE_READ;
  for (const bool bounds : {false, true}) {
    Lab lab;
    Pair pair(lab);
    ibv_mr* readable = ibv_reg_mr(pair.server->pd(), pair.server->memory(), 64, kReadable);
    const uint64_t where = address(*pair.server, bounds ? 60 : 0);
    const auto opcode = bounds ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
    ASSERT_EQ(pair.client.rdma(opcode, 1, pair.client.sge(0, 8), where, readable->rkey), 0);
    expect_status(pair.client.completion(), 1, IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(pair.server->qp()->state, IBV_QPS_ERR);
    EXPECT_EQ(ibv_dereg_mr(readable), 0);
  }
}

TEST_F(RawTransfer, DeadKeysAreRefused) {
  Lab lab;
  Pair pair(lab);
  ibv_mr* region = ibv_reg_mr(pair.client.pd(), pair.client.memory(), 64, 0);
  ibv_sge entry = {address(pair.client, 0), 8, region->lkey};
  ASSERT_EQ(ibv_dereg_mr(region), 0);
  ASSERT_EQ(pair.client.post(pair.client.request(1, IBV_WR_SEND, &entry)), 0);
  expect_status(pair.client.completion(), 1, IBV_WC_LOC_PROT_ERR);
}

TEST_F(RawTransfer, AtomicsReturnTheOldValue) {
  Lab lab;
  Pair pair(lab);
  auto* target = reinterpret_cast<uint64_t*>(pair.server->memory());
  auto* result = reinterpret_cast<uint64_t*>(pair.client.memory());
  *target = 5;
  ibv_sge entry = pair.client.sge(0, 8);
  ibv_send_wr wr = pair.client.request(1, IBV_WR_ATOMIC_FETCH_AND_ADD, &entry);
  wr.wr.atomic.remote_addr = address(*pair.server, 0);
  wr.wr.atomic.rkey = pair.server->mr()->rkey;
  wr.wr.atomic.compare_add = 3;
  ASSERT_EQ(pair.client.post(wr), 0);
  expect_status(pair.client.completion(), 1, IBV_WC_SUCCESS);
  EXPECT_EQ(*result, 5U);
  EXPECT_EQ(*target, 8U);
  wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
  wr.wr.atomic.compare_add = 8;
  wr.wr.atomic.swap = 1;
  ASSERT_EQ(pair.client.post(wr), 0);
  expect_status(pair.client.completion(), 1, IBV_WC_SUCCESS);
  EXPECT_EQ(*result, 8U);
  EXPECT_EQ(*target, 1U);
  wr.wr.atomic.remote_addr += 4;
  ASSERT_EQ(pair.client.post(wr), 0);
  expect_status(pair.client.completion(), 1, IBV_WC_REM_INV_REQ_ERR);
}

TEST_F(RawTransfer, SlotsReturnWhenCompletionsArePolled) {
  Lab lab;
  Pair pair(lab, {.sends = 4});
  for (int i = 0; i < 8; ++i) ASSERT_EQ(pair.server->receive(0, 0, 8), 0);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(pair.client.send(0, 0, 8, 0), 0);
  ASSERT_EQ(pair.client.send(4, 0, 8), 0);
  EXPECT_EQ(pair.client.send(5, 0, 8), ENOMEM);
  expect_status(pair.client.completion(), 4, IBV_WC_SUCCESS);
  EXPECT_EQ(pair.client.send(5, 0, 8), 0);
}

TEST_F(RawTransfer, OverrunIsReportedAndFatal) {
  Lab lab;
  Pair pair(lab, {.cqe = 2});
  for (int i = 0; i < 3; ++i) ASSERT_EQ(pair.server->receive(0, 0, 8), 0);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(pair.client.send(0, 0, 8, 0), 0);
  EXPECT_GE(fake::overruns(), 1U);
  EXPECT_EQ(pair.server->qp()->state, IBV_QPS_ERR);
  ibv_async_event event;
  ASSERT_EQ(ibv_get_async_event(pair.server->id()->verbs, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_CQ_ERR);
  ibv_ack_async_event(&event);
}

TEST_F(RawTransfer, LossEndsInExceededRetries) {
  fake::set_timing({.retries_exceeded = 20});
  for (const bool acknowledgement : {false, true}) {
    Lab lab;
    Pair pair(lab);
    ASSERT_EQ(pair.server->receive(1, 0, 8), 0);
    if (acknowledgement)
      fake::lose_acknowledgements(pair.client.qp()->qp_num);
    else
      fake::lose_messages(0);
    ASSERT_EQ(pair.client.send(1, 0, 8), 0);
    expect_status(pair.client.completion(), 1, IBV_WC_RETRY_EXC_ERR);
    EXPECT_EQ(pair.server->poll_all().size(), acknowledgement ? 1U : 0U);
  }
}

TEST_F(RawTransfer, DeadPeerIsDetected) {
  fake::set_timing({.retries_exceeded = 20});
  Lab lab;
  Pair pair(lab);
  ASSERT_EQ(rdma_disconnect(pair.server->id()), 0);
  ASSERT_EQ(pair.client.send(1, 0, 8), 0);
  expect_status(pair.client.completion(), 1, IBV_WC_RETRY_EXC_ERR);
}

TEST_F(RawTransfer, ScriptedStatusBreaksTheQueue) {
  Lab lab;
  Pair pair(lab);
  fake::script_status(0, IBV_WC_REM_OP_ERR);
  ASSERT_EQ(pair.client.send(1, 0, 8), 0);
  expect_status(pair.client.completion(), 1, IBV_WC_REM_OP_ERR);
  ASSERT_EQ(pair.client.send(2, 0, 8, 0), 0);
  expect_status(pair.client.completion(), 2, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(RawTransfer, ChannelsWakeOnceForEachRequest) {
  Lab lab;
  Pair pair(lab);
  pollfd entry = {pair.server->comp()->fd, POLLIN, 0};
  for (int i = 0; i < 4; ++i) ASSERT_EQ(pair.server->receive(0, 0, 8), 0);
  ASSERT_EQ(pair.client.send(1, 0, 8), 0);
  EXPECT_EQ(poll(&entry, 1, 0), 0) << "no notification was requested";
  ASSERT_EQ(ibv_req_notify_cq(pair.server->cq(), 1), 0);
  ASSERT_EQ(pair.client.send(1, 0, 8), 0);
  EXPECT_EQ(poll(&entry, 1, 0), 0) << "not solicited";
  ASSERT_EQ(pair.client.send(1, 0, 8, IBV_SEND_SOLICITED), 0);
  EXPECT_EQ(poll(&entry, 1, 0), 1);
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  ASSERT_EQ(ibv_get_cq_event(pair.server->comp(), &cq, &context), 0);
  EXPECT_EQ(cq, pair.server->cq());
  EXPECT_EQ(context, pair.server.get());
  ibv_ack_cq_events(cq, 1);
  EXPECT_EQ(ibv_get_cq_event(pair.server->comp(), &cq, &context), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(RawTransfer, SharedReceivesAndTheirLimit) {
  Lab lab;
  rdma_cm_id* id = lab.route();
  ibv_pd* pd = ibv_alloc_pd(id->verbs);
  ibv_srq_init_attr attr = {nullptr, {8, 1, 0}};
  ibv_srq* srq = ibv_create_srq(pd, &attr);
  ASSERT_NE(srq, nullptr);
  {
    End client(id);
    rdma_conn_param param = Lab::parameters();
    ASSERT_EQ(rdma_connect(client.id(), &param), 0);
    End server(lab.events.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id, {}, srq, pd);
    ASSERT_EQ(rdma_accept(server.id(), &param), 0);
    lab.events.expect(RDMA_CM_EVENT_ESTABLISHED);
    lab.events.expect(RDMA_CM_EVENT_ESTABLISHED);
    ibv_srq_attr limit = {0, 0, 2};
    ASSERT_EQ(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), 0);
    ibv_sge entry = server.sge(0, 8);
    for (uint64_t i = 0; i < 2; ++i) {
      ibv_recv_wr wr = {i, nullptr, &entry, 1}, *bad = nullptr;
      ASSERT_EQ(ibv_post_srq_recv(srq, &wr, &bad), 0);
    }
    ASSERT_EQ(client.send(1, 0, 8), 0);
    expect_status(server.completion(), 0, IBV_WC_SUCCESS);
    ibv_async_event event;
    ASSERT_EQ(ibv_get_async_event(id->verbs, &event), 0);
    EXPECT_EQ(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
    ibv_ack_async_event(&event);
    EXPECT_EQ(ibv_destroy_srq(srq), EBUSY);
  }
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

TEST_F(RawTransfer, LimitsOfTheDeviceAreReached) {
  fake::retire_devices();
  fake::add_device({.addresses = {"127.0.0.1"}, .max_qp = 1, .lockable_bytes = 100000});
  Lab lab;
  End client(lab.route());
  ibv_qp_init_attr attr = {};
  attr.send_cq = attr.recv_cq = client.cq();
  attr.qp_type = IBV_QPT_RC;
  EXPECT_EQ(ibv_create_qp(client.pd(), &attr), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  std::vector<char> large(65536);
  EXPECT_EQ(ibv_reg_mr(client.pd(), large.data(), large.size(), 0), nullptr);
  EXPECT_EQ(errno, ENOMEM);
}

using RawTransferDeathTest = RawTransfer;

TEST_F(RawTransferDeathTest, UseAfterDestructionIsReported) {
  EXPECT_DEATH(
      {
        Lab lab;
        Pair pair(lab);
        ibv_qp* qp = pair.client.qp();
        rdma_destroy_qp(pair.client.id());
        ibv_send_wr wr = {};
        ibv_send_wr* bad = nullptr;
        ibv_post_send(qp, &wr, &bad);
      },
      "ibv_post_send: qp .* was destroyed before");
}
