// SPDX-License-Identifier: BSD-2-Clause
// fi_setname, fi_getname, fi_getpeer and their truncation rules; fi_cm(3).
#include "fixture/node.h"
#include "fixture/shared_ends.h"

namespace cm_names {

CONFORMANCE_TOPIC(CmNames);

namespace {

// "If the actual address is larger than what can fit into the buffer, it will be truncated and -FI_ETOOSMALL will be
// returned. On output, addrlen is set to the size of the buffer needed": checked for every smaller buffer.
template <class Get>
void expect_truncation(const Address& whole, Get get) {
  for (size_t room = 0; room < whole.size; ++room) {
    char bytes[sizeof(sockaddr_storage) + 1];
    std::memset(bytes, '#', sizeof bytes);
    size_t size = room;
    ASSERT_EQ(get(bytes, &size), -FI_ETOOSMALL) << "room for " << room;
    EXPECT_EQ(size, whole.size) << "room for " << room;
    EXPECT_EQ(std::memcmp(bytes, whole.get(), room), 0) << "room for " << room;
    EXPECT_EQ(bytes[room], '#') << "wrote beyond a buffer of " << room;
  }
  char exact[sizeof(sockaddr_storage)];
  size_t size = whole.size;
  EXPECT_EQ(get(exact, &size), 0);
  EXPECT_EQ(size, whole.size);
}

auto getname_of(fid_t fid) {
  return [fid](void* bytes, size_t* size) { return fi_getname(fid, bytes, size); };
}

}  // namespace

TEST_P(CmNames, SetnameAssignsTheAddressOfAListener) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  uint16_t port = Listener(fabric).address().port();
  Address wanted = Address::numeric(target().address, port);
  Listener listener(fabric, [&](fid_pep* pep) { ASSERT_EQ(fi_setname(&pep->fid, wanted.get(), wanted.size), 0); });
  EXPECT_EQ(listener.address(), wanted);
  Node client(fabric);
  ASSERT_EQ(client.connect(wanted), 0);
  EXPECT_TRUE(listener.next_request());
}

TEST_P(CmNames, SetnameWithoutServiceAllocatesOne) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  const auto pep = opened<fid_pep>(
      "fi_passive_ep", [&](fid_pep** p) { return fi_passive_ep(fabric.fabric(), fabric.info(), p, nullptr); });
  Address any = Address::numeric(target().address, 0);
  ASSERT_EQ(fi_setname(&pep->fid, any.get(), any.size), 0);
  EXPECT_NE(Address::local_name(&pep->fid).port(), 0) << "valid as soon as an address was assigned";
}

TEST_P(CmNames, SetnameAssignsTheSourceOfAnActiveEndpoint) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Address source = Address::numeric(target().address, Listener(fabric).address().port());
  Listener listener(fabric);
  Node client(fabric);
  ASSERT_EQ(fi_setname(client.fid(), source.get(), source.size), 0);
  EXPECT_EQ(Address::local_name(client.fid()), source);
  ASSERT_EQ(client.connect(listener.address()), 0);
  const InfoPtr request = listener.next_request();
  EXPECT_EQ(Address::copied(request->dest_addr, request->dest_addrlen), source);
}

TEST_P(CmNames, SetnameThatFailsKeepsTheName) {
  Fabric fabric(target());
  const Handle<fid_av> vector = target().connected() ? nullptr : open_vector(fabric);
  Node node(fabric, {.binds_events = target().connected()});
  const Address before = Address::local_name(node.fid());
  // The addresses are for documentation only: no host has them.
  Address foreign = Address::numeric(target().addr_format == FI_SOCKADDR_IN ? "192.0.2.1" : "2001:db8::1", 0);
  ASSERT_LT(fi_setname(node.fid(), foreign.get(), foreign.size), 0);
  EXPECT_EQ(Address::local_name(node.fid()), before);
  if (vector != nullptr) require_ok(fi_ep_bind(node.ep(), &vector->fid, 0), "fi_ep_bind");
  node.enable();
  EXPECT_EQ(Address::local_name(node.fid()), before);
}

