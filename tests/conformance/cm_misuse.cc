// SPDX-License-Identifier: BSD-2-Clause
// Calls in the wrong state, with the wrong handle or without a required object: a clear error and no damage; fi_cm(3),
// fi_endpoint(3).
#include "fixture/node.h"

namespace cm_misuse {

CONFORMANCE_TOPIC(CmMisuse);

namespace {

Handle<fid_pep> passive_endpoint(const Fabric& fabric) {
  return opened<fid_pep>("fi_passive_ep",
                         [&](fid_pep** pep) { return fi_passive_ep(fabric.fabric(), fabric.info(), pep, nullptr); });
}

Handle<fid_ep> bare_endpoint(const Fabric& fabric) {
  return opened<fid_ep>("fi_endpoint",
                        [&](fid_ep** ep) { return fi_endpoint(fabric.domain(), fabric.info(), ep, nullptr); });
}

// The endpoint is past the state that allows the call; a connected one may answer a more precise error.
bool is_state_error(int rc) {
  return rc == -FI_EOPBADSTATE || rc == -FI_EISCONN || rc == -FI_EALREADY;
}

}  // namespace

TEST_P(CmMisuse, ListenWithoutEventQueueIsRefused) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  EXPECT_EQ(fi_listen(passive_endpoint(fabric).get()), -FI_ENOEQ);
}

TEST_P(CmMisuse, ListenTwiceIsRefused) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Listener listener(fabric);
  EXPECT_LT(fi_listen(listener.pep()), 0);
  Node client(fabric);
  ASSERT_EQ(client.connect(listener.address()), 0);
  EXPECT_TRUE(listener.next_request()) << "still listening";
}

TEST_P(CmMisuse, ConnectWithoutEventQueueIsRefused) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Listener listener(fabric);
  CompletionQueue cq(fabric);
  const auto ep = bare_endpoint(fabric);
  ASSERT_EQ(fi_ep_bind(ep.get(), cq.fid(), FI_TRANSMIT | FI_RECV), 0);
  EXPECT_EQ(fi_connect(ep.get(), listener.address().get(), nullptr, 0), -FI_ENOEQ);
}

TEST_P(CmMisuse, ConnectWithoutCompletionQueueIsRefused) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Listener listener(fabric);
  EventQueue eq(fabric);
  const auto ep = bare_endpoint(fabric);
  ASSERT_EQ(fi_ep_bind(ep.get(), eq.fid(), 0), 0);
  EXPECT_EQ(fi_connect(ep.get(), listener.address().get(), nullptr, 0), -FI_ENOCQ);
}

TEST_P(CmMisuse, EnableWithoutCompletionQueueIsRefused) {
  Fabric fabric(target());
  EventQueue eq(fabric);
  const auto ep = bare_endpoint(fabric);
  ASSERT_EQ(fi_ep_bind(ep.get(), eq.fid(), 0), 0);
  EXPECT_EQ(fi_enable(ep.get()), -FI_ENOCQ);
}

TEST_P(CmMisuse, SecondConnectIsRefusedAtEveryStage) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Listener listener(fabric);
  Node client(fabric);
  ASSERT_EQ(client.connect(listener.address()), 0);
  EXPECT_PRED1(is_state_error, client.connect(listener.address())) << "while asking";
  const InfoPtr request = listener.next_request();
  Node answerer(fabric, {}, request.get());
  ASSERT_EQ(answerer.accept(), 0);
  client.eq().expect(FI_CONNECTED, client.fid());
  EXPECT_PRED1(is_state_error, client.connect(listener.address())) << "once connected";
  EXPECT_PRED1(is_state_error, answerer.connect(listener.address())) << "on the accepting side";
  expect_round_trip(client, answerer);
  ASSERT_EQ(fi_shutdown(client.ep(), 0), 0);
  EXPECT_PRED1(is_state_error, client.connect(listener.address())) << "after the shutdown";
  EXPECT_TRUE(listener.eq().stays_silent());
}

TEST_P(CmMisuse, SecondConnectIsRefusedAfterAFailure) {
  CONNECTED_ONLY();
  Asking asking(target());
  auto& [fabric, listener, client, request] = asking;
  ASSERT_EQ(fi_reject(listener.pep(), request->handle, nullptr, 0), 0);
  client.eq().expect(Event::kError, client.fid());
  EXPECT_PRED1(is_state_error, client.connect(listener.address())) << "only once in its lifetime";
}

TEST_P(CmMisuse, SecondAcceptIsRefused) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Pair pair(fabric);
  EXPECT_PRED1(is_state_error, pair.b().accept());
  EXPECT_PRED1(is_state_error, pair.a().accept()) << "on the asking side";
  expect_exchange(pair);
}

TEST_P(CmMisuse, ConnectOnAnEndpointMadeForARequestIsRefused) {
  CONNECTED_ONLY();
  Asking asking(target());
  auto& [fabric, listener, client, request] = asking;
  Node answerer(fabric, {}, request.get());
  EXPECT_PRED1(is_state_error, answerer.connect(listener.address()));
  EXPECT_EQ(answerer.accept(), 0);
  client.eq().expect(FI_CONNECTED, client.fid());
}

