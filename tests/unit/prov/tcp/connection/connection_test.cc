// SPDX-License-Identifier: BSD-2-Clause
// Connections between two sides of one process over the loopback: the promises of fi_cm(3), misuse, and peers that
// misbehave.
#include <arpa/inet.h>
#include <rdma/fi_ext.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>

#include "base/unique_fd.h"
#include "tcp/connection/cm_message.h"
#include "unit/prov/tcp/side.h"

namespace weft::tcp::testing {
namespace {

using namespace std::chrono_literals;

// Polls both sides until `side` has an event.
Event await_event(Side& side, Side& other, std::chrono::milliseconds patience = 20s) {
  Event event;
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!side.poll(event)) {
    if (std::chrono::steady_clock::now() > end) {
      ADD_FAILURE() << "no event";
      return event;
    }
    fi_cq_read(other.cq, nullptr, 0);
    std::this_thread::yield();
  }
  return event;
}

class Connection : public ::testing::Test {
 protected:
  void SetUp() override { server.listen(); }

  // Brings up a connection; data both ways.
  void connect(const std::string& request = "please", const std::string& answer = "welcome") {
    client.connect(server.listening_at(), request);
    const Event asked = await_event(server, client);
    ASSERT_EQ(asked.number, static_cast<uint32_t>(FI_CONNREQ));
    EXPECT_EQ(asked.data, request);
    server.accept(asked, answer);
    const Event accepted = await_event(server, client);
    ASSERT_EQ(accepted.number, static_cast<uint32_t>(FI_CONNECTED));
    EXPECT_EQ(accepted.fid, &server.ep->fid);
    EXPECT_EQ(accepted.data, "");
    const Event connected = await_event(client, server);
    ASSERT_EQ(connected.number, static_cast<uint32_t>(FI_CONNECTED)) << connected.sentence;
    EXPECT_EQ(connected.fid, &client.ep->fid);
    EXPECT_EQ(connected.data, answer);
  }
  Event request() {
    client.connect(server.listening_at(), "hello");
    return await_event(server, client);
  }
  // A peer without our library: a plain socket.
  UniqueFd connected_socket() {
    const sockaddr_storage to = server.listening_at();
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(sockaddr_in)), 0);
    return socket;
  }

  Side client;
  Side server;
};

TEST_F(Connection, CarriesDataBothWaysAndEndsOnBothSides) {
  connect();
  EXPECT_EQ(fi_shutdown(client.ep, 0), 0);
  const Event here = await_event(client, server);
  EXPECT_EQ(here.number, static_cast<uint32_t>(FI_SHUTDOWN));
  EXPECT_EQ(here.fid, &client.ep->fid);
  const Event there = await_event(server, client);
  EXPECT_EQ(there.number, static_cast<uint32_t>(FI_SHUTDOWN));
  EXPECT_EQ(there.fid, &server.ep->fid);
  Event none;
  EXPECT_FALSE(client.poll(none));
  EXPECT_FALSE(server.poll(none));
  EXPECT_EQ(fi_shutdown(client.ep, 0), 0);
  EXPECT_EQ(fi_shutdown(server.ep, 0), 0);
}

TEST_F(Connection, RequestCarriesBothAddresses) {
  const Event asked = request();
  ASSERT_NE(asked.info, nullptr);
  EXPECT_EQ(asked.fid, &server.pep->fid);
  const sockaddr_storage listening = server.listening_at();
  ASSERT_EQ(asked.info->src_addrlen, sizeof(sockaddr_in));
  EXPECT_EQ(std::memcmp(asked.info->src_addr, &listening, sizeof(sockaddr_in)), 0);
  sockaddr_in name{};
  size_t len = sizeof name;
  ASSERT_EQ(fi_getname(&client.ep->fid, &name, &len), 0);
  ASSERT_EQ(asked.info->dest_addrlen, sizeof name);
  EXPECT_EQ(std::memcmp(asked.info->dest_addr, &name, sizeof name), 0);
  EXPECT_EQ(asked.info->handle->fclass, static_cast<size_t>(FI_CLASS_CONNREQ));
}

