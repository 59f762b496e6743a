// SPDX-License-Identifier: BSD-2-Clause
// Calls in the wrong state, with the wrong handle or without what they need: a clear error, nothing harmed; fi_cm(3),
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

// The endpoint is past the state in which the call is allowed; a connected one may say so more precisely.
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
  Node asker(fabric);
  ASSERT_EQ(asker.connect(listener.address()), 0);
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
  Node asker(fabric);
  ASSERT_EQ(asker.connect(listener.address()), 0);
  EXPECT_PRED1(is_state_error, asker.connect(listener.address())) << "while asking";
  const InfoPtr request = listener.next_request();
  Node answerer(fabric, {}, request.get());
  ASSERT_EQ(answerer.accept(), 0);
  asker.eq().expect(FI_CONNECTED, asker.fid());
  EXPECT_PRED1(is_state_error, asker.connect(listener.address())) << "once connected";
  EXPECT_PRED1(is_state_error, answerer.connect(listener.address())) << "on the accepting side";
  expect_round_trip(asker, answerer);
  ASSERT_EQ(fi_shutdown(asker.ep(), 0), 0);
  EXPECT_PRED1(is_state_error, asker.connect(listener.address())) << "after the shutdown";
  EXPECT_TRUE(listener.eq().stays_silent());
}

TEST_P(CmMisuse, SecondConnectIsRefusedAfterAFailure) {
  CONNECTED_ONLY();
  Asking asking(target());
  auto& [fabric, listener, asker, request] = asking;
  ASSERT_EQ(fi_reject(listener.pep(), request->handle, nullptr, 0), 0);
  asker.eq().expect(Event::kError, asker.fid());
  EXPECT_PRED1(is_state_error, asker.connect(listener.address())) << "only once in its lifetime";
}

TEST_P(CmMisuse, SecondAcceptIsRefused) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Pair pair(fabric);
  EXPECT_PRED1(is_state_error, pair.b().accept());
  EXPECT_PRED1(is_state_error, pair.a().accept()) << "on the asking side";
  expect_talking(pair);
}

TEST_P(CmMisuse, ConnectOnAnEndpointMadeForARequestIsRefused) {
  CONNECTED_ONLY();
  Asking asking(target());
  auto& [fabric, listener, asker, request] = asking;
  Node answerer(fabric, {}, request.get());
  EXPECT_PRED1(is_state_error, answerer.connect(listener.address()));
  EXPECT_EQ(answerer.accept(), 0);
  asker.eq().expect(FI_CONNECTED, asker.fid());
}

TEST_P(CmMisuse, NullAddressIsRefused) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Listener listener(fabric);
  Node asker(fabric);
  EXPECT_EQ(fi_connect(asker.ep(), nullptr, nullptr, 0), -FI_EINVAL);
  EXPECT_EQ(asker.connect(listener.address()), 0) << "the refused call did not use up the endpoint";
  EXPECT_TRUE(listener.next_request());
}

TEST_P(CmMisuse, NullDataWithALengthIsRefused) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Listener listener(fabric);
  Node asker(fabric);
  EXPECT_EQ(fi_connect(asker.ep(), listener.address().get(), nullptr, 8), -FI_EINVAL);
  ASSERT_EQ(asker.connect(listener.address()), 0);
  const InfoPtr request = listener.next_request();
  EXPECT_EQ(fi_reject(listener.pep(), request->handle, nullptr, 8), -FI_EINVAL);
  Node answerer(fabric, {}, request.get());
  EXPECT_EQ(fi_accept(answerer.ep(), nullptr, 8), -FI_EINVAL);
  EXPECT_EQ(answerer.accept(), 0);
  asker.eq().expect(FI_CONNECTED, asker.fid());
}

TEST_P(CmMisuse, AddressOfAnotherFamilyIsRefused) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Node asker(fabric);
  const Address foreign = Address::numeric(target().addr_format == FI_SOCKADDR_IN ? "::1" : "127.0.0.1", 1);
  int rc = asker.connect(foreign);
  if (rc == 0) rc = -asker.eq().expect(Event::kError, asker.fid()).err;
  EXPECT_LT(rc, 0);
}

TEST_P(CmMisuse, RejectRefusesNullAndForeignHandles) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Listener listener(fabric), other(fabric);
  Node asker(fabric);
  EXPECT_EQ(fi_reject(listener.pep(), nullptr, nullptr, 0), -FI_EINVAL);
  EXPECT_EQ(fi_reject(listener.pep(), listener.fid(), nullptr, 0), -FI_EINVAL);
  EXPECT_EQ(fi_reject(listener.pep(), asker.fid(), nullptr, 0), -FI_EINVAL);
  ASSERT_EQ(asker.connect(listener.address()), 0);
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
  expect_talking(pair);
}

TEST_P(CmMisuse, ShutdownWithoutAConnectionIsRefused) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Node node(fabric);
  const int rc = fi_shutdown(node.ep(), 0);
  EXPECT_TRUE(rc == -FI_EOPBADSTATE || rc == -FI_ENOTCONN) << rc;
}

TEST_P(CmMisuse, ClosingAListenerTellsThosePending) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  auto listener = std::make_unique<Listener>(fabric);
  Node read(fabric), unread(fabric);
  ASSERT_EQ(read.connect(listener->address()), 0);
  const InfoPtr request = listener->next_request();
  ASSERT_EQ(unread.connect(listener->address()), 0);
  EXPECT_FALSE(listener->eq().stays_silent()) << "the second request is queued";
  listener->close();
  for (Node* asker : {&unread, &read}) {
    const Event event = asker->eq().expect(Event::kError, asker->fid());
    EXPECT_NE(event.err, 0) << event;
    EXPECT_TRUE(asker->eq().stays_silent(milliseconds(20)));
  }
}

TEST_P(CmMisuse, DataTransferBeforeEnablingIsRefused) {
  Fabric fabric(target());
  Node node(fabric);
  Buffer buffer(fabric, 8);
  Context context;
  EXPECT_EQ(fi_recv(node.ep(), buffer.data(), 8, buffer.desc(), FI_ADDR_UNSPEC, &context), -FI_EOPBADSTATE);
  EXPECT_EQ(fi_send(node.ep(), buffer.data(), 8, buffer.desc(), 0, &context), -FI_EOPBADSTATE);
}

TEST_P(CmMisuse, ClosingWhatIsStillInUseAnswersBusy) {
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
  ASSERT_EQ(node.connect(listener.address()), 0);  // and nothing was harmed
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
  expect_talking(pair);
}

}  // namespace cm_misuse