TEST_P(CmMisuse, NullAddressIsRefused) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Listener listener(fabric);
  Node client(fabric);
  EXPECT_EQ(fi_connect(client.ep(), nullptr, nullptr, 0), -FI_EINVAL);
  EXPECT_EQ(client.connect(listener.address()), 0) << "the refused call did not use up the endpoint";
  EXPECT_TRUE(listener.next_request());
}

TEST_P(CmMisuse, NullDataWithALengthIsRefused) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Listener listener(fabric);
  Node client(fabric);
  EXPECT_EQ(fi_connect(client.ep(), listener.address().get(), nullptr, 8), -FI_EINVAL);
  ASSERT_EQ(client.connect(listener.address()), 0);
  const InfoPtr request = listener.next_request();
  EXPECT_EQ(fi_reject(listener.pep(), request->handle, nullptr, 8), -FI_EINVAL);
  Node answerer(fabric, {}, request.get());
  EXPECT_EQ(fi_accept(answerer.ep(), nullptr, 8), -FI_EINVAL);
  EXPECT_EQ(answerer.accept(), 0);
  client.eq().expect(FI_CONNECTED, client.fid());
}

TEST_P(CmMisuse, AddressOfAnotherFamilyIsRefused) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Node client(fabric);
  const Address foreign = Address::numeric(target().addr_format == FI_SOCKADDR_IN ? "::1" : "127.0.0.1", 1);
  int rc = client.connect(foreign);
  if (rc == 0) rc = -client.eq().expect(Event::kError, client.fid()).err;
  EXPECT_LT(rc, 0);
}

TEST_P(CmMisuse, RejectRefusesNullAndForeignHandles) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Listener listener(fabric), other(fabric);
  Node client(fabric);
  EXPECT_EQ(fi_reject(listener.pep(), nullptr, nullptr, 0), -FI_EINVAL);
  EXPECT_EQ(fi_reject(listener.pep(), listener.fid(), nullptr, 0), -FI_EINVAL);
  EXPECT_EQ(fi_reject(listener.pep(), client.fid(), nullptr, 0), -FI_EINVAL);
  ASSERT_EQ(client.connect(listener.address()), 0);
  const InfoPtr request = listener.next_request();
  EXPECT_EQ(fi_reject(other.pep(), request->handle, nullptr, 0), -FI_EINVAL) << "a request of another listener";
  EXPECT_EQ(fi_reject(listener.pep(), request->handle, nullptr, 0), 0);
}

TEST_P(CmMisuse, EndpointWithAForeignHandleIsRefused) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  EventQueue eq(fabric);
  const InfoPtr info = fabric.duplicate_info();
  info->handle = eq.fid();  // neither a request nor a passive endpoint
  fid_ep* ep = nullptr;
  EXPECT_EQ(fi_endpoint(fabric.domain(), info.get(), &ep, nullptr), -FI_EINVAL);
  EXPECT_EQ(ep, nullptr) << "out-parameters stay untouched";
}

TEST_P(CmMisuse, ReservedShutdownFlagsAreRefused) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Pair pair(fabric);
  for (uint64_t flags : {uint64_t{1}, uint64_t{FI_READ}, uint64_t{FI_WRITE}}) {
    const int rc = fi_shutdown(pair.a().ep(), flags);
    EXPECT_TRUE(rc == -FI_EINVAL || rc == -FI_EBADFLAGS) << rc;
  }
  expect_exchange(pair);
}

TEST_P(CmMisuse, ShutdownWithoutAConnectionIsRefused) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Node node(fabric);
  const int rc = fi_shutdown(node.ep(), 0);
  EXPECT_TRUE(rc == -FI_EOPBADSTATE || rc == -FI_ENOTCONN) << rc;
}

namespace {

void expect_rejected(Node& client) {
  const Event event = client.eq().expect(Event::kError, client.fid());
  EXPECT_NE(event.err, 0) << event;
  EXPECT_TRUE(client.eq().stays_silent(milliseconds(20)));
}

}  // namespace

TEST_P(CmMisuse, ClosingAListenerRejectsUnreadRequests) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Listener listener(fabric);
  Node clients[] = {Node(fabric), Node(fabric), Node(fabric)};
  for (Node& client : clients) {
    ASSERT_EQ(client.connect(listener.address()), 0);
    EXPECT_TRUE(client.eq().stays_silent(milliseconds(20)));
  }
  listener.close();
  EXPECT_TRUE(listener.eq().stays_silent(milliseconds(20)));
  for (Node& client : clients) expect_rejected(client);
}