TEST_F(Connection, NamesFollowTheTruncationRules) {
  connect();
  sockaddr_in whole{};
  size_t len = sizeof whole;
  ASSERT_EQ(fi_getpeer(client.ep, &whole, &len), 0);
  EXPECT_EQ(len, sizeof whole);
  const sockaddr_storage listening = server.listening_at();
  EXPECT_EQ(std::memcmp(&whole, &listening, sizeof whole), 0);
  unsigned char part[5] = {0, 0, 0, 0, 0xEE};
  len = 4;
  EXPECT_EQ(fi_getpeer(client.ep, part, &len), -FI_ETOOSMALL);
  EXPECT_EQ(len, sizeof whole);
  EXPECT_EQ(std::memcmp(part, &whole, 4), 0);
  EXPECT_EQ(part[4], 0xEE);
  len = 0;
  EXPECT_EQ(fi_getname(&server.ep->fid, nullptr, &len), -FI_ETOOSMALL);
  EXPECT_EQ(len, sizeof whole);
  EXPECT_EQ(fi_getname(&server.ep->fid, &whole, nullptr), -FI_EINVAL);
}

TEST_F(Connection, RejectCarriesDataInTheErrorEntry) {
  const Event asked = request();
  EXPECT_EQ(fi_reject(server.pep, asked.info->handle, "no room", 7), 0);
  const Event refused = await_event(client, server);
  EXPECT_EQ(refused.number, kError);
  EXPECT_EQ(refused.error, FI_ECONNREFUSED);
  EXPECT_EQ(refused.fid, &client.ep->fid);
  EXPECT_EQ(refused.data, "no room");
  EXPECT_NE(refused.sentence.find("rejected"), std::string::npos) << refused.sentence;
  EXPECT_EQ(fi_reject(server.pep, asked.info->handle, nullptr, 0), -FI_EINVAL);
  fid_ep* late = nullptr;
  EXPECT_EQ(fi_endpoint(server.domain, asked.info.get(), &late, nullptr), -FI_EINVAL);
}

TEST_F(Connection, OversizedDataIsCutSilently) {
  const std::string much(1000, 'x');
  connect(much.substr(0, kCmDataSize), much.substr(0, kCmDataSize));
  Side second;
  second.connect(server.listening_at(), much);
  const Event asked = await_event(server, second);
  EXPECT_EQ(asked.data, much.substr(0, kCmDataSize));
  EXPECT_EQ(fi_reject(server.pep, asked.info->handle, much.data(), much.size()), 0);
  EXPECT_EQ(await_event(second, server).data, much.substr(0, kCmDataSize));
  size_t limit = 0;
  size_t len = sizeof limit;
  EXPECT_EQ(fi_getopt(&client.ep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &limit, &len), 0);
  EXPECT_EQ(limit, kCmDataSize);
}

TEST_F(Connection, RequestThatWasReadOutlivesItsListener) {
  const Event asked = request();
  Side::close_one(server.pep);
  server.open_endpoint(asked.info.get());
  Side::close_one(server.ep);
  EXPECT_EQ(await_event(client, server).error, FI_ECONNREFUSED);
  fid_ep* late = nullptr;
  EXPECT_EQ(fi_endpoint(server.domain, asked.info.get(), &late, nullptr), -FI_EINVAL);
}

TEST_F(Connection, ClosingAnEndpointThatNeverAcceptedRejects) {
  const Event asked = request();
  server.open_endpoint(asked.info.get());
  Side::close_one(server.ep);
  EXPECT_EQ(await_event(client, server).error, FI_ECONNREFUSED);
}

TEST_F(Connection, FailsWithoutAListener) {
  const sockaddr_storage gone = server.listening_at();
  Side::close_one(server.pep);
  client.connect(gone);
  const Event refused = await_event(client, server);
  EXPECT_EQ(refused.error, FI_ECONNREFUSED);
  EXPECT_NE(refused.sentence.find("no listener at that address while connecting (127.0.0.1:"), std::string::npos)
      << refused.sentence;
}

