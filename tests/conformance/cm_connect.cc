// SPDX-License-Identifier: BSD-2-Clause
// fi_connect at the active side; fi_cm(3).
#include "fixture/node.h"
#include "fixture/one_queue.h"
#include "fixture/raw_peer.h"

namespace cm_connect {

CONFORMANCE_TOPIC(CmConnect);

namespace {

// An address of this host without a listener: bound, and closed again.
Address deserted(const Target& target) {
  return raw::Socket::listening(target.address).address();
}

}  // namespace

TEST_P(CmConnect, ConnectedEventNamesTheEndpointAndItsContext) {
  CONNECTED_ONLY();
  Asking asking(target());
  auto& [fabric, listener, client, request] = asking;
  Node answerer(fabric, {}, request.get());
  ASSERT_EQ(answerer.accept(), 0);
  const Event event = client.eq().expect(FI_CONNECTED, client.fid());
  EXPECT_EQ(event.fid->context, &client);
}

TEST_P(CmConnect, ConnectEnablesTheEndpoint) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Pair pair(fabric);  // never calls fi_enable
  expect_exchange(pair);
}

TEST_P(CmConnect, EnabledEndpointMayConnectAsWell) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  NodeOptions enabled;
  enabled.configure = [](fid_ep* ep) { ASSERT_EQ(fi_enable(ep), 0); };
  Pair pair(fabric, enabled);
  expect_exchange(pair);
}

TEST_P(CmConnect, ReceivesMayBePostedBeforeConnectingAndAccepting) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Buffer in_a(fabric, 64), in_b(fabric, 64), out(fabric, 64);
  Context context_a, context_b, sent;
  Listener listener(fabric);
  Node client(fabric);
  client.enable();
  ASSERT_EQ(client.recv(in_a, 64, &context_a), 0);
  ASSERT_EQ(client.connect(listener.address()), 0);
  const InfoPtr request = listener.next_request();
  Node answerer(fabric, {}, request.get());
  answerer.enable();
  ASSERT_EQ(answerer.recv(in_b, 64, &context_b), 0);
  ASSERT_EQ(answerer.accept(), 0);
  client.eq().expect(FI_CONNECTED, client.fid());
  answerer.eq().expect(FI_CONNECTED, answerer.fid());
  ASSERT_EQ(client.send(out, 10, &sent), 0);
  ASSERT_EQ(answerer.send(out, 20, &sent), 0);
  EXPECT_EQ(answerer.rx().wait().context(), &context_b);
  EXPECT_EQ(client.rx().wait().context(), &context_a);
}

TEST_P(CmConnect, MissingListenerGivesErrorEntryWithConnectionRefused) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Node client(fabric);
  ASSERT_EQ(client.connect(deserted(target())), 0) << "the failure is asynchronous";
  const Event event = client.eq().expect(Event::kError, client.fid());
  EXPECT_EQ(event.err, FI_ECONNREFUSED) << event;
  EXPECT_FALSE(event.sentence.empty());
  EXPECT_TRUE(client.eq().stays_silent()) << "exactly one terminal event";
}

TEST_P(CmConnect, SentenceOfAFailureNamesThePeer) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Node client(fabric);
  const Address nobody = deserted(target());
  ASSERT_EQ(client.connect(nobody), 0);
  const Event event = client.eq().expect(Event::kError, client.fid());
  EXPECT_NE(event.sentence.find(std::to_string(nobody.port())), std::string::npos) << event.sentence;
  EXPECT_NE(event.sentence.find(target().address), std::string::npos) << event.sentence;
}

TEST_P(CmConnect, FailedEndpointCanBeClosedAndAnotherOneConnects) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  {
    Node client(fabric);
    ASSERT_EQ(client.connect(deserted(target())), 0);
    client.eq().expect(Event::kError, client.fid());
  }
  Pair pair(fabric);
  expect_exchange(pair);
}

TEST_P(CmConnect, SendIsRefusedBeforeTheConnectionIsEstablished) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Listener listener(fabric);
  Node client(fabric);
  Buffer buffer(fabric, 8);
  Context context;
  ASSERT_EQ(client.connect(listener.address()), 0);
  const InfoPtr request = listener.next_request();
  const ssize_t rc = fi_send(client.ep(), buffer.data(), 8, buffer.desc(), 0, &context);
  EXPECT_LT(rc, 0) << "outbound transfers have to wait for FI_CONNECTED";
  EXPECT_TRUE(client.tx().stays_silent(milliseconds(20)));
}

