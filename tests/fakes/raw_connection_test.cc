// SPDX-License-Identifier: BSD-2-Clause
// The sequence of a raw rdma_cm program on the fakes: events, statuses and private data as librdmacm reports them.
#include "raw_end.h"

using namespace raw;

class RawConnection : public Fakes {};

TEST_F(RawConnection, PrivateDataArrivesPadded) {
  Lab lab;
  End client(lab.route());
  rdma_conn_param param = Lab::parameters("hello");
  param.private_data = "hello";
  ASSERT_EQ(rdma_connect(client.id(), &param), 0);
  const Seen request = lab.events.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT_EQ(request.data, "hello" + std::string(51, '\0'));
  EXPECT_EQ(request.conn.responder_resources, 4);
  End server(request.id);
  param.private_data = "reply";
  ASSERT_EQ(rdma_accept(server.id(), &param), 0);
  const Seen reply = lab.events.expect(RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(reply.id, client.id());
  EXPECT_EQ(reply.data, "reply" + std::string(191, '\0'));
  EXPECT_EQ(lab.events.expect(RDMA_CM_EVENT_ESTABLISHED).id, server.id());
  EXPECT_EQ(client.qp()->state, IBV_QPS_RTS);
  EXPECT_EQ(rdma_get_dst_port(server.id()), rdma_get_src_port(client.id()));
}

TEST_F(RawConnection, TooMuchPrivateDataIsRefused) {
  Lab lab;
  End client(lab.route());
  const std::string data(57, 'x');
  rdma_conn_param param = Lab::parameters(data);
  EXPECT_EQ(rdma_connect(client.id(), &param), -1);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(RawConnection, RejectionCarriesReasonAndData) {
  Lab lab;
  End client(lab.route());
  rdma_conn_param param = Lab::parameters();
  ASSERT_EQ(rdma_connect(client.id(), &param), 0);
  rdma_cm_id* incoming = lab.events.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id;
  ASSERT_EQ(rdma_reject(incoming, "no", 2), 0);
  EXPECT_EQ(rdma_destroy_id(incoming), 0);
  const Seen rejected = lab.events.expect(RDMA_CM_EVENT_REJECTED, 28);
  EXPECT_EQ(rejected.data, "no" + std::string(146, '\0'));
  EXPECT_EQ(client.qp()->state, IBV_QPS_ERR);
}

TEST_F(RawConnection, ConnectingWithoutListenerIsReasonEight) {
  Lab lab;
  rdma_cm_id* id = lab.route();
  ASSERT_EQ(rdma_destroy_id(lab.listener), 0);
  rdma_conn_param param = Lab::parameters();
  EXPECT_EQ(rdma_connect(id, &param), 0);
  lab.events.expect(RDMA_CM_EVENT_REJECTED, 8);
  EXPECT_EQ(rdma_destroy_id(id), 0);
  lab.listener = lab.new_id();
}

TEST_F(RawConnection, DisconnectIsSeenByBothEnds) {
  Lab lab;
  Pair pair(lab);
  ASSERT_EQ(pair.server->receive(1, 0, 8), 0);
  ASSERT_EQ(rdma_disconnect(pair.client.id()), 0);
  EXPECT_EQ(lab.events.expect(RDMA_CM_EVENT_DISCONNECTED).id, pair.server->id());
  EXPECT_EQ(pair.client.qp()->state, IBV_QPS_ERR);
  EXPECT_EQ(pair.server->qp()->state, IBV_QPS_RTS) << "the program manages the peer's queue pair";
  EXPECT_FALSE(lab.events.readable()) << "the reply is still missing";
  ASSERT_EQ(rdma_disconnect(pair.server->id()), 0);
  EXPECT_EQ(lab.events.expect(RDMA_CM_EVENT_DISCONNECTED).id, pair.client.id());
  EXPECT_EQ(pair.server->completion().status, IBV_WC_WR_FLUSH_ERR);
  lab.events.expect(RDMA_CM_EVENT_TIMEWAIT_EXIT);
  lab.events.expect(RDMA_CM_EVENT_TIMEWAIT_EXIT);
  EXPECT_FALSE(lab.events.readable(50));
}

TEST_F(RawConnection, DestructionOfAnEstablishedIdDisconnectsThePeer) {
  Lab lab;
  auto pair = std::make_unique<Pair>(lab);
  rdma_cm_id* server = pair->server->id();
  EXPECT_EQ(fake::live_objects()["cm id"], 3);
  pair->server.reset();
  EXPECT_EQ(lab.events.expect(RDMA_CM_EVENT_DISCONNECTED).id, pair->client.id());
  static_cast<void>(server);
}

TEST_F(RawConnection, ClosedListenerRejectsUnreadRequests) {
  Lab lab;
  rdma_cm_id* id = lab.route();
  rdma_conn_param param = Lab::parameters();
  EXPECT_EQ(rdma_connect(id, &param), 0);
  EXPECT_EQ(rdma_destroy_id(lab.listener), 0);
  lab.events.expect(RDMA_CM_EVENT_REJECTED, 28);
  EXPECT_EQ(rdma_destroy_id(id), 0);
  lab.listener = lab.new_id();
}

TEST_F(RawConnection, FullBacklogDelaysRequests) {
  Lab lab;
  rdma_cm_id* listener = lab.new_id();
  sockaddr_in address = loopback();
  ASSERT_EQ(rdma_bind_addr(listener, generic(address)), 0);
  ASSERT_EQ(rdma_listen(listener, 1), 0);
  std::swap(listener, lab.listener);
  rdma_cm_id* first = lab.route();
  rdma_cm_id* second = lab.route();
  rdma_conn_param param = Lab::parameters();
  EXPECT_EQ(rdma_connect(first, &param), 0);
  EXPECT_EQ(rdma_connect(second, &param), 0);
  rdma_cm_id* one = lab.events.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id;
  EXPECT_FALSE(lab.events.readable());
  rdma_cm_id* two = lab.events.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id;
  for (rdma_cm_id* id : {one, two, first, second, listener}) EXPECT_EQ(rdma_destroy_id(id), 0);
}

TEST_F(RawConnection, UnreachablePeersFailInTheirPhase) {
  fake::set_timing({.request_timeout = 20});
  fake::set_reach("10.9.9.1", fake::Reach::kNoRoute);
  fake::set_reach("10.9.9.2", fake::Reach::kNoNeighbour);
  fake::set_reach("10.9.9.3", fake::Reach::kNoPath);
  const struct {
    uint32_t host;
    rdma_cm_event_type event;
    int status;
  } kCases[] = {{0x0a090901, RDMA_CM_EVENT_ADDR_ERROR, -ENETUNREACH},
                {0x0a090902, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT},
                {0x0a090903, RDMA_CM_EVENT_ROUTE_ERROR, -ETIMEDOUT},
                {0x0a090904, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT}};
  for (const auto& row : kCases) {
    Lab lab;
    rdma_cm_id* id = lab.new_id();
    sockaddr_in address = loopback(htons(5));
    address.sin_addr.s_addr = htonl(row.host);
    ASSERT_EQ(rdma_resolve_addr(id, nullptr, generic(address), 10), 0);
    Seen seen = lab.events.next();
    if (seen.type == RDMA_CM_EVENT_ADDR_RESOLVED) {
      ASSERT_EQ(rdma_resolve_route(id, 10), 0);
      seen = lab.events.next();
    }
    if (seen.type == RDMA_CM_EVENT_ROUTE_RESOLVED) {
      rdma_conn_param param = Lab::parameters();
      ASSERT_EQ(rdma_connect(id, &param), 0);
      seen = lab.events.next();
    }
    EXPECT_STREQ(rdma_event_str(seen.type), rdma_event_str(row.event));
    EXPECT_EQ(seen.status, row.status);
    EXPECT_EQ(rdma_destroy_id(id), 0);
  }
}

TEST_F(RawConnection, LostMessagesEndInTimeouts) {
  fake::set_timing({.request_timeout = 20, .disconnect_timeout = 20});
  Lab lab;
  rdma_conn_param param = Lab::parameters();
  fake::lose(fake::Message::kReply);
  {
    End client(lab.route());
    ASSERT_EQ(rdma_connect(client.id(), &param), 0);
    End server(lab.events.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id);
    ASSERT_EQ(rdma_accept(server.id(), &param), 0);
    lab.events.expect(RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
    lab.events.expect(RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
  }
  fake::set_timing({.disconnect_timeout = 20});
  Pair pair(lab);
  fake::lose(fake::Message::kDisconnect);
  ASSERT_EQ(rdma_disconnect(pair.client.id()), 0);
  EXPECT_EQ(lab.events.expect(RDMA_CM_EVENT_DISCONNECTED, -ETIMEDOUT).id, pair.client.id());
}

TEST_F(RawConnection, PortsAreExclusive) {
  Lab lab;
  rdma_cm_id* id = lab.new_id();
  sockaddr_in address = loopback(rdma_get_src_port(lab.listener));
  EXPECT_EQ(rdma_bind_addr(id, generic(address)), -1);
  EXPECT_EQ(errno, EADDRINUSE);
  address.sin_addr.s_addr = htonl(0x0a090909);
  EXPECT_EQ(rdma_bind_addr(id, generic(address)), -1);
  EXPECT_EQ(errno, EADDRNOTAVAIL);
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

TEST_F(RawConnection, SynchronousIdsWait) {
  Lab lab;
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(nullptr, &id, nullptr, RDMA_PS_TCP), 0);
  sockaddr_in address = loopback(rdma_get_src_port(lab.listener));
  EXPECT_EQ(rdma_resolve_addr(id, nullptr, generic(address), 1000), 0);
  EXPECT_EQ(rdma_resolve_route(id, 1000), 0);
  EXPECT_EQ(rdma_migrate_id(id, lab.events.channel()), 0);
  rdma_conn_param param = Lab::parameters();
  EXPECT_EQ(rdma_connect(id, &param), 0);
  EXPECT_EQ(rdma_destroy_id(lab.events.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id), 0);
  EXPECT_EQ(lab.events.expect(RDMA_CM_EVENT_REJECTED, 28).id, id);
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

TEST_F(RawConnection, WithoutQueuePairsTheProgramEstablishes) {
  Lab lab;
  rdma_cm_id* client = lab.route();
  rdma_conn_param param = Lab::parameters();
  ASSERT_EQ(rdma_connect(client, &param), 0);
  rdma_cm_id* server = lab.events.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id;
  ASSERT_EQ(rdma_accept(server, &param), 0);
  lab.events.expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
  ASSERT_EQ(rdma_establish(client), 0);
  EXPECT_EQ(lab.events.expect(RDMA_CM_EVENT_ESTABLISHED).id, server);
  EXPECT_EQ(rdma_destroy_id(client), 0);
  EXPECT_EQ(lab.events.expect(RDMA_CM_EVENT_DISCONNECTED).id, server);
  EXPECT_EQ(rdma_destroy_id(server), 0);
}

TEST_F(RawConnection, RemovedDeviceNotifiesEveryId) {
  Lab lab;
  Pair pair(lab);
  fake::remove_device("fake0");
  for (int i = 0; i < 3; ++i) lab.events.expect(RDMA_CM_EVENT_DEVICE_REMOVAL);
  ibv_async_event event;
  ASSERT_EQ(ibv_get_async_event(pair.client.id()->verbs, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_DEVICE_FATAL);
  ibv_ack_async_event(&event);
}

TEST_F(RawConnection, HeldEventsArriveInTheOrderOfTheTest) {
  Lab lab;
  Pair pair(lab);
  fake::hold();
  ASSERT_EQ(rdma_disconnect(pair.client.id()), 0);
  ASSERT_EQ(rdma_disconnect(pair.server->id()), 0);
  EXPECT_FALSE(lab.events.readable());
  ASSERT_EQ(fake::held().size(), 2U);
  fake::deliver(1);
  EXPECT_EQ(lab.events.expect(RDMA_CM_EVENT_DISCONNECTED).id, pair.client.id());
  fake::deliver_all();
  EXPECT_EQ(lab.events.expect(RDMA_CM_EVENT_DISCONNECTED).id, pair.server->id());
}

TEST_F(RawConnection, InjectedEventsArrive) {
  Lab lab;
  fake::inject_cm_event(lab.listener, RDMA_CM_EVENT_CONNECT_REQUEST, 0, "x");
  rdma_cm_id* id = lab.events.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id;
  fake::inject_cm_event(id, RDMA_CM_EVENT_ADDR_CHANGE, -5);
  lab.events.expect(RDMA_CM_EVENT_ADDR_CHANGE, -5);
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

TEST_F(RawConnection, CallsFailOnceAsScripted) {
  rdma_event_channel* channel = rdma_create_event_channel();
  rdma_cm_id* id = nullptr;
  fake::fail("rdma_create_id", 2, ENOMEM);
  ASSERT_EQ(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP), 0);
  EXPECT_FALSE(fake::failure_happened());
  rdma_cm_id* second = nullptr;
  EXPECT_EQ(rdma_create_id(channel, &second, nullptr, RDMA_PS_TCP), -1);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_TRUE(fake::failure_happened());
  EXPECT_EQ(fake::calls()["rdma_create_id"], 2U);
  EXPECT_EQ(rdma_destroy_id(id), 0);
  rdma_destroy_event_channel(channel);
}

TEST_F(RawConnection, FailedTransitionIsAConnectError) {
  Lab lab;
  End client(lab.route());
  rdma_conn_param param = Lab::parameters();
  ASSERT_EQ(rdma_connect(client.id(), &param), 0);
  End server(lab.events.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id);
  ASSERT_EQ(rdma_accept(server.id(), &param), 0);
  fake::fail("cm_modify_qp", 1, EIO);
  lab.events.expect(RDMA_CM_EVENT_CONNECT_ERROR, -1);
}

using RawConnectionDeathTest = RawConnection;

TEST_F(RawConnectionDeathTest, UnacknowledgedEventsWouldBlockDestruction) {
  EXPECT_DEATH(
      {
        Lab lab;
        fake::inject_cm_event(lab.listener, RDMA_CM_EVENT_ADDR_CHANGE);
        rdma_cm_event* event;
        rdma_get_cm_event(lab.events.channel(), &event);
        rdma_destroy_id(lab.listener);
      },
      "rdma_destroy_id: would block: 1 events");
}

TEST_F(RawConnectionDeathTest, DestroyingTwiceIsReported) {
  EXPECT_DEATH(
      {
        Lab lab;
        rdma_destroy_id(lab.listener);
        rdma_destroy_id(lab.listener);
      },
      "rdma_destroy_id: cm id .* was destroyed before");
}
