// SPDX-License-Identifier: BSD-2-Clause
// One absolute deadline over connection set-up: FI_OPT_WEFT_CONNECT_TIMEOUT of rdma/fi_ext.h. The peers here are black
// holes (fixture/black_hole.h).
#include <rdma/fi_ext.h>

#include "fixture/black_hole.h"
#include "fixture/child.h"
#include "fixture/node.h"
#include "fixture/parameter.h"
#include "fixture/raw_peer.h"

namespace cm_deadline {

CONFORMANCE_TOPIC(CmDeadline);

namespace {

constexpr int kTimeoutMs = 300;
constexpr int kSlackMs = kPromptMs;  // a busy machine may be that late

int set_timeout(Node& node, int timeout_ms) {
  return fi_setopt(node.fid(), FI_OPT_ENDPOINT, FI_OPT_WEFT_CONNECT_TIMEOUT, &timeout_ms, sizeof timeout_ms);
}

// FI_TCP_CONNECT_TIMEOUT and the like.
std::string variable_of(const Target& target, const std::string& name) {
  std::string variable = "FI_" + target.provider + "_" + name;
  for (char& letter : variable) letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  return variable;
}

void expect_timed_out(Node& node, Clock::time_point start) {
  const Event event = node.eq().expect(Event::kError, node.fid());
  EXPECT_EQ(event.err, FI_ETIMEDOUT) << event;
  EXPECT_GE(elapsed_ms(start), kTimeoutMs - 1);
  EXPECT_LE(elapsed_ms(start), kTimeoutMs + kSlackMs);
  EXPECT_TRUE(node.eq().stays_silent()) << "exactly one terminal event";
}

void expect_connect_times_out(const Target& target, BlackHole::Kind kind) {
  Fabric fabric(target);
  const BlackHole hole(fabric, kind);
  Node client(fabric);
  ASSERT_EQ(set_timeout(client, kTimeoutMs), 0);
  const auto start = Clock::now();
  ASSERT_EQ(client.connect(hole.address()), 0);
  expect_timed_out(client, start);
}

}  // namespace

TEST_P(CmDeadline, ConnectToASilentPeerTimesOut) {
  CONNECTED_ONLY();
  expect_connect_times_out(target(), BlackHole::kSilent);
}

TEST_P(CmDeadline, ConnectToAFullBacklogTimesOut) {
  CONNECTED_ONLY();
  expect_connect_times_out(target(), BlackHole::kFull);
}

// The kernel alone would try for minutes, so a return long before the deadline means that the call did not wait.
TEST_P(CmDeadline, ConnectItselfDoesNotBlock) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  const BlackHole hole(fabric, BlackHole::kFull);
  Node client(fabric);
  ASSERT_EQ(set_timeout(client, kWaitMs), 0);
  const auto start = Clock::now();
  ASSERT_EQ(client.connect(hole.address()), 0);
  EXPECT_LT(elapsed_ms(start), kPromptMs);
}

TEST_P(CmDeadline, ListenerThatNeverAnswersTimesOut) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Listener listener(fabric);
  Node client(fabric);
  ASSERT_EQ(set_timeout(client, kTimeoutMs), 0);
  const auto start = Clock::now();
  ASSERT_EQ(client.connect(listener.address()), 0);
  const InfoPtr request = listener.next_request();
  expect_timed_out(client, start);
}

TEST_P(CmDeadline, SlowAnswerDoesNotExtendTheDeadline) {
  CONNECTED_ONLY();
  if (!speaks_tcp()) GTEST_SKIP() << "speaks the tcp wire protocol";
  Fabric fabric(target());
  const raw::Socket hole = raw::Socket::listening(target().address);
  Node client(fabric);
  ASSERT_EQ(set_timeout(client, kTimeoutMs), 0);
  const auto start = Clock::now();
  ASSERT_EQ(client.connect(hole.address()), 0);
  raw::Socket peer = raw::Socket(hole.fd() >= 0 ? ::accept4(hole.fd(), nullptr, nullptr, SOCK_CLOEXEC) : -1);
  const std::string answer = raw::cm_message(raw::kConnresp);
  Event event;
  for (size_t i = 0; i + 1 < answer.size() && event.type == Event::kNothing; ++i) {
    peer.write(answer.substr(i, 1));
    event = client.eq().wait(after(milliseconds(50)));
  }
  EXPECT_EQ(event.type, static_cast<int>(Event::kError)) << event;
  EXPECT_LE(elapsed_ms(start), kTimeoutMs + kSlackMs);
}