TEST_P(CmConnect, SourceAddressOfTheInfoIsUsed) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Listener listener(fabric);
  const Address source = deserted(target());
  const InfoPtr info = fabric.duplicate_info();
  ASSERT_EQ(info->src_addrlen, source.size);
  std::memcpy(info->src_addr, source.get(), source.size);
  Node client(fabric, {}, info.get());
  ASSERT_EQ(client.connect(listener.address()), 0);
  const InfoPtr request = listener.next_request();
  EXPECT_EQ(Address::copied(request->dest_addr, request->dest_addrlen), source);
}

TEST_P(CmConnect, ConnectionsThroughOneListenerAreIndependent) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Listener listener(fabric);
  std::vector<std::unique_ptr<Node>> clients, answerers;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(std::make_unique<Node>(fabric));
    ASSERT_EQ(clients[i]->connect(listener.address()), 0);
    const InfoPtr request = listener.next_request();
    answerers.push_back(std::make_unique<Node>(fabric, NodeOptions{}, request.get()));
    ASSERT_EQ(answerers[i]->accept(), 0);
    clients[i]->eq().expect(FI_CONNECTED, clients[i]->fid());
    answerers[i]->eq().expect(FI_CONNECTED, answerers[i]->fid());
  }
  clients[1]->close();
  answerers[1]->eq().expect(FI_SHUTDOWN, answerers[1]->fid());
  for (int i : {0, 2, 3}) {
    expect_round_trip(*clients[i], *answerers[i]);
    EXPECT_TRUE(answerers[i]->eq().stays_silent(milliseconds(10)));
  }
}

TEST_P(CmConnect, ClosingTheListenerLeavesConnectionsAlone) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  auto listener = std::make_unique<Listener>(fabric);
  Node client(fabric);
  ASSERT_EQ(client.connect(listener->address()), 0);
  const InfoPtr request = listener->next_request();
  Node answerer(fabric, {}, request.get());
  ASSERT_EQ(answerer.accept(), 0);
  client.eq().expect(FI_CONNECTED, client.fid());
  answerer.eq().expect(FI_CONNECTED, answerer.fid());
  listener.reset();
  expect_round_trip(client, answerer);
  expect_round_trip(answerer, client);
  EXPECT_TRUE(client.eq().stays_silent());
}

TEST_P(CmConnect, DomainsQueueServesEndpointsThatAreBoundToNone) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Listener listener(fabric);
  OneQueue ends(fabric);
  fid_ep* const client = ends.open(fabric.info());
  ASSERT_EQ(fi_connect(client, listener.address().get(), nullptr, 0), 0);
  const InfoPtr request = listener.next_request();
  fid_ep* const answerer = ends.open(request.get());
  ASSERT_EQ(fi_accept(answerer, nullptr, 0), 0);
  fid_t connected[2] = {};
  for (fid_t& endpoint : connected) ASSERT_EQ(ends.next_event(endpoint), FI_CONNECTED);
  EXPECT_NE(connected[0], connected[1]);
  for (const fid_t endpoint : connected) EXPECT_TRUE(endpoint == &client->fid || endpoint == &answerer->fid);
}

TEST_P(CmConnect, ActiveEndpointMayInheritTheAddressOfAPassiveOne) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Listener listener(fabric);
  Handle<fid_pep> reserve = opened<fid_pep>(
      "fi_passive_ep", [&](fid_pep** pep) { return fi_passive_ep(fabric.fabric(), fabric.info(), pep, nullptr); });
  Address any = Address::numeric(target().address, 0);
  ASSERT_EQ(fi_setname(&reserve->fid, any.get(), any.size), 0);
  const Address reserved = Address::local_name(&reserve->fid);
  ASSERT_NE(reserved.port(), 0);
  const InfoPtr info = fabric.duplicate_info();
  info->handle = &reserve->fid;
  Node client(fabric, {}, info.get());
  reserve.reset();  // no longer to be used; its resources go with the close
  ASSERT_EQ(client.connect(listener.address()), 0);
  const InfoPtr request = listener.next_request();
  EXPECT_EQ(Address::copied(request->dest_addr, request->dest_addrlen), reserved);
}

}  // namespace cm_connect
