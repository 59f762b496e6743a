// SPDX-License-Identifier: BSD-2-Clause
// fi_shutdown, fi_close of a connected endpoint and the FI_SHUTDOWN event; fi_cm(3).
#include <netinet/tcp.h>
#include <rdma/fi_ext.h>
#include <rdma/fi_rma.h>
#include <sys/socket.h>

#include <array>
#include <ctime>
#include <functional>
#include <map>

#include "fixture/child.h"
#include "fixture/driver.h"
#include "fixture/node.h"
#include "fixture/parameter.h"

namespace cm_shutdown {

CONFORMANCE_TOPIC(CmShutdown);

namespace {

constexpr size_t kReceives = 4;

struct Receives {
  explicit Receives(const Fabric& fabric) : buffer(fabric, 64) {}
  void post(Node& node) {
    for (Context& context : contexts) require_ok(node.recv(buffer, 64, &context), "fi_recv");
  }
  Buffer buffer;
  Context contexts[kReceives];
};

constexpr std::string_view kInject = "fi_inject";

// One end was shut down, and the other has the event.
struct EndedConnection {
  explicit EndedConnection(const Target& target)
      : fabric(target, [](fi_info& hints) { hints.caps = FI_MSG | FI_RMA; }), pair(fabric), buffer(fabric, 64, 0) {
    require_ok(fi_shutdown(pair.a().ep(), 0), "fi_shutdown");
    pair.b().eq().expect(FI_SHUTDOWN, pair.b().fid());
  }
  std::array<Node*, 2> nodes() { return {&pair.a(), &pair.b()}; }

  // Calls that send, by name.
  using Calls = std::map<std::string_view, std::function<ssize_t(void* context)>>;
  Calls sends(Node& node) {
    fid_ep* const ep = node.ep();
    constexpr uint64_t kNowhere = 0;
    return {
        {"fi_send", [=, this](void* context) { return fi_send(ep, buffer.data(), 8, buffer.desc(), 0, context); }},
        {"fi_sendmsg",
         [=, this](void* context) {
           const iovec iov{buffer.data(), 8};
           void* desc = buffer.desc();
           const fi_msg message{&iov, &desc, 1, 0, context, 0};
           return fi_sendmsg(ep, &message, FI_COMPLETION);
         }},
        {kInject, [=, this](void*) { return fi_inject(ep, buffer.data(), 8, 0); }},
        {"fi_write",
         [=, this](void* context) { return fi_write(ep, buffer.data(), 8, buffer.desc(), 0, kNowhere, 0, context); }},
        {"fi_read",
         [=, this](void* context) { return fi_read(ep, buffer.data(), 8, buffer.desc(), 0, kNowhere, 0, context); }}};
  }

  Fabric fabric;
  Pair pair;
  Buffer buffer;
};

}  // namespace

TEST_P(CmShutdown, PeerSeesShutdownOfItsEndpoint) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  for (int side : {0, 1}) {
    Pair pair(fabric);
    ASSERT_EQ(fi_shutdown(pair.node(side).ep(), 0), 0);
    Node& peer = pair.node(1 - side);
    const Event event = peer.eq().expect(FI_SHUTDOWN, peer.fid());
    EXPECT_EQ(event.fid->context, &peer);
    EXPECT_TRUE(peer.eq().stays_silent()) << "exactly one terminal event";
  }
}

TEST_P(CmShutdown, PeerSeesShutdownAfterAClose) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  for (int side : {0, 1}) {
    Pair pair(fabric);
    pair.node(side).close();
    Node& peer = pair.node(1 - side);
    peer.eq().expect(FI_SHUTDOWN, peer.fid());
    EXPECT_TRUE(peer.eq().stays_silent()) << "exactly one terminal event";
  }
}

TEST_P(CmShutdown, PeerSeesShutdownAfterTheProcessIsKilled) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Listener listener(fabric);
  child::Running peer("connect_and_stay",
                      {{"WEFT_CONFORMANCE_PEER", target().address + " " + std::to_string(listener.address().port())}});
  const InfoPtr request = listener.next_request();
  Node answerer(fabric, {}, request.get());
  ASSERT_EQ(answerer.accept(), 0);
  answerer.eq().expect(FI_CONNECTED, answerer.fid());
  Receives receives(fabric);
  receives.post(answerer);
  peer.kill();
  answerer.eq().expect(FI_SHUTDOWN, answerer.fid());
  for (size_t i = 0; i < kReceives; ++i) EXPECT_NE(answerer.rx().wait().err(), 0);
}