TEST_F(Connection, DeadlineNamesThePhase) {
  client.open_endpoint();
  const int timeout_ms = 50;
  ASSERT_EQ(fi_setopt(&client.ep->fid, FI_OPT_ENDPOINT, FI_OPT_WEFT_CONNECT_TIMEOUT, &timeout_ms, sizeof timeout_ms),
            0);
  const sockaddr_storage to = server.listening_at();
  ASSERT_EQ(fi_connect(client.ep, &to, nullptr, 0), 0);
  const Event failed = await_event(client, client);
  EXPECT_EQ(failed.error, FI_ETIMEDOUT);
  EXPECT_NE(failed.sentence.find("waiting for the answer"), std::string::npos) << failed.sentence;
  EXPECT_EQ(fi_setopt(&client.ep->fid, FI_OPT_ENDPOINT, FI_OPT_WEFT_CONNECT_TIMEOUT, &timeout_ms, sizeof timeout_ms),
            -FI_EOPBADSTATE);
}

TEST_F(Connection, CallsInTheWrongStateFail) {
  const sockaddr_storage to = server.listening_at();
  ASSERT_EQ(fi_endpoint(client.domain, client.info.get(), &client.ep, nullptr), 0);
  EXPECT_EQ(fi_connect(client.ep, &to, nullptr, 0), -FI_ENOEQ);
  EXPECT_EQ(fi_shutdown(client.ep, 0), -FI_ENOTCONN);
  ASSERT_EQ(fi_ep_bind(client.ep, &client.eq->fid, 0), 0);
  EXPECT_EQ(fi_ep_bind(client.ep, &client.eq->fid, 0), 0);
  EXPECT_EQ(fi_ep_bind(client.ep, &server.eq->fid, 0), -FI_EINVAL);
  EXPECT_EQ(fi_connect(client.ep, &to, nullptr, 0), -FI_ENOCQ);
  EXPECT_EQ(fi_ep_bind(client.ep, &server.cq->fid, FI_TRANSMIT | FI_RECV), -FI_EDOMAIN);
  EXPECT_EQ(fi_ep_bind(client.ep, &client.domain->fid, 0), -FI_EINVAL);
  ASSERT_EQ(fi_ep_bind(client.ep, &client.cq->fid, FI_TRANSMIT | FI_RECV), 0);
  EXPECT_EQ(fi_connect(client.ep, nullptr, nullptr, 0), -FI_EINVAL);
  EXPECT_EQ(fi_accept(client.ep, nullptr, 0), -FI_EOPBADSTATE);
  EXPECT_EQ(fi_shutdown(client.ep, 1), -FI_EBADFLAGS);
  EXPECT_EQ(fi_connect(client.ep, &to, nullptr, 0), 0);
  EXPECT_EQ(fi_connect(client.ep, &to, nullptr, 0), -FI_EOPBADSTATE);
  EXPECT_EQ(fi_reject(server.pep, &client.ep->fid, nullptr, 0), -FI_EINVAL);
  EXPECT_EQ(fi_reject(server.pep, nullptr, nullptr, 0), -FI_EINVAL);
  EXPECT_EQ(fi_listen(server.pep), -FI_EOPBADSTATE);
  const Event asked = await_event(server, client);
  server.accept(asked);
  EXPECT_EQ(fi_accept(server.ep, nullptr, 0), -FI_EISCONN);
  EXPECT_EQ(await_event(client, server).number, static_cast<uint32_t>(FI_CONNECTED));
  EXPECT_EQ(fi_connect(client.ep, &to, nullptr, 0), -FI_EISCONN);
  EXPECT_EQ(fi_close(&client.eq->fid), -FI_EBUSY);
  EXPECT_EQ(fi_close(&client.domain->fid), -FI_EBUSY);
  EXPECT_EQ(fi_close(&client.fabric->fid), -FI_EBUSY);
}

