// SPDX-License-Identifier: BSD-2-Clause
// fi_accept and fi_reject; fi_cm(3).
#include "fixture/node.h"

namespace cm_accept_reject {

CONFORMANCE_TOPIC(CmAcceptReject);

TEST_P(CmAcceptReject, AcceptedRequestGivesConnectedOnBothSides) {
  CONNECTED_ONLY();
  Asking asking(target());
  auto& [fabric, listener, client, request] = asking;
  Node answerer(fabric, {}, request.get());
  ASSERT_EQ(answerer.accept(), 0);
  client.eq().expect(FI_CONNECTED, client.fid());
  answerer.eq().expect(FI_CONNECTED, answerer.fid());
  EXPECT_TRUE(client.eq().stays_silent());
  EXPECT_TRUE(answerer.eq().stays_silent());
  EXPECT_TRUE(listener.eq().stays_silent());
}

TEST_P(CmAcceptReject, ConnectedOnAcceptingSideNamesTheEndpointNotTheListener) {
  CONNECTED_ONLY();
  Asking asking(target());
  auto& [fabric, listener, client, request] = asking;
  Node answerer(fabric, {}, request.get());
  ASSERT_EQ(answerer.accept(), 0);
  const Event event = answerer.eq().expect(FI_CONNECTED, answerer.fid());
  EXPECT_NE(event.fid, listener.fid());
  EXPECT_EQ(event.fid->context, &answerer);
}

TEST_P(CmAcceptReject, AcceptingEndpointMayReportToTheListenersQueue) {
  CONNECTED_ONLY();
  Asking asking(target());
  auto& [fabric, listener, client, request] = asking;
  CompletionQueue cq(fabric);
  const auto ep = opened<fid_ep>(
      "fi_endpoint", [&](fid_ep** e) { return fi_endpoint(asking.fabric.domain(), asking.request.get(), e, nullptr); });
  ASSERT_EQ(fi_ep_bind(ep.get(), listener.eq().fid(), 0), 0);
  ASSERT_EQ(fi_ep_bind(ep.get(), cq.fid(), FI_TRANSMIT | FI_RECV), 0) << "one CQ may serve both directions";
  ASSERT_EQ(fi_accept(ep.get(), nullptr, 0), 0);
  listener.eq().expect(FI_CONNECTED, &ep->fid);
  client.eq().expect(FI_CONNECTED, client.fid());
}

TEST_P(CmAcceptReject, AcceptingEndpointMayLiveInAnotherDomainOfTheFabric) {
  CONNECTED_ONLY();
  Fabric fabric(target()), other(target());
  Listener listener(fabric);
  Node client(other);
  ASSERT_EQ(client.connect(listener.address()), 0);
  const InfoPtr request = listener.next_request();
  Node answerer(fabric, {}, request.get());
  ASSERT_EQ(answerer.accept(), 0);
  client.eq().expect(FI_CONNECTED, client.fid());
  expect_round_trip(client, answerer);
}

TEST_P(CmAcceptReject, AcceptingEndpointMayLiveInAnotherFabricObject) {
  CONNECTED_ONLY();
  Asking asking(target());
  auto& [fabric, listener, client, request] = asking;
  Fabric other(target());
  ASSERT_NE(other.fabric(), fabric.fabric());
  Node answerer(other, {}, request.get());
  ASSERT_EQ(answerer.accept(), 0);
  client.eq().expect(FI_CONNECTED, client.fid());
  answerer.eq().expect(FI_CONNECTED, answerer.fid());
  expect_round_trip(client, answerer);
}

TEST_P(CmAcceptReject, RequestsEndWithTheirFabricObject) {
  CONNECTED_ONLY();
  Fabric other(target());
  InfoPtr request;
  {
    Asking asking(target());
    request = std::move(asking.request);
  }
  fid_ep* ep = nullptr;
  EXPECT_LT(fi_endpoint(other.domain(), request.get(), &ep, nullptr), 0);
}

namespace {

// `from` sends 64 bytes, for which `to` has posted a receive.
void expect_message(Node& from, Node& to) {
  Buffer out(from.fabric(), 64);
  Context context;
  ASSERT_EQ(from.send(out, 64, &context), 0);
  const Completion received = to.rx().wait();
  ASSERT_TRUE(received.ok()) << received;
  EXPECT_EQ(received.entry.len, 64u);
  const Completion sent = from.tx().wait();
  ASSERT_TRUE(sent.ok()) << sent;
}

}  // namespace

// A program may read its events in one thread and its completions in another.
TEST_P(CmAcceptReject, FirstMessageMayBeAnsweredBeforeTheEventIsRead) {
  CONNECTED_ONLY();
  Asking asking(target());
  auto& [fabric, listener, client, request] = asking;
  Node answerer(fabric, {}, request.get());
  Buffer in(fabric, 64), answer(fabric, 64);
  Context contexts[2];
  answerer.enable();
  ASSERT_EQ(answerer.recv(in, 64, &contexts[0]), 0);
  ASSERT_EQ(client.recv(answer, 64, &contexts[1]), 0);
  ASSERT_EQ(answerer.accept(), 0);
  client.eq().expect(FI_CONNECTED, client.fid());
  expect_message(client, answerer);
  expect_message(answerer, client);
  answerer.eq().expect(FI_CONNECTED, answerer.fid());
}

TEST_P(CmAcceptReject, MessageMayBeSentBetweenFiAcceptAndItsEvent) {
  CONNECTED_ONLY();
  Asking asking(target());
  auto& [fabric, listener, client, request] = asking;
  Node answerer(fabric, {}, request.get());
  Buffer in(fabric, 64), out(fabric, 64);
  Context contexts[2];
  ASSERT_EQ(client.recv(in, 64, &contexts[0]), 0);
  ASSERT_EQ(answerer.accept(), 0);
  ASSERT_EQ(fi_send(answerer.ep(), out.data(), 64, out.desc(), 0, &contexts[1]), 0);
  client.eq().expect(FI_CONNECTED, client.fid());
  answerer.eq().expect(FI_CONNECTED, answerer.fid());
  const Completion received = client.rx().wait();
  ASSERT_TRUE(received.ok()) << received;
  EXPECT_EQ(answerer.tx().wait().context(), &contexts[1]);
}

TEST_P(CmAcceptReject, RejectedRequestGivesErrorEntryToTheClient) {
  CONNECTED_ONLY();
  Asking asking(target());
  auto& [fabric, listener, client, request] = asking;
  ASSERT_EQ(fi_reject(listener.pep(), request->handle, nullptr, 0), 0);
  const Event event = client.eq().expect(Event::kError, client.fid());
  EXPECT_EQ(event.err, FI_ECONNREFUSED) << event;
  EXPECT_TRUE(event.err_data.empty()) << event;
  EXPECT_FALSE(event.sentence.empty());
  EXPECT_TRUE(client.eq().stays_silent()) << "exactly one terminal event";
  EXPECT_TRUE(listener.eq().stays_silent());
}

TEST_P(CmAcceptReject, RequestsMayBeAnsweredInAnyOrder) {
  CONNECTED_ONLY();
  constexpr int kClients = 4;
  Fabric fabric(target());
  Listener listener(fabric);
  std::vector<std::unique_ptr<Node>> clients;
  std::vector<InfoPtr> requests(kClients);
  for (int i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<Node>(fabric));
    ASSERT_EQ(clients.back()->connect(listener.address(), std::string(1, static_cast<char>('0' + i))), 0);
  }
  for (int i = 0; i < kClients; ++i) {
    std::vector<char> data;
    InfoPtr request = listener.next_request(&data);
    ASSERT_FALSE(data.empty());
    requests.at(static_cast<size_t>(data[0] - '0')) = std::move(request);
  }
  std::vector<std::unique_ptr<Node>> answerers;
  for (int i : {3, 1}) {
    ASSERT_EQ(fi_reject(listener.pep(), requests[i]->handle, nullptr, 0), 0);
    EXPECT_EQ(clients[i]->eq().expect(Event::kError, clients[i]->fid()).err, FI_ECONNREFUSED);
  }
  for (int i : {2, 0}) {
    answerers.push_back(std::make_unique<Node>(fabric, NodeOptions{}, requests[i].get()));
    ASSERT_EQ(answerers.back()->accept(), 0);
    clients[i]->eq().expect(FI_CONNECTED, clients[i]->fid());
    answerers.back()->eq().expect(FI_CONNECTED, answerers.back()->fid());
    expect_round_trip(*clients[i], *answerers.back());
  }
}