TEST_P(CmShutdown, LocalSideSeesAtMostOneTerminalEvent) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Pair pair(fabric);
  ASSERT_EQ(fi_shutdown(pair.a().ep(), 0), 0);
  pair.b().eq().expect(FI_SHUTDOWN, pair.b().fid());
  pair.b().close();
  const Event event = pair.a().eq().wait(after(kSilence));
  EXPECT_TRUE(event.type == Event::kNothing || event.type == FI_SHUTDOWN) << event;
  EXPECT_TRUE(pair.a().eq().stays_silent());
}

TEST_P(CmShutdown, ShutdownOfBothSidesAtOnceGivesEachAtMostOneEvent) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Pair pair(fabric);
  ASSERT_EQ(fi_shutdown(pair.a().ep(), 0), 0);
  ASSERT_EQ(fi_shutdown(pair.b().ep(), 0), 0);
  for (int i : {0, 1}) {
    const Event event = pair.node(i).eq().wait(after(kSilence));
    EXPECT_TRUE(event.type == Event::kNothing || event.type == FI_SHUTDOWN) << event;
    EXPECT_TRUE(pair.node(i).eq().stays_silent());
  }
}

TEST_P(CmShutdown, SecondShutdownDoesNotRepeatTheEvent) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Pair pair(fabric);
  ASSERT_EQ(fi_shutdown(pair.a().ep(), 0), 0);
  pair.b().eq().expect(FI_SHUTDOWN, pair.b().fid());
  fi_shutdown(pair.a().ep(), 0);  // any answer, no second event
  fi_shutdown(pair.b().ep(), 0);
  EXPECT_TRUE(pair.b().eq().stays_silent());
}

TEST_P(CmShutdown, OutstandingReceivesAreReportedCanceledBeforeShutdownReturns) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Pair pair(fabric);
  Receives receives(fabric);
  receives.post(pair.a());
  ASSERT_EQ(fi_shutdown(pair.a().ep(), 0), 0);
  for (Context& context : receives.contexts) {
    const Completion completion = pair.a().rx().read();  // no waiting
    EXPECT_EQ(completion.err(), FI_ECANCELED) << completion;
    EXPECT_EQ(completion.context(), &context);
    EXPECT_TRUE(completion.error.flags & FI_RECV);
  }
  EXPECT_EQ(pair.a().rx().read().rc, -FI_EAGAIN) << "each receive once";
}

TEST_P(CmShutdown, CompletionsWrittenBeforeRemainReadable) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Pair pair(fabric);
  Receives receives(fabric);
  receives.post(pair.b());
  Buffer out(fabric, 64);
  Context sent[kReceives];
  for (Context& context : sent) ASSERT_EQ(pair.a().send(out, 16, &context), 0);
  const auto deadline = after(kPatience);
  Buffer marker(fabric, 8);
  Context marker_sent, marker_received;  // after its return all of the above is complete on both sides
  ASSERT_EQ(pair.a().recv(marker, 8, &marker_received), 0);
  while (pair.b().rx().stays_silent(milliseconds(0)) && Clock::now() < deadline) continue;  // consumes the first
  ASSERT_EQ(pair.b().send(marker, 8, &marker_sent), 0);
  ASSERT_TRUE(pair.a().rx().wait().ok());
  ASSERT_EQ(fi_shutdown(pair.a().ep(), 0), 0);
  for (Context& context : sent) {
    const Completion completion = pair.a().tx().read();
    EXPECT_TRUE(completion.ok()) << completion;
    EXPECT_EQ(completion.context(), &context);
  }
  ASSERT_EQ(fi_shutdown(pair.b().ep(), 0), 0);
  for (size_t i = 1; i < kReceives; ++i) {
    const Completion completion = pair.b().rx().read();
    EXPECT_TRUE(completion.ok()) << completion;
    EXPECT_EQ(completion.context(), &receives.contexts[i]);
  }
}