TEST_P(CmNames, SetnameRefusesAnotherFormat) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  const auto pep = opened<fid_pep>(
      "fi_passive_ep", [&](fid_pep** p) { return fi_passive_ep(fabric.fabric(), fabric.info(), p, nullptr); });
  Address foreign = Address::numeric(target().addr_format == FI_SOCKADDR_IN ? "::1" : "127.0.0.1", 0);
  EXPECT_LT(fi_setname(&pep->fid, foreign.get(), foreign.size), 0);
  Address cut = Address::numeric(target().address, 0);
  EXPECT_LT(fi_setname(&pep->fid, cut.get(), cut.size - 1), 0);
}

TEST_P(CmNames, SetnameOfAListeningEndpointIsRefused) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Listener listener(fabric);
  Address any = Address::numeric(target().address, 0);
  EXPECT_LT(fi_setname(listener.fid(), any.get(), any.size), 0) << "peers know the old address";
  EXPECT_EQ(Address::local_name(listener.fid()), listener.address());
}

TEST_P(CmNames, SetnameOfAConnectedEndpointIsRefused) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Pair pair(fabric);
  const Address before = Address::local_name(pair.a().fid());
  Address any = Address::numeric(target().address, 0);
  EXPECT_LT(fi_setname(pair.a().fid(), any.get(), any.size), 0);
  EXPECT_EQ(Address::local_name(pair.a().fid()), before);
  expect_exchange(pair);
}

TEST_P(CmNames, NamesOfBothSidesMirrorEachOther) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Pair pair(fabric);
  EXPECT_EQ(Address::local_name(pair.a().fid()), Address::peer_name(pair.b().ep()));
  EXPECT_EQ(Address::local_name(pair.b().fid()), Address::peer_name(pair.a().ep()));
  EXPECT_NE(Address::local_name(pair.a().fid()).port(), 0);
}

TEST_P(CmNames, GetnameReportsTheSizeItWrote) {
  Fabric fabric(target());
  Pair pair(fabric);
  sockaddr_storage storage;
  size_t size = sizeof storage;
  ASSERT_EQ(fi_getname(pair.a().fid(), &storage, &size), 0);
  EXPECT_EQ(size, target().addr_format == FI_SOCKADDR_IN ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
}

TEST_P(CmNames, GetnameOfAnActiveEndpointTruncates) {
  Fabric fabric(target());
  Pair pair(fabric);
  expect_truncation(Address::local_name(pair.a().fid()), getname_of(pair.a().fid()));
  expect_truncation(Address::local_name(pair.b().fid()), getname_of(pair.b().fid()));
}

TEST_P(CmNames, GetnameOfAPassiveEndpointTruncates) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Listener listener(fabric);
  expect_truncation(listener.address(), getname_of(listener.fid()));
}

TEST_P(CmNames, GetpeerTruncates) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Pair pair(fabric);
  for (int i : {0, 1}) {
    fid_ep* ep = pair.node(i).ep();
    expect_truncation(Address::peer_name(ep), [ep](void* bytes, size_t* size) { return fi_getpeer(ep, bytes, size); });
  }
}

TEST_P(CmNames, GetpeerWithoutAPeerIsRefused) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Node node(fabric);
  sockaddr_storage storage;
  size_t size = sizeof storage;
  const int rc = fi_getpeer(node.ep(), &storage, &size);
  EXPECT_TRUE(rc == -FI_ENOTCONN || rc == -FI_EOPBADSTATE) << rc;
}

// The endpoint is open for the messages that wait, but its connection is gone.
TEST_P(CmNames, NamesStayWhenThePeerHasClosed) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Pair pair(fabric);
  const Address name = Address::peer_name(pair.b().ep());
  Buffer out(fabric, 64);
  Context sent;
  if (target().provider == "tcp") {  // others need a receive
    ASSERT_EQ(pair.b().send(out, 64, &sent), 0);
    ASSERT_TRUE(pair.b().tx().wait().ok());
  }
  pair.b().close();
  EXPECT_TRUE(pair.a().rx().stays_silent(milliseconds(20)));
  std::vector<std::unique_ptr<Listener>> others;  // use descriptors again that are free now
  for (int i = 0; i < 8; ++i) others.push_back(std::make_unique<Listener>(fabric));
  EXPECT_EQ(Address::local_name(pair.a().fid()), name);
}

TEST_P(CmNames, EnabledEndpointHasAName) {
  Fabric fabric(target());
  Pair pair(fabric);
  for (int i : {0, 1}) {
    const Address name = Address::local_name(pair.node(i).fid());
    EXPECT_EQ(Address::numeric(target().address, name.port()), name);
  }
}

}  // namespace cm_names