TEST_P(CmAcceptReject, AcceptAfterTheClientClosedEndsInExactlyOneTerminalEvent) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Listener listener(fabric);
  auto client = std::make_unique<Node>(fabric);
  ASSERT_EQ(client->connect(listener.address()), 0);
  const InfoPtr request = listener.next_request();
  client.reset();
  Node answerer(fabric, {}, request.get());
  if (answerer.accept() != 0) return;  // reported at once: fine as well
  Event event = answerer.eq().wait();
  if (event.type == FI_CONNECTED) event = answerer.eq().wait();  // the accept crossed the close on the wire
  EXPECT_TRUE(event.type == FI_SHUTDOWN || event.type == Event::kError) << event;
  EXPECT_EQ(event.fid, answerer.fid());
  EXPECT_TRUE(answerer.eq().stays_silent());
}

TEST_P(CmAcceptReject, RejectAfterTheClientClosedHasNoEffect) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Pair bystanders(fabric);
  Listener listener(fabric);
  auto client = std::make_unique<Node>(fabric);
  ASSERT_EQ(client->connect(listener.address()), 0);
  const InfoPtr request = listener.next_request();
  client.reset();
  fi_reject(listener.pep(), request->handle, "no", 2);  // may or may not report it
  Node next(fabric);
  ASSERT_EQ(next.connect(listener.address()), 0);
  EXPECT_TRUE(listener.next_request());
  expect_exchange(bystanders);
}

TEST_P(CmAcceptReject, ClosingTheEndpointMadeForARequestNotifiesTheClient) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Listener listener(fabric);
  Node client(fabric);
  ASSERT_EQ(client.connect(listener.address()), 0);
  {
    const InfoPtr request = listener.next_request();
    Node answerer(fabric, {}, request.get());  // closed without fi_accept
  }
  const Event event = client.eq().expect(Event::kError, client.fid());
  EXPECT_NE(event.err, 0);
  EXPECT_TRUE(client.eq().stays_silent());
}

TEST_P(CmAcceptReject, AcceptWithoutARequestIsRefused) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Node node(fabric);
  EXPECT_EQ(node.accept(), -FI_EOPBADSTATE);
}

}  // namespace cm_accept_reject