TEST_P(CmShutdown, DataSentBeforeIsReceivedBeforeTheShutdownEvent) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Pair pair(fabric);
  constexpr size_t kSize = 64 * 1024;
  Buffer in(fabric, kSize * kReceives), out(fabric, kSize);
  out.fill_pattern(5);
  Context received[kReceives], sent[kReceives];
  for (size_t i = 0; i < kReceives; ++i)
    ASSERT_EQ(fi_recv(pair.b().ep(), in.data() + i * kSize, kSize, in.desc(), 0, &received[i]), 0);
  for (Context& context : sent) ASSERT_EQ(pair.a().send(out, kSize, &context), 0);
  for (size_t i = 0; i < kReceives; ++i) ASSERT_TRUE(pair.a().tx().wait().ok());
  ASSERT_EQ(fi_shutdown(pair.a().ep(), 0), 0);
  pair.b().eq().expect(FI_SHUTDOWN, pair.b().fid());
  for (Context& context : received) {
    const Completion completion = pair.b().rx().read();  // no waiting: the terminal event is the last one
    EXPECT_TRUE(completion.ok()) << completion;
    EXPECT_EQ(completion.context(), &context);
  }
}

TEST_P(CmShutdown, ReceivesOfThePeerEndInErrorBeforeItsShutdownEvent) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Pair pair(fabric);
  Receives receives(fabric);
  receives.post(pair.b());
  ASSERT_EQ(fi_shutdown(pair.a().ep(), 0), 0);
  pair.b().eq().expect(FI_SHUTDOWN, pair.b().fid());
  for (Context& context : receives.contexts) {
    const Completion completion = pair.b().rx().read();
    EXPECT_NE(completion.err(), 0) << completion;
    EXPECT_EQ(completion.context(), &context);
  }
  EXPECT_EQ(pair.b().rx().read().rc, -FI_EAGAIN);
}

TEST_P(CmShutdown, TransfersAfterwardsAreAcceptedAndFail) {
  CONNECTED_ONLY();
  EndedConnection ended(target());
  for (Node* const node : ended.nodes()) {
    for (const auto& [call, post] : ended.sends(*node)) {
      Context context;
      ASSERT_EQ(post(&context), 0) << call;
      const Completion completion = node->tx().wait();
      EXPECT_EQ(completion.err(), FI_ENOTCONN) << call << ": " << completion;
      if (call != kInject) EXPECT_EQ(completion.context(), &context) << call;
    }
    EXPECT_TRUE(node->tx().stays_silent()) << "each once";
  }
}

TEST_P(CmShutdown, ReceivesPostedAfterwardsAreCanceledByClose) {
  CONNECTED_ONLY();
  EndedConnection ended(target());
  for (Node* const node : ended.nodes()) {
    Receives late(ended.fabric);
    late.post(*node);
    EXPECT_TRUE(node->rx().stays_silent(milliseconds(20))) << "a program that posts one for each would never stop";
    node->close();
    for (Context& context : late.contexts) {
      const Completion completion = node->rx().read();
      EXPECT_EQ(completion.err(), FI_ECANCELED) << completion;
      EXPECT_EQ(completion.context(), &context);
    }
    EXPECT_TRUE(node->rx().stays_silent()) << "each once";
  }
}

TEST_P(CmShutdown, ReceivesPostedAfterwardsAreLimited) {
  CONNECTED_ONLY();
  EndedConnection ended(target());
  const size_t most = ended.fabric.info()->rx_attr->size;
  Buffer buffer(ended.fabric, 64);
  Context context;
  size_t posted = 0;
  while (posted <= most && fi_recv(ended.pair.a().ep(), buffer.data(), 64, buffer.desc(), 0, &context) == 0) ++posted;
  EXPECT_EQ(posted, most);
  EXPECT_EQ(fi_recv(ended.pair.a().ep(), buffer.data(), 64, buffer.desc(), 0, &context), -FI_EAGAIN);
}

TEST_P(CmShutdown, TransfersAfterwardsAreRefusedOnRequest) {
  CONNECTED_ONLY();
  EndedConnection ended(target());
  Context context;
  Buffer buffer(ended.fabric, 64);
  for (Node* const node : ended.nodes()) {
    int refuse = 1;
    ASSERT_EQ(fi_setopt(node->fid(), FI_OPT_ENDPOINT, FI_OPT_WEFT_REFUSE_AFTER_END, &refuse, sizeof refuse), 0);
    for (const auto& [call, post] : ended.sends(*node)) EXPECT_EQ(post(&context), -FI_ENOTCONN) << call;
    EXPECT_EQ(fi_recv(node->ep(), buffer.data(), 64, buffer.desc(), 0, &context), -FI_ENOTCONN);
    EXPECT_TRUE(node->tx().stays_silent(milliseconds(20)));
    EXPECT_TRUE(node->rx().stays_silent(milliseconds(20)));
    for (const int wrong : {-1, 2})
      EXPECT_EQ(fi_setopt(node->fid(), FI_OPT_ENDPOINT, FI_OPT_WEFT_REFUSE_AFTER_END, &wrong, sizeof wrong),
                -FI_EINVAL);
    size_t size = sizeof refuse;
    EXPECT_EQ(fi_getopt(node->fid(), FI_OPT_ENDPOINT, FI_OPT_WEFT_REFUSE_AFTER_END, &refuse, &size), 0);
    EXPECT_EQ(refuse, 1);
  }
}