TEST_P(CmDeadline, SentenceNamesPhaseAddressesAndTime) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  const BlackHole hole(fabric, BlackHole::kSilent);
  Node client(fabric);
  ASSERT_EQ(set_timeout(client, kTimeoutMs), 0);
  ASSERT_EQ(client.connect(hole.address()), 0);
  const Address own = Address::local_name(client.fid());
  const Event event = client.eq().expect(Event::kError, client.fid());
  const auto says = [&](const std::string& part) { return event.sentence.find(part) != std::string::npos; };
  EXPECT_TRUE(says(target().address)) << event.sentence;
  EXPECT_TRUE(says(std::to_string(hole.address().port()))) << event.sentence;
  EXPECT_TRUE(says(std::to_string(own.port()))) << "own address: " << event.sentence;
  EXPECT_TRUE(says(" ms") || says(" s")) << "time spent: " << event.sentence;
  EXPECT_TRUE(says("answer") || says("response") || says("handshake") || says("reply")) << "phase: " << event.sentence;
}

TEST_P(CmDeadline, ZeroMeansNoDeadline) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Listener listener(fabric);
  Node client(fabric);
  ASSERT_EQ(set_timeout(client, 0), 0);
  ASSERT_EQ(client.connect(listener.address()), 0);
  const InfoPtr request = listener.next_request();
  EXPECT_TRUE(client.eq().stays_silent(milliseconds(2 * kTimeoutMs)));
  Node answerer(fabric, {}, request.get());
  ASSERT_EQ(answerer.accept(), 0);
  client.eq().expect(FI_CONNECTED, client.fid());
}

TEST_P(CmDeadline, DeadlineEndsWithTheConnection) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  NodeOptions hurried;
  hurried.configure = [](fid_ep* ep) {
    const int timeout_ms = 1000;
    ASSERT_EQ(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_WEFT_CONNECT_TIMEOUT, &timeout_ms, sizeof timeout_ms), 0);
  };
  Pair pair(fabric, hurried);
  EXPECT_TRUE(pair.a().eq().stays_silent(milliseconds(1250)));
  expect_exchange(pair);
}

TEST_P(CmDeadline, OptionIsCheckedAndReadBack) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Node node(fabric);
  int timeout_ms = 0;
  size_t size = sizeof timeout_ms;
  EXPECT_EQ(fi_getopt(node.fid(), FI_OPT_ENDPOINT, FI_OPT_WEFT_CONNECT_TIMEOUT, &timeout_ms, &size), 0);
  EXPECT_GT(timeout_ms, 0) << "there is a deadline unless somebody asked for none";
  EXPECT_EQ(set_timeout(node, 1234), 0);
  EXPECT_EQ(fi_getopt(node.fid(), FI_OPT_ENDPOINT, FI_OPT_WEFT_CONNECT_TIMEOUT, &timeout_ms, &size), 0);
  EXPECT_EQ(timeout_ms, 1234);
  EXPECT_EQ(set_timeout(node, -1), -FI_EINVAL);
  const int64_t wide = 5;
  EXPECT_EQ(fi_setopt(node.fid(), FI_OPT_ENDPOINT, FI_OPT_WEFT_CONNECT_TIMEOUT, &wide, sizeof wide), -FI_EINVAL);
  size_t small = 2;
  EXPECT_EQ(fi_getopt(node.fid(), FI_OPT_ENDPOINT, FI_OPT_WEFT_CONNECT_TIMEOUT, &timeout_ms, &small), -FI_ETOOSMALL);
}