TEST_F(Connection, ShutdownCancelsReceivesBeforeItReturns) {
  connect();
  char buffer[64];
  ASSERT_EQ(fi_recv(client.ep, buffer, sizeof buffer, nullptr, FI_ADDR_UNSPEC, buffer), 0);
  EXPECT_EQ(fi_shutdown(client.ep, 0), 0);
  Done done;
  ASSERT_TRUE(client.poll(done));
  EXPECT_EQ(done.context, buffer);
  EXPECT_EQ(done.error, FI_ECANCELED);
  EXPECT_FALSE(client.poll(done));
}

TEST_F(Connection, MessagesGoBothWays) {
  connect();
  char to_server[64] = {};
  char to_client[64] = {};
  ASSERT_EQ(fi_recv(server.ep, to_server, sizeof to_server, nullptr, FI_ADDR_UNSPEC, to_server), 0);
  ASSERT_EQ(fi_recv(client.ep, to_client, sizeof to_client, nullptr, FI_ADDR_UNSPEC, to_client), 0);
  ASSERT_EQ(fi_send(client.ep, "ping", 5, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
  ASSERT_EQ(fi_send(server.ep, "pong", 5, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
  int completions = 0;
  Done done;
  for (int i = 0; i < 10000 && completions < 4; ++i)
    completions += (client.poll(done) && done.error == 0) + (server.poll(done) && done.error == 0);
  EXPECT_EQ(completions, 4);
  EXPECT_STREQ(to_server, "ping");
  EXPECT_STREQ(to_client, "pong");
}

TEST_F(Connection, BacklogBoundsPendingRequests) {
  int backlog = 2;
  EXPECT_EQ(fi_control(&server.pep->fid, FI_BACKLOG, nullptr), -FI_EINVAL);
  ASSERT_EQ(fi_control(&server.pep->fid, FI_BACKLOG, &backlog), 0);
  backlog = 0;
  EXPECT_EQ(fi_control(&server.pep->fid, FI_BACKLOG, &backlog), -FI_EINVAL);
  Side second, third;
  const sockaddr_storage to = server.listening_at();
  for (Side* side : {&client, &second, &third}) side->connect(to);
  const Event one = await_event(server, client);
  const Event two = await_event(server, client);
  Event none;
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(server.poll(none));
  EXPECT_EQ(fi_reject(server.pep, one.info->handle, nullptr, 0), 0);
  EXPECT_EQ(await_event(server, client).number, static_cast<uint32_t>(FI_CONNREQ));
}

TEST_F(Connection, GarbageDoesNotDisturbOtherConnections) {
  std::vector<UniqueFd> vandals;
  for (const char* junk :
       {"GET / HTTP/1.1\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n", "\3", "\3\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1"}) {
    vandals.push_back(connected_socket());
    EXPECT_GT(::send(vandals.back().get(), junk, std::strlen(junk), MSG_NOSIGNAL), 0);
  }
  connect();
}

TEST_F(Connection, RequestInPiecesIsAccepted) {
  const UniqueFd peer = connected_socket();
  CmMessage message;
  message.compose(CmType::kRequest, "slow", 4);
  Event event;
  for (std::byte byte : message.unsent()) {
    EXPECT_FALSE(server.poll(event));
    ASSERT_EQ(::send(peer.get(), &byte, 1, MSG_NOSIGNAL), 1);
  }
  event = await_event(server, client);
  EXPECT_EQ(event.number, static_cast<uint32_t>(FI_CONNREQ));
  EXPECT_EQ(event.data, "slow");
}

TEST_F(Connection, AnotherProtocolVersionIsReported) {
  UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_storage name{};
  auto* in = reinterpret_cast<sockaddr_in*>(&name);
  in->sin_family = AF_INET;
  in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t len = sizeof(sockaddr_in);
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&name), len), 0);
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&name), &len), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  client.connect(name);
  UniqueFd peer(::accept(listener.get(), nullptr, nullptr));
  ASSERT_EQ(::send(peer.get(), "\4\1", 2, MSG_NOSIGNAL), 2);
  const Event failed = await_event(client, client);
  EXPECT_EQ(failed.error, FI_ENOPROTOOPT);
  EXPECT_NE(failed.sentence.find("version"), std::string::npos) << failed.sentence;
}