TEST_P(CmShutdown, CloseAccountsForOutstandingReceives) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Pair pair(fabric);
  Receives receives(fabric);
  receives.post(pair.a());
  pair.a().close();
  for (Context& context : receives.contexts) {
    const Completion completion = pair.a().rx().read();  // no waiting
    EXPECT_EQ(completion.err(), FI_ECANCELED) << completion;
    EXPECT_EQ(completion.context(), &context);
  }
  EXPECT_TRUE(pair.a().rx().stays_silent()) << "each receive once";
}

TEST_P(CmShutdown, CloseInTheMiddleOfALargeTransferEndsOnBothSides) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  const size_t size = std::min<size_t>(32 << 20, fabric.info()->ep_attr->max_msg_size);
  for (int closing : {0, 1}) {
    Pair pair(fabric);
    Buffer out(fabric, size), in(fabric, size);
    Context sent, received;
    ASSERT_EQ(pair.b().recv(in, size, &received), 0);
    ASSERT_EQ(pair.a().send(out, size, &sent), 0);
    pair.node(closing).close();
    Node& left = pair.node(1 - closing);
    left.eq().expect(FI_SHUTDOWN, left.fid());
    const Completion completion = closing ? left.tx().read() : left.rx().read();
    if (!completion.ok() || speaks_tcp()) {  // a device may have been faster, then the transfer was complete
      EXPECT_NE(completion.err(), 0) << completion;
    }
    EXPECT_EQ(completion.context(), closing ? &sent : &received);
  }
}

// A silent dead host cannot be simulated here, so the test checks the socket options that detect it.
void expect_both_ends_to_ask(const Target& target) {
  const Parameter silence("FI_TCP_KEEPALIVE", "1");
  Fabric fabric(target);
  Pair pair(fabric);
  const auto asking_ends = [] {
    unsigned ends = 0;
    for (int fd = 0; fd < 1024; ++fd) {
      sockaddr_storage peer;
      socklen_t len = sizeof peer;
      if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &len) != 0) continue;
      const auto option = [fd](int level, int name) {
        int value = -1;
        socklen_t size = sizeof value;
        return getsockopt(fd, level, name, &value, &size) == 0 ? value : -1;
      };
      if (option(SOL_SOCKET, SO_PROTOCOL) != IPPROTO_TCP || option(SOL_SOCKET, SO_KEEPALIVE) != 1) continue;
      ++ends;
      EXPECT_EQ(option(IPPROTO_TCP, TCP_KEEPIDLE), 1);
      EXPECT_EQ(option(IPPROTO_TCP, TCP_KEEPINTVL) * option(IPPROTO_TCP, TCP_KEEPCNT), 3);
    }
    return ends;
  };
  for (const time_t end = time(nullptr) + 20; asking_ends() < 2 && time(nullptr) < end;) driver::poke_and_rest();
  EXPECT_EQ(asking_ends(), 2u);
}

TEST_P(CmShutdown, EstablishedConnectionsProbeTheirPeers) {
  if (target().provider != "tcp" || target().ep_type != FI_EP_MSG) GTEST_SKIP() << "sockets are looked at";
  expect_both_ends_to_ask(target());
}

// Without a limit for the answer the socket probes during the handshake too, with other options.
TEST_P(CmShutdown, EstablishedConnectionsProbeTheirPeersWithoutATimeout) {
  if (target().provider != "tcp" || target().ep_type != FI_EP_MSG) GTEST_SKIP() << "sockets are looked at";
  const Parameter forever("FI_TCP_CONNECT_TIMEOUT", "0"), answer("FI_TCP_ANSWER_TIMEOUT", "0");
  expect_both_ends_to_ask(target());
}

}  // namespace cm_shutdown