TEST_P(CmDeadline, OptionIsFixedOnceConnecting) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Pair pair(fabric);
  EXPECT_EQ(set_timeout(pair.a(), 1), -FI_EOPBADSTATE);
  EXPECT_EQ(set_timeout(pair.b(), 1), -FI_EOPBADSTATE);
}

TEST_P(CmDeadline, ParameterSetsTheDefault) {
  CONNECTED_ONLY();
  int status = -1;
  const std::string variable = variable_of(target(), "CONNECT_TIMEOUT");
  EXPECT_EQ(child::output_of("show_connect_timeout", {{variable, "4321"}}, &status), "4321\n");
  EXPECT_EQ(status, 0);
}

// The server accepts after 3 s, later than the time-out to connect. Where MAX_CONNECTING exists, the second client's
// request is sent only after the first one's answer.
TEST_P(CmDeadline, TimeOfABusyServerIsNotTheClients) {
  CONNECTED_ONLY();
  const std::string connect_timeout = variable_of(target(), "CONNECT_TIMEOUT");
  const std::string most_connecting = variable_of(target(), "MAX_CONNECTING");
  const Parameter limit(connect_timeout.c_str(), "2000"), turns(most_connecting.c_str(), "1");
  Fabric fabric(target());
  Listener listener(fabric);
  Node clients[] = {Node(fabric), Node(fabric)};
  for (Node& client : clients) ASSERT_EQ(client.connect(listener.address()), 0);
  InfoPtr request = listener.next_request();
  for (Node& client : clients) EXPECT_TRUE(client.eq().stays_silent(milliseconds(1500)));
  Node first(fabric, {}, request.get());
  ASSERT_EQ(first.accept(), 0);
  request = listener.next_request();
  Node second(fabric, {}, request.get());
  ASSERT_EQ(second.accept(), 0);
  for (Node& client : clients) client.eq().expect(FI_CONNECTED, client.fid());
}

TEST_P(CmDeadline, ServerThatNeverAnswersHasATimeOfItsOwn) {
  CONNECTED_ONLY();
  const std::string variable = variable_of(target(), "ANSWER_TIMEOUT");
  const Parameter limit(variable.c_str(), std::to_string(kTimeoutMs).c_str());
  Fabric fabric(target());
  Listener listener(fabric);
  Node client(fabric);
  const auto start = Clock::now();
  ASSERT_EQ(client.connect(listener.address()), 0);
  const InfoPtr request = listener.next_request();
  expect_timed_out(client, start);
}

// A host that dies while its application may take any time is noticed by the kernel's probes.
TEST_P(CmDeadline, PeerThatMayAnswerForEverIsProbed) {
  if (!speaks_tcp() || target().ep_type == FI_EP_RDM) GTEST_SKIP() << "sockets are looked at";
  const Parameter limit("FI_TCP_ANSWER_TIMEOUT", "0");
  Fabric fabric(target());
  Listener listener(fabric);
  Node client(fabric);
  ASSERT_EQ(client.connect(listener.address()), 0);
  const InfoPtr request = listener.next_request();
  const auto probes = [&] {
    for (int fd = 0; fd < 1024; ++fd) {
      sockaddr_storage peer{};
      socklen_t len = sizeof peer, size = sizeof(int);
      int enabled = 0;
      if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &len) == 0 &&
          Address{peer, len}.port() == listener.address().port() &&
          getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &enabled, &size) == 0 && enabled == 1)
        return true;
    }
    return false;
  };
  for (const auto end = after(kPatience); !probes() && Clock::now() < end;) client.eq().stays_silent(milliseconds(1));
  EXPECT_TRUE(probes());
}

TEST_P(CmDeadline, StateOfTheEndpointIsCheckedBeforeTheValue) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Pair pair(fabric);
  EXPECT_EQ(set_timeout(pair.a(), -1), -FI_EOPBADSTATE);
  EXPECT_EQ(fi_setopt(pair.a().fid(), FI_OPT_ENDPOINT, FI_OPT_WEFT_CONNECT_TIMEOUT, nullptr, 0), -FI_EOPBADSTATE);
}

}  // namespace cm_deadline