// A request that was read belongs to the application, also without its listener and without the listener's queue.
TEST_P(CmMisuse, RequestThatWasReadOutlivesItsListener) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Node accepted(fabric), closed(fabric);
  InfoPtr requests[2];
  {
    Listener listener(fabric);
    ASSERT_EQ(accepted.connect(listener.address(), "hello"), 0);
    requests[0] = listener.next_request();
    ASSERT_EQ(closed.connect(listener.address()), 0);
    requests[1] = listener.next_request();
  }
  Listener another(fabric);
  EXPECT_EQ(fi_reject(another.pep(), requests[0]->handle, nullptr, 0), -FI_EINVAL) << "a request of another listener";
  Node answerer(fabric, {}, requests[0].get());
  ASSERT_EQ(answerer.accept("welcome"), 0);
  EXPECT_EQ(accepted.eq().expect(FI_CONNECTED, accepted.fid()).cm_text().substr(0, 7), "welcome");
  answerer.eq().expect(FI_CONNECTED, answerer.fid());
  expect_round_trip(accepted, answerer);
  expect_round_trip(answerer, accepted);
  { const Node never(fabric, {}, requests[1].get()); }
  expect_rejected(closed);
  fid_ep* ep = nullptr;
  for (const InfoPtr& request : requests)
    EXPECT_EQ(fi_endpoint(fabric.domain(), request.get(), &ep, nullptr), -FI_EINVAL) << "each is answered once";
}

TEST_P(CmMisuse, ClosingTheFabricRejectsRequestsWithoutAListener) {
  CONNECTED_ONLY();
  Fabric others(target());
  Node client(others);
  {
    Fabric fabric(target());
    Listener listener(fabric);
    ASSERT_EQ(client.connect(listener.address()), 0);
    const InfoPtr request = listener.next_request();
  }
  expect_rejected(client);
}

TEST_P(CmMisuse, DataTransferBeforeEnablingIsRefused) {
  Fabric fabric(target());
  Node node(fabric);
  Buffer buffer(fabric, 8);
  Context context;
  EXPECT_EQ(fi_recv(node.ep(), buffer.data(), 8, buffer.desc(), FI_ADDR_UNSPEC, &context), -FI_EOPBADSTATE);
  EXPECT_EQ(fi_send(node.ep(), buffer.data(), 8, buffer.desc(), 0, &context), -FI_EOPBADSTATE);
}

TEST_P(CmMisuse, ClosingAnObjectInUseAnswersBusy) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Listener listener(fabric);
  Node node(fabric);
  EXPECT_EQ(fi_close(node.eq().fid()), -FI_EBUSY);
  EXPECT_EQ(fi_close(node.tx().fid()), -FI_EBUSY);
  EXPECT_EQ(fi_close(node.rx().fid()), -FI_EBUSY);
  EXPECT_EQ(fi_close(listener.eq().fid()), -FI_EBUSY);
  EXPECT_EQ(fi_close(&fabric.domain()->fid), -FI_EBUSY);
  EXPECT_EQ(fi_close(&fabric.fabric()->fid), -FI_EBUSY);
  ASSERT_EQ(node.connect(listener.address()), 0);  // and nothing was damaged
  EXPECT_TRUE(listener.next_request());
}

TEST_P(CmMisuse, BindingTheWrongKindOfObjectIsRefused) {
  Fabric fabric(target());
  Node node(fabric);
  EXPECT_LT(fi_ep_bind(node.ep(), &fabric.domain()->fid, 0), 0);
  EXPECT_LT(fi_ep_bind(node.ep(), node.fid(), 0), 0);
  if (target().connected()) {
    EXPECT_LT(fi_pep_bind(passive_endpoint(fabric).get(), node.tx().fid(), 0), 0);
  }
}

TEST_P(CmMisuse, BindingsThatChangeNothingAreAccepted) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Node node(fabric);
  fi_av_attr attr{};
  attr.type = FI_AV_TABLE;
  const Handle<fid_av> av =
      opened<fid_av>("fi_av_open", [&](fid_av** a) { return fi_av_open(fabric.domain(), &attr, a, nullptr); });
  EXPECT_EQ(fi_ep_bind(node.ep(), &av->fid, 0), 0) << "a connection needs none";
  EXPECT_EQ(fi_ep_bind(node.ep(), node.eq().fid(), 0), 0) << "that queue is bound";
  EventQueue other(fabric);
  EXPECT_EQ(fi_ep_bind(node.ep(), other.fid(), 0), -FI_EINVAL) << "another one is bound";
}

TEST_P(CmMisuse, BindingASecondCompletionQueueForADirectionIsRefused) {
  Fabric fabric(target());
  Node node(fabric);
  CompletionQueue extra(fabric);
  EXPECT_LT(fi_ep_bind(node.ep(), extra.fid(), FI_TRANSMIT), 0);
  EXPECT_LT(fi_ep_bind(node.ep(), extra.fid(), FI_RECV), 0);
}

TEST_P(CmMisuse, BindingToAnEnabledEndpointIsRefused) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Pair pair(fabric);
  CompletionQueue extra(fabric);
  EXPECT_LT(fi_ep_bind(pair.a().ep(), extra.fid(), FI_TRANSMIT), 0);
  expect_exchange(pair);
}

}  // namespace cm_misuse