TEST_F(Connection, AnActiveEndpointInheritsAPassiveOne) {
  fid_pep* reserved = nullptr;
  ASSERT_EQ(fi_passive_ep(client.fabric, client.info.get(), &reserved, nullptr), 0);
  sockaddr_in name{};
  size_t len = sizeof name;
  ASSERT_EQ(fi_getname(&reserved->fid, &name, &len), 0);
  client.info->handle = &reserved->fid;
  const Event asked = request();
  EXPECT_EQ(std::memcmp(asked.info->dest_addr, &name, sizeof name), 0);
  EXPECT_EQ(fi_listen(reserved), -FI_ENOEQ);
  EXPECT_EQ(fi_close(&reserved->fid), 0);
  fid_ep* stale = nullptr;
  EXPECT_EQ(fi_endpoint(client.domain, client.info.get(), &stale, nullptr), -FI_EINVAL);
}

TEST_F(Connection, SetnameChoosesTheLocalPort) {
  client.open_endpoint();
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(fi_setname(&client.ep->fid, &name, 3), -FI_EINVAL);
  ASSERT_EQ(fi_setname(&client.ep->fid, &name, sizeof name), 0);
  size_t len = sizeof name;
  ASSERT_EQ(fi_getname(&client.ep->fid, &name, &len), 0);
  EXPECT_NE(name.sin_port, 0);
  const sockaddr_storage to = server.listening_at();
  ASSERT_EQ(fi_connect(client.ep, &to, nullptr, 0), 0);
  EXPECT_EQ(fi_setname(&client.ep->fid, &name, sizeof name), -FI_EOPBADSTATE);
  const Event asked = await_event(server, client);
  EXPECT_EQ(std::memcmp(asked.info->dest_addr, &name, sizeof name), 0);
}

TEST(ConnectionOverIpv6, AnEndpointWithoutSourceConnectsToEitherFamily) {
  for (const char* address : {"::1", "127.0.0.1"}) {
    SCOPED_TRACE(address);
    Side server(address);
    if (server.info == nullptr) continue;  // this host has no IPv6 loopback address
    server.listen();
    Side client;
    client.info->addr_format = FI_SOCKADDR_IP;
    std::free(std::exchange(client.info->src_addr, nullptr));
    client.info->src_addrlen = 0;
    client.connect(server.listening_at(), "here");
    const Event asked = await_event(server, client);
    EXPECT_EQ(asked.data, "here");
    server.accept(asked);
    EXPECT_EQ(await_event(client, server).number, static_cast<uint32_t>(FI_CONNECTED));
  }
}

TEST(ConnectionOverIpv6, AnEndpointWithANameKeepsItsFamily) {
  Side client, server("::1");
  if (server.info == nullptr) GTEST_SKIP() << "this host has no IPv6 loopback address";
  server.listen();
  client.info->addr_format = FI_SOCKADDR_IP;
  client.open_endpoint();
  sockaddr_storage name;
  size_t len = sizeof name;
  ASSERT_EQ(fi_getname(&client.ep->fid, &name, &len), 0);
  const sockaddr_storage to = server.listening_at();
  EXPECT_EQ(fi_connect(client.ep, &to, nullptr, 0), -FI_EINVAL);
}

TEST(ConnectionOverIpv6, Connects) {
  Side client("::1");
  Side server("::1");
  if (client.info == nullptr) GTEST_SKIP() << "this host has no IPv6 loopback address";
  server.listen();
  client.connect(server.listening_at(), "six");
  const Event asked = await_event(server, client);
  EXPECT_EQ(asked.data, "six");
  EXPECT_EQ(asked.info->dest_addrlen, sizeof(sockaddr_in6));
  server.accept(asked);
  EXPECT_EQ(await_event(client, server).number, static_cast<uint32_t>(FI_CONNECTED));
}

}  // namespace
}  // namespace weft::tcp::testing
