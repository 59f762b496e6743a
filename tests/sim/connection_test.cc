// SPDX-License-Identifier: BSD-2-Clause
// Connections over the simulated network, enumerated: broken after every byte, cut into pieces at every byte. In every
// case each side is notified once, each posted operation completes once, no descriptor is left and nothing hangs.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <rdma/fi_tagged.h>
#include <sys/socket.h>

#include "base/unique_fd.h"
#include "sim/network.h"
#include "sim/pair.h"
#include "tcp/connection/cm_message.h"
#include "tcp/socket.h"
#include "unit/failing_allocations.h"
#include "unit/prov/tcp/side.h"

namespace weft::tcp::sim {
namespace {

using namespace std::chrono_literals;
using testing::Done;
using testing::Event;
using testing::Side;

constexpr std::size_t kPing = 100;
constexpr std::size_t kPong = 300;
constexpr int kManyRounds = 50'000;

// Events and completions of one side.
struct Seen {
  int connected = 0;
  int failed = 0;
  int shut_down = 0;
  int posted = 0;
  int succeeded = 0;
  int unsuccessful = 0;
  int error = 0;  // the last failure's
};

// A client connects, sends a ping, receives a pong, shuts down. The script decides how far it gets.
class Dialogue {
 public:
  explicit Dialogue(const Script& script) { reset(script); }

  void run() {
    {
      Side client, server;
      client_ = &client;
      server_ = &server;
      server.listen();
      client.connect(server.listening_at(), "may I?");
      int idle = 0;
      for (int round = 0; idle < kQuiet; ++round) {
        ASSERT_LT(round, kManyRounds) << "the connection hangs";
        const std::size_t before = transfers();
        if ((step_client() | step_server()) != 0 || transfers() != before)
          idle = 0;
        else if (++idle == kQuiet / 2) {
          if (advance_to_timer())
            idle = 0;
          else
            advance(std::chrono::milliseconds(1));  // engines look around whenever a real clock has ticked
        }
      }
    }
    EXPECT_EQ(open_sockets(), 0u);
    check(at_client);
    check(at_server);
    EXPECT_EQ(at_client.connected + at_client.failed, 1);
  }

  Seen at_client;
  Seen at_server;
  std::string ping_received;
  std::string pong_received;
  std::string answer;

 private:
  static void check(const Seen& seen) {
    EXPECT_EQ(seen.succeeded + seen.unsuccessful, seen.posted);
    EXPECT_EQ(seen.shut_down, seen.connected);
    EXPECT_LE(seen.connected + seen.failed, 1);
  }

  bool note(Side& side, Seen& seen, const Event& event) {
    switch (event.number) {
      case FI_CONNECTED:
        ++seen.connected;
        break;
      case FI_SHUTDOWN:
        ++seen.shut_down;
        EXPECT_EQ(event.fid, &side.ep->fid);
        break;
      case testing::kError:
        ++seen.failed;
        seen.error = event.error;
        EXPECT_FALSE(event.sentence.empty());
        break;
      default:
        break;
    }
    return true;
  }
  static void receive(Side& side, Seen& seen, std::string& buffer, std::size_t size) {
    buffer.assign(size, '-');
    if (fi_recv(side.ep, buffer.data(), size, nullptr, FI_ADDR_UNSPEC, &buffer) == 0) ++seen.posted;
  }
  static void send(Side& side, Seen& seen, const std::string& message) {
    if (fi_send(side.ep, message.data(), message.size(), nullptr, FI_ADDR_UNSPEC, nullptr) == 0) ++seen.posted;
  }
  // True with a successful receive in `done`.
  static bool count(Seen& seen, const Done& done) {
    (done.error == 0 ? seen.succeeded : seen.unsuccessful) += 1;
    return done.error == 0 && (done.flags & FI_RECV) != 0;
  }

