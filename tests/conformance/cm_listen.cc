// SPDX-License-Identifier: BSD-2-Clause
// fi_listen and the FI_CONNREQ event; fi_cm(3), fi_eq(3).
#include "fixture/node.h"

namespace cm_listen {

CONFORMANCE_TOPIC(CmListen);

namespace {

Handle<fid_pep> passive_endpoint(const Fabric& fabric, fi_info* info) {
  return opened<fid_pep>("fi_passive_ep",
                         [&](fid_pep** pep) { return fi_passive_ep(fabric.fabric(), info, pep, nullptr); });
}

}  // namespace

TEST_P(CmListen, RequestIsReportedWithFidOfPassiveEndpoint) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Listener listener(fabric);
  Node client(fabric);
  ASSERT_EQ(client.connect(listener.address()), 0);
  const Event event = listener.eq().wait();
  ASSERT_EQ(event.type, static_cast<int>(FI_CONNREQ)) << event;
  EXPECT_EQ(event.fid, listener.fid());
  EXPECT_EQ(event.fid->context, &listener);
  ASSERT_TRUE(event.info);
  EXPECT_NE(event.info->handle, nullptr);
}

TEST_P(CmListen, RequestInfoDescribesAnEndpointOfTheSameKind) {
  CONNECTED_ONLY();
  Asking asking(target());
  auto& [fabric, listener, client, request] = asking;
  EXPECT_EQ(request->ep_attr->type, target().ep_type);
  EXPECT_EQ(request->addr_format, target().addr_format);
  EXPECT_EQ(request->caps & (FI_MSG | FI_SEND | FI_RECV), fabric.info()->caps & (FI_MSG | FI_SEND | FI_RECV));
  EXPECT_STREQ(request->fabric_attr->prov_name, fabric.info()->fabric_attr->prov_name);
}

TEST_P(CmListen, RequestInfoCarriesBothAddresses) {
  CONNECTED_ONLY();
  Asking asking(target());
  auto& [fabric, listener, client, request] = asking;
  ASSERT_NE(request->dest_addr, nullptr);
  ASSERT_NE(request->src_addr, nullptr);
  const Address of_client = Address::local_name(client.fid());
  EXPECT_EQ(Address::copied(request->dest_addr, request->dest_addrlen), of_client) << "the peer of the endpoint to be";
  EXPECT_EQ(Address::copied(request->src_addr, request->src_addrlen), listener.address());
}

TEST_P(CmListen, ListenerWithoutServiceAddressIsGivenOne) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Listener listener(fabric);
  EXPECT_NE(listener.address().port(), 0);
  EXPECT_EQ(Address::numeric(target().address, listener.address().port()), listener.address());
}

TEST_P(CmListen, TwoListenersOfOneFabricHaveTheirOwnAddressesAndRequests) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Listener first(fabric), second(fabric);
  EXPECT_NE(first.address().port(), second.address().port());
  Node client(fabric);
  ASSERT_EQ(client.connect(second.address()), 0);
  EXPECT_TRUE(second.next_request());
  EXPECT_TRUE(first.eq().stays_silent());
}

TEST_P(CmListen, TwoListenersMayShareAnEventQueue) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  EventQueue shared(fabric);
  Handle<fid_pep> peps[2];
  Address names[2];
  for (int i = 0; i < 2; ++i) {
    peps[i] = passive_endpoint(fabric, fabric.info());
    ASSERT_EQ(fi_pep_bind(peps[i].get(), shared.fid(), 0), 0);
    ASSERT_EQ(fi_listen(peps[i].get()), 0);
    names[i] = Address::local_name(&peps[i]->fid);
  }
  Node client(fabric);
  ASSERT_EQ(client.connect(names[1]), 0);
  shared.expect(FI_CONNREQ, &peps[1]->fid);
}

TEST_P(CmListen, BacklogMayBeSetBeforeListening) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  int backlog = 7;
  Listener listener(fabric, [&](fid_pep* pep) { EXPECT_EQ(fi_control(&pep->fid, FI_BACKLOG, &backlog), 0); });
  Node client(fabric);
  ASSERT_EQ(client.connect(listener.address()), 0);
  EXPECT_TRUE(listener.next_request());
}

TEST_P(CmListen, RequestsWaitUntilTheyAreRead) {
  CONNECTED_ONLY();
  constexpr size_t kClients = 16;
  Fabric fabric(target());
  Listener listener(fabric);
  std::vector<std::unique_ptr<Node>> clients;
  for (size_t i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<Node>(fabric));
    ASSERT_EQ(clients.back()->connect(listener.address(), "client " + std::to_string(i)), 0);
  }
  EXPECT_TRUE(clients[0]->eq().stays_silent()) << "no answer was sent yet";
  std::vector<std::string> names;
  for (size_t i = 0; i < kClients; ++i) {
    std::vector<char> data;
    ASSERT_TRUE(listener.next_request(&data));
    names.emplace_back(data.begin(), data.end());
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::unique(names.begin(), names.end()), names.end()) << "each request once";
  EXPECT_TRUE(listener.eq().stays_silent());
}

TEST_P(CmListen, ClosingTheListenerFreesItsAddress) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Address address;
  {
    Listener listener(fabric);
    address = listener.address();
  }
  Listener again(fabric, [&](fid_pep* pep) { ASSERT_EQ(fi_setname(&pep->fid, address.get(), address.size), 0); });
  EXPECT_EQ(again.address(), address);
}

TEST_P(CmListen, TakenAddressIsRefusedAsInUse) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Listener listener(fabric);
  EventQueue eq(fabric);
  const Handle<fid_pep> pep = passive_endpoint(fabric, fabric.info());
  ASSERT_EQ(fi_pep_bind(pep.get(), eq.fid(), 0), 0);
  Address taken = listener.address();
  int rc = fi_setname(&pep->fid, taken.get(), taken.size);
  if (rc == 0) rc = fi_listen(pep.get());
  EXPECT_EQ(rc, -FI_EADDRINUSE);
}

TEST_P(CmListen, ServiceOfGetinfoIsTheListeningPort) {
  CONNECTED_ONLY();
  uint16_t port = 0;
  {
    Fabric fabric(target());
    port = Listener(fabric).address().port();  // free again when the listener binds it
  }
  Fabric fabric(target());
  const InfoPtr hints = hints_for(target());
  fi_info* raw = nullptr;
  ASSERT_EQ(fi_getinfo(static_cast<int>(api_version()), target().address.c_str(), std::to_string(port).c_str(),
                       FI_SOURCE, hints.get(), &raw),
            0);
  const InfoPtr info(raw);
  EventQueue eq(fabric);
  const Handle<fid_pep> pep = passive_endpoint(fabric, info.get());
  ASSERT_EQ(fi_pep_bind(pep.get(), eq.fid(), 0), 0);
  ASSERT_EQ(fi_listen(pep.get()), 0);
  EXPECT_EQ(Address::local_name(&pep->fid).port(), port);
}

}  // namespace cm_listen