  bool step_client() {
    Event event;
    Done done;
    bool moved = false;
    if (client_->poll(event)) {
      moved = note(*client_, at_client, event);
      if (event.number == FI_CONNECTED) {
        answer = event.data;
        receive(*client_, at_client, pong_received, kPong);
        send(*client_, at_client, ping_);
      }
    }
    while (client_->poll(done)) {
      moved = true;
      if (!count(at_client, done)) continue;
      EXPECT_EQ(fi_shutdown(client_->ep, 0), 0);
    }
    return moved;
  }
  bool step_server() {
    Event event;
    Done done;
    bool moved = false;
    if (server_->poll(event)) {
      moved = note(*server_, at_server, event);
      if (event.number == FI_CONNREQ) {
        EXPECT_EQ(event.data, "may I?");
        server_->open_endpoint(event.info.get());
        EXPECT_EQ(fi_enable(server_->ep), 0);
        receive(*server_, at_server, ping_received, kPing);
        EXPECT_EQ(fi_accept(server_->ep, "do", 2), 0);
      }
    }
    while (server_->poll(done)) {
      moved = true;
      if (count(at_server, done)) send(*server_, at_server, pong_);
    }
    return moved;
  }

  const std::string ping_ = std::string(kPing, 'i');
  const std::string pong_ = std::string(kPong, 'o');
  Side* client_ = nullptr;
  Side* server_ = nullptr;
};

void expect_success(const Dialogue& dialogue) {
  EXPECT_EQ(dialogue.at_client.connected, 1);
  EXPECT_EQ(dialogue.at_server.connected, 1);
  EXPECT_EQ(dialogue.answer, "do");
  EXPECT_EQ(dialogue.ping_received, std::string(kPing, 'i'));
  EXPECT_EQ(dialogue.pong_received, std::string(kPong, 'o'));
  EXPECT_EQ(dialogue.at_client.unsuccessful, 0);
  EXPECT_EQ(dialogue.at_server.unsuccessful, 0);
}

TEST(SimulatedConnection, Undisturbed) {
  Dialogue dialogue({});
  dialogue.run();
  expect_success(dialogue);
}

TEST(SimulatedConnection, SlowToConnect) {
  reset({.slow_connect = true});
  Side client, server;
  server.listen();
  client.connect(server.listening_at(), "x");
  Event event;
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(client.poll(event));
    EXPECT_FALSE(server.poll(event));
  }
  finish_connects();
  EXPECT_FALSE(client.poll(event));  // sends the request
  ASSERT_TRUE(server.poll(event) || server.poll(event));
  EXPECT_EQ(event.number, static_cast<uint32_t>(FI_CONNREQ));
}

TEST(SimulatedConnection, BrokenAfterEveryByte) {
  Dialogue whole({});
  whole.run();
  const std::size_t total[2] = {bytes_sent(kToServer), bytes_sent(kToClient)};
  ASSERT_GT(total[kToServer], kCmHeaderSize + kPing);
  ASSERT_GT(total[kToClient], kCmHeaderSize + kPong);
  for (Direction direction : {kToServer, kToClient}) {
    for (Cut cut : {Cut::kEnd, Cut::kReset}) {
      for (std::size_t at = 0; at <= total[direction]; ++at) {
        SCOPED_TRACE(::testing::Message() << (cut == Cut::kEnd ? "end" : "reset") << " after " << at << " bytes "
                                          << (direction == kToServer ? "to the server" : "to the client"));
        Dialogue dialogue({.cut = cut, .cut_direction = direction, .cut_at = at});
        dialogue.run();
        // Neither side may complete a message that did not arrive completely.
        EXPECT_TRUE(at >= kCmHeaderSize || dialogue.at_client.failed == 1);
        EXPECT_TRUE(dialogue.at_server.succeeded == 0 || dialogue.ping_received == std::string(kPing, 'i'));
        if (HasFailure()) return;
      }
    }
  }
}

TEST(SimulatedConnection, CutIntoPiecesAtEveryByte) {
  for (Direction direction : {kToServer, kToClient}) {
    for (std::size_t at = 0; at < kCmMessageSize + kPong; ++at) {
      SCOPED_TRACE(::testing::Message() << "boundary at " << at << " direction " << direction);
      Script script;
      script.boundary[direction] = at;
      Dialogue dialogue(script);
      dialogue.run();
      expect_success(dialogue);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(SimulatedConnection, EverySizeOfPieces) {
  for (std::size_t chunk = 1; chunk <= 64; ++chunk) {
    SCOPED_TRACE(chunk);
    Dialogue dialogue({.chunk = chunk});
    dialogue.run();
    expect_success(dialogue);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(SimulatedConnection, ANarrowPipeDeliversEverything) {
  for (std::size_t capacity : {1, 7, 33, 100}) {
    SCOPED_TRACE(capacity);
    Dialogue dialogue({.capacity = capacity});
    dialogue.run();
    expect_success(dialogue);
  }
}

// ---- Long messages and late receives ----

// Each read that finds nothing takes the socket's lock from the processor that brings the bytes.
TEST(SimulatedConnection, TheRestOfALongMessageIsReadWhenItIsReported) {
  Pair pair;
  const std::string sent(300'000, 's');
  std::string received(sent.size(), '-');
  pair.receive(received);
  pair.send(sent);  // as much as the network holds
  Done done;
  for (int i = 0; i < kQuiet; ++i) EXPECT_FALSE(pair.server.poll(done));
  ASSERT_EQ(received.front(), 's');
  const std::size_t before = empty_reads();
  for (int i = 0; i < kQuiet; ++i) EXPECT_FALSE(pair.server.poll(done));
  EXPECT_LE(empty_reads() - before, 1u);
  bool complete = false;
  for (int i = 0; i < kManyRounds && !complete; ++i) {
    pair.client.poll(done);
    complete = pair.server.poll(done);
  }
  EXPECT_EQ(received, sent);
}

// An end that has read a long message reads short ones without a report, as soon as they are there.
TEST(SimulatedConnection, ShortMessagesAreReadAtOnceBehindALongOne) {
  Pair pair;
  const std::string sent(300'000, 's'), next(100, 'n');
  std::string received(sent.size(), '-'), more(next.size(), '-');
  pair.receive(received);
  pair.send(sent);
  Done done;
  for (int i = 0; i < kManyRounds && done.context != &received; ++i) {
    pair.client.poll(done);
    pair.server.poll(done);
  }
  for (int i = 0; i < 3; ++i) {
    pair.receive(more);
    pair.send(next);
    done = {};
    for (int j = 0; j < kQuiet && done.context != &more; ++j) {
      pair.client.poll(done);
      pair.server.poll(done);
    }
    ASSERT_EQ(done.context, &more);
  }
  const std::size_t before = empty_reads();
  for (int i = 0; i < kQuiet; ++i) EXPECT_FALSE(pair.server.poll(done));
  EXPECT_GE(empty_reads() - before, static_cast<std::size_t>(kQuiet));
}

// A receive that is posted before the next call for progress gets its message without a copy in between.
TEST(SimulatedConnection, AReceiverThatPostsInTimeStoresNothing) {
  if (!test::FailingAllocation::complete()) GTEST_SKIP() << "allocations are not counted";
  constexpr int kMessages = 14;
  Pair pair;
  const std::string sent(4096, 's');
  std::string received(sent.size(), '-');
  {
    const test::SparedAllocations network;
    for (int i = 0; i < kMessages; ++i) pair.send(sent);
  }
  Done done;
  const long before = test::live_allocations();
  for (int i = 0; i < kMessages; ++i) {
    received.assign(sent.size(), '-');
    pair.receive(received);
    done = {};
    for (int j = 0; j < kQuiet && done.context != &received; ++j) {
      {
        const test::SparedAllocations network;
        pair.client.poll(done);
      }
      pair.server.poll(done);
    }
    ASSERT_EQ(received, sent) << i;
    ASSERT_LE(test::live_allocations(), before + kMessages / 2) << i;  // one that is stored has two
  }
}

// One that does not come in time finds its message all the same.
TEST(SimulatedConnection, MessagesWithoutReceivesAreStored) {
  Pair pair;
  const std::string sent(4096, 's');
  std::string received(sent.size(), '-');
  for (int i = 0; i < 3; ++i) pair.send(sent);
  Done done;
  for (int i = 0; i < kQuiet; ++i) {
    pair.client.poll(done);
    EXPECT_FALSE(pair.server.poll(done));
  }
  for (int i = 0; i < 3; ++i) {
    received.assign(sent.size(), '-');
    pair.receive(received);
    EXPECT_TRUE(pair.server.poll(done)) << i;
    EXPECT_EQ(received, sent) << i;
  }
}

// Every search is a call for progress, and none brings a receive for the message.
TEST(SimulatedConnection, PollingWithPeekFindsALongMessage) {
  constexpr std::uint64_t kTag = 7;
  Pair pair;
  const std::string sent(4096, 's');
  ASSERT_EQ(fi_tsend(pair.client.ep, sent.data(), sent.size(), nullptr, FI_ADDR_UNSPEC, kTag, nullptr), 0);
  Done done;
  for (int i = 0; i < kQuiet; ++i) pair.client.poll(done);
  fi_msg_tagged message{};
  message.tag = kTag;
  done.error = FI_ENOMSG;
  for (int i = 0; i < kQuiet && done.error == FI_ENOMSG; ++i) {
    ASSERT_EQ(fi_trecvmsg(pair.server.ep, &message, FI_PEEK), 0);
    ASSERT_TRUE(pair.server.poll(done));
  }
  EXPECT_EQ(done.error, 0);
}

// Receives for other messages are posted in every round.
TEST(SimulatedConnection, AMessageWithoutAReceiveHoldsNoneBackForLong) {
  constexpr std::uint64_t kFirst = 1, kSecond = 2, kOther = 3;
  Pair pair;
  const std::string sent(4096, 's');
  std::string received(sent.size(), '-');
  const auto receive = [&](std::uint64_t tag, void* context) {
    ASSERT_EQ(fi_trecv(pair.server.ep, received.data(), received.size(), nullptr, FI_ADDR_UNSPEC, tag, 0, context), 0);
  };
  for (const std::uint64_t tag : {kFirst, kSecond})
    ASSERT_EQ(fi_tsend(pair.client.ep, sent.data(), sent.size(), nullptr, FI_ADDR_UNSPEC, tag, nullptr), 0);
  receive(kSecond, &received);
  Done done;
  for (int i = 0; i < kQuiet && done.context != &received; ++i) {
    receive(kOther, nullptr);
    pair.client.poll(done);
    pair.server.poll(done);
  }
  EXPECT_EQ(done.context, &received);
}

// ---- The listener ----

// A peer without the library: a socket that sends the given bytes.
UniqueFd connected_socket(const sockaddr_storage& to) {
  UniqueFd socket(net::open_stream(AF_INET));
  EXPECT_EQ(net::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(sockaddr_in)), -EINPROGRESS);
  return socket;
}

TEST(SimulatedListener, ComesBackWhenDescriptorsRunOut) {
  reset({.failing_accepts = 3});
  {
    Side client, server;
    server.listen();
    client.connect(server.listening_at());
    Event event;
    int waits = 0;
    while (!server.poll(event)) {
      ASSERT_TRUE(advance_to_timer());
      ASSERT_LT(++waits, 20);
    }
    EXPECT_EQ(event.number, static_cast<uint32_t>(FI_CONNREQ));
  }
  EXPECT_EQ(open_sockets(), 0u);
}

// A seccomp filter or a security module refuses the call, and the connection stays where it is.
TEST(SimulatedListener, RefusedAcceptsEndTheRound) {
  constexpr int kRefused = 40;
  reset({.failing_accepts = kRefused, .accept_error = EPERM});
  Side client, server;
  server.listen();
  client.connect(server.listening_at());
  Event event;
  for (int i = 0; i < kQuiet; ++i) ASSERT_FALSE(server.poll(event));
  for (int i = 0; i < kRefused && !server.poll(event); ++i) ASSERT_TRUE(advance_to_timer());
  EXPECT_EQ(event.number, static_cast<uint32_t>(FI_CONNREQ));
}

// Its application may take its time. A host that does not answer ends sooner.
TEST(SimulatedConnection, ABusyServerKeepsItsClients) {
  reset({});
  Side client, server;
  server.listen();
  client.connect(server.listening_at());
  Event event, request;
  EXPECT_FALSE(client.poll(event));
  ASSERT_TRUE(server.poll(request));
  for (int seconds = 0; seconds < 119; ++seconds) {
    advance(1s);
    ASSERT_FALSE(client.poll(event)) << event.sentence << " after " << seconds;
  }
  server.accept(request);
  for (int i = 0; i < kQuiet && !client.poll(event); ++i) server.poll(request);
  EXPECT_EQ(event.number, static_cast<uint32_t>(FI_CONNECTED)) << event.sentence;
}

TEST(SimulatedConnection, ServersWithoutAnAnswerEnd) {
  for (const bool host_answers : {true, false}) {
    reset({.slow_connect = !host_answers});
    Side client, server;
    server.listen();
    client.connect(server.listening_at());
    Event event;
    int seconds = 0;
    for (; !client.poll(event) && seconds < 200; ++seconds) advance(1s);
    EXPECT_EQ(event.error, FI_ETIMEDOUT) << event.sentence;
    EXPECT_NEAR(seconds, host_answers ? 120 : 30, 1) << event.sentence;
  }
}

TEST(SimulatedListener, SilentPeersAreDroppedInTime) {
  reset({});
  Side server;
  server.listen();
  const std::size_t before = open_sockets();
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 10; ++i) silent.push_back(connected_socket(server.listening_at()));
  Event event;
  EXPECT_FALSE(server.poll(event));
  EXPECT_EQ(open_sockets(), before + 20);
  advance(31s);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(server.poll(event));
  EXPECT_EQ(open_sockets(), before + 10);
}

TEST(SimulatedListener, SilentPeersDoNotKeepOthersOut) {
  reset({});
  Side client, server;
  server.listen();
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 3000; ++i) silent.push_back(connected_socket(server.listening_at()));
  Event event;
  EXPECT_FALSE(server.poll(event));
  client.connect(server.listening_at());
  int seconds = 0;
  for (; !server.poll(event) && seconds < 5; ++seconds) advance(1s);
  EXPECT_EQ(event.number, static_cast<uint32_t>(FI_CONNREQ));
}

TEST(SimulatedListener, EveryTruncatedRequestIsDropped) {
  reset({});
  {
    Side server;
    server.listen();
    const std::size_t before = open_sockets();
    CmMessage message;
    message.compose(CmType::kRequest, "abc", 3);
    Event event;
    for (std::size_t len = 0; len < message.unsent().size(); ++len) {
      UniqueFd peer = connected_socket(server.listening_at());
      EXPECT_TRUE(len == 0 || net::send(peer.get(), message.unsent().data(), len) > 0);
      EXPECT_FALSE(server.poll(event));
      peer.reset();
      for (int i = 0; i < 3; ++i) EXPECT_FALSE(server.poll(event));
      EXPECT_EQ(open_sockets(), before);
    }
  }
  EXPECT_EQ(open_sockets(), 0u);
}

TEST(SimulatedListener, AnEndlessRequestIsCutOff) {
  reset({});
  {
    Side server;
    server.listen();
    UniqueFd peer = connected_socket(server.listening_at());
    const std::string endless(60'000, '\3');
    EXPECT_GT(net::send(peer.get(), endless.data(), endless.size()), 0);
    Event event;
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(server.poll(event));
    EXPECT_LT(net::send(peer.get(), endless.data(), 1), 0);
  }
  EXPECT_EQ(open_sockets(), 0u);
}

}  // namespace
}  // namespace weft::tcp::sim
