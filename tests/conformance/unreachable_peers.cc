// SPDX-License-Identifier: BSD-2-Clause
// Reliable datagrams to unreachable peers: operations for them fail, each once, in time and with a sentence that gives
// the reason; reachable peers are served as usual; fi_endpoint(3) (FI_EP_RDM), fi_cq(3).
#include <map>
#include <memory>

#include "fixture/black_hole.h"
#include "fixture/driver.h"
#include "fixture/injected.h"
#include "fixture/kept_address.h"
#include "fixture/member.h"
#include "fixture/no_descriptors.h"
#include "fixture/parameter.h"

namespace unreachable_peers {

CONFORMANCE_TOPIC(UnreachablePeers);

namespace {

constexpr int kDeadlineMs = 1000;
// Time above the deadline that a busy machine may need.
constexpr int kSlackMs = 5000;

// How long a peer that has not started yet is tried again.
struct StartTimeout : Parameter {
  StartTimeout(const Target& target, const char* ms)
      : Parameter(target.provider == "tcp" ? "FI_TCP_START_TIMEOUT" : "FI_OFI_RXM_START_TIMEOUT", ms) {}
};

// An end with peers that never answer, and one that does.
class Scene {
 public:
  explicit Scene(const Target& target, const char* start_timeout_ms = "0")
      : deadline_(target.provider == "tcp" ? "FI_TCP_CONNECT_TIMEOUT" : "FI_OFI_RXM_CONNECT_TIMEOUT",
                  std::to_string(kDeadlineMs).c_str()),
        start_timeout_(target, start_timeout_ms),
        answer_(target.provider == "tcp" ? "FI_TCP_ANSWER_TIMEOUT" : "FI_OFI_RXM_ANSWER_TIMEOUT",
                std::to_string(kDeadlineMs).c_str()),
        fabric_(target),
        gone_(fabric_),
        end_(fabric_),
        friend_(fabric_),
        out_(fabric_, 100'000),
        in_(fabric_, 64) {
    friendly_ = end_.insert(friend_.address());
  }
  const Fabric& fabric() const { return fabric_; }
  const Address& gone() const { return *gone_; }  // no endpoint has it, nor will another program's

  // Exchanges so many messages with the reachable peer, one after the other; returns the time.
  double exchange(int count) {
    const auto start = Clock::now();
    for (int i = 0; i < count; ++i) {
      Context sent, received;
      EXPECT_EQ(friend_->recv(in_, 64, &received), 0);
      end_->peer = friendly_;
      EXPECT_EQ(end_->send(out_, 64, &sent), 0);
      const Completion arrived = friend_->rx().wait();
      EXPECT_TRUE(arrived.ok()) << arrived << " after " << i;
      sent_.push_back(&sent);
      while (!sent_.empty() && !testing::Test::HasFailure()) note(end_->tx().wait());
      if (testing::Test::HasFailure()) break;
    }
    return static_cast<double>(elapsed_ms(start));
  }
  // A short and a long message to a peer that will not receive them.
  void send_to(const Address& peer) {
    end_->peer = end_.insert(peer);
    for (const size_t length : {64ul, 100'000ul}) {
      contexts_.push_back(std::make_unique<Context>());
      waiting_[contexts_.back().get()] = peer;
      EXPECT_EQ(end_->send(out_, length, contexts_.back().get()), 0);
    }
  }
  size_t waiting() const { return waiting_.size(); }
  // Operations that have not failed by then never do.
  void await_failures() {
    const auto deadline = after(milliseconds(kDeadlineMs + kSlackMs));
    while (!waiting_.empty() && Clock::now() < deadline && !testing::Test::HasFailure()) {
      exchange(1);
      const Completion done = end_->tx().read();
      if (done.rc != -FI_EAGAIN) note(done);
    }
    EXPECT_TRUE(waiting_.empty()) << waiting_.size() << " operations have no end after " << kDeadlineMs + kSlackMs
                                  << " ms";
  }
  bool stays_silent() { return end_->tx().stays_silent(); }
  const std::vector<Completion>& failures() const { return failures_; }

 private:
  void note(const Completion& done) {
    if (!sent_.empty() && done.context() == sent_.back()) {
      EXPECT_TRUE(done.ok()) << done;
      return sent_.pop_back();
    }
    const auto found = waiting_.find(done.context());
    ASSERT_NE(found, waiting_.end()) << "no operation waits for this: " << done;
    EXPECT_FALSE(done.ok());
    EXPECT_EQ(done.error.prov_errno, done.err());
    EXPECT_NE(done.sentence.find(text_of(found->second)), std::string::npos) << "names no peer: " << done.sentence;
    EXPECT_NE(done.sentence.find(" while "), std::string::npos) << "names no phase: " << done.sentence;
    waiting_.erase(found);
    failures_.push_back(done);
  }
  static std::string text_of(const Address& address) {
    const std::string port = ":" + std::to_string(address.port());
    return address.family() == AF_INET6 ? "]" + port : port;
  }

  const Parameter deadline_;
  const StartTimeout start_timeout_;
  const Parameter answer_;
  Fabric fabric_;
  const KeptAddress gone_;
  DatagramEnd end_, friend_;
  Buffer out_, in_;
  fi_addr_t friendly_ = FI_ADDR_UNSPEC;
  std::vector<void*> sent_;
  std::vector<std::unique_ptr<Context>> contexts_;
  std::map<void*, Address> waiting_;
  std::vector<Completion> failures_;
};

}  // namespace

TEST_P(UnreachablePeers, PeersOfAnotherProviderAreReportedAtOnce) {
  RELIABLE_DATAGRAMS_ONLY();
  if (!target().provider.starts_with("tcp")) GTEST_SKIP() << "tcp and tcp;ofi_rxm have addresses of one kind";
  Target other = target();
  other.provider = target().provider == "tcp" ? "tcp;ofi_rxm" : "tcp";
  Fabric ours(target()), theirs(other);
  DatagramEnd end(ours), peer(theirs);
  end->peer = end.insert(peer.address());
  Buffer out(ours, 64);
  Context context;
  ASSERT_EQ(end->send(out, 64, &context), 0);
  const auto start = Clock::now();
  Completion failed = end->tx().read();
  while (failed.rc == -FI_EAGAIN && Clock::now() < start + milliseconds(kSlackMs)) {
    EXPECT_EQ(peer->rx().read().rc, -FI_EAGAIN);
    failed = end->tx().read();
  }
  EXPECT_NE(failed.err(), 0) << failed;
  EXPECT_EQ(failed.context(), &context);
}

TEST_P(UnreachablePeers, TheirOperationsFailInTimeAndOthersAreNotDelayed) {
  RELIABLE_DATAGRAMS_ONLY();
  constexpr int kExchanges = 300;
  Scene scene(target());
  scene.exchange(1);
  const double alone = scene.exchange(kExchanges);
  // Black holes accept nothing, or never answer.
  std::vector<std::unique_ptr<BlackHole>> holes;
  for (const BlackHole::Kind kind : {BlackHole::kSilent, BlackHole::kFull}) {
    if (kind == BlackHole::kFull && !target().provider.starts_with("tcp")) continue;
    for (int i = 0; i < 4; ++i) holes.push_back(std::make_unique<BlackHole>(scene.fabric(), kind));
  }
  const auto start = Clock::now();
  for (const auto& hole : holes) scene.send_to(hole->address());
  const double beside = scene.exchange(kExchanges);
  if (target().provider.starts_with("tcp") && elapsed_ms(start) < kDeadlineMs - 100) {
    EXPECT_EQ(scene.waiting(), 2 * holes.size()) << "before the deadline";
  }
  EXPECT_LT(beside, 20 * alone + 500);
  scene.await_failures();
  EXPECT_EQ(scene.failures().size(), 2 * holes.size());
  if (target().provider.starts_with("tcp")) {
    for (const Completion& failed : scene.failures()) EXPECT_EQ(failed.err(), FI_ETIMEDOUT) << failed.sentence;
  }
  EXPECT_TRUE(scene.stays_silent());
  scene.exchange(1);
}

TEST_P(UnreachablePeers, OperationsWithoutAListenerFailAtOnceWithAReason) {
  RELIABLE_DATAGRAMS_ONLY();
  Scene scene(target());
  const Address gone = scene.gone();
  const auto start = Clock::now();
  scene.send_to(gone);
  scene.await_failures();
  EXPECT_LT(elapsed_ms(start), kDeadlineMs);
  for (const Completion& failed : scene.failures()) EXPECT_EQ(failed.err(), FI_ECONNREFUSED) << failed.sentence;
  EXPECT_TRUE(scene.stays_silent());
}

TEST_P(UnreachablePeers, RefusedOperationsFailWhenTheStartTimeoutIsOver) {
  RELIABLE_DATAGRAMS_ONLY();
  Scene scene(target(), "300");
  const Address gone = scene.gone();
  const auto start = Clock::now();
  scene.send_to(gone);
  scene.await_failures();
  EXPECT_GE(elapsed_ms(start), 299);
  EXPECT_EQ(scene.failures().size(), 2u);
  for (const Completion& failed : scene.failures()) EXPECT_EQ(failed.err(), FI_ECONNREFUSED) << failed.sentence;
  EXPECT_TRUE(scene.stays_silent());
}

TEST_P(UnreachablePeers, InjectedOperationsFailWithoutAContext) {
  RELIABLE_DATAGRAMS_ONLY();
  const StartTimeout none(target(), "0");
  Fabric fabric(target());
  const KeptAddress gone(fabric);
  Injected injected(fabric);
  DatagramEnd end(fabric, injected.options());
  end->peer = end.insert(*gone);
  injected.post(*end, {64, 64});
  injected.fill(*end);
  injected.expect_failures(*end);
}

// Each request has a connect time-out of its own.
TEST_P(UnreachablePeers, RefusedOperationsAreRepeatedBeyondTheConnectTimeout) {
  RELIABLE_DATAGRAMS_ONLY();
  Scene scene(target(), "2500");
  const Address gone = scene.gone();
  const auto start = Clock::now();
  scene.send_to(gone);
  scene.await_failures();
  EXPECT_GE(elapsed_ms(start), 2499);
  for (const Completion& failed : scene.failures()) EXPECT_EQ(failed.err(), FI_ECONNREFUSED) << failed.sentence;
}

TEST_P(UnreachablePeers, PeerThatStartsLaterReceivesWhatWasSentBefore) {
  RELIABLE_DATAGRAMS_ONLY();
  const StartTimeout patience(target(), "60000");
  Fabric fabric(target());
  for (const int rounds : {0, 1, 300}) {
    DatagramEnd end(fabric);
    fi_av_attr attr{};
    const auto av =
        opened<fid_av>("fi_av_open", [&](fid_av** v) { return fi_av_open(fabric.domain(), &attr, v, nullptr); });
    Node late(fabric);  // has a name, and does not listen yet
    ASSERT_EQ(fi_ep_bind(late.ep(), &av->fid, 0), 0);
    end->peer = end.insert(Address::local_name(late.fid()));
    Buffer out(fabric, 100'000), in(fabric, 100'000);
    out.fill_pattern(7);
    Context sent[2], received[2];
    ASSERT_EQ(end->tsend(out, 64, 0, &sent[0]), 0);
    ASSERT_EQ(end->tsend(out, 100'000, 1, &sent[1]), 0);
    for (int i = 0; i < rounds; ++i) driver::poke_and_rest();
    EXPECT_TRUE(end->tx().stays_silent(milliseconds(1)));
    late.enable();
    for (uint64_t tag = 0; tag < 2; ++tag) {
      ASSERT_EQ(late.trecv(in, 100'000, tag, 0, &received[tag]), 0);
      const Completion arrived = late.rx().wait();
      ASSERT_TRUE(arrived.ok()) << arrived;
      EXPECT_EQ(arrived.context(), &received[tag]);
      EXPECT_TRUE(in.holds_pattern(7, tag == 0 ? 64 : 100'000));
      const Completion done = end->tx().wait();
      EXPECT_TRUE(done.ok()) << done;
    }
    late.close();
  }
}

// The peer has ended, and is not going to start.
TEST_P(UnreachablePeers, PeerThatWasReachedBeforeIsNotTriedAgain) {
  RELIABLE_DATAGRAMS_ONLY();
  const StartTimeout patience(target(), "60000");
  Fabric fabric(target());
  DatagramEnd end(fabric);
  auto other = std::make_unique<DatagramEnd>(fabric);
  end->peer = end.insert(other->address());
  expect_round_trip(*end, **other);
  other.reset();
  Buffer out(fabric, 100'000);
  Context context;
  const auto start = Clock::now();
  int error = 0;
  while (error != FI_ECONNREFUSED && elapsed_ms(start) < kSlackMs) {  // the first ones may find the old connection
    ASSERT_EQ(end->tsend(out, 100'000, 1, &context), 0);
    error = end->tx().wait().err();
  }
  EXPECT_EQ(error, FI_ECONNREFUSED);
  EXPECT_LT(elapsed_ms(start), kSlackMs);
}

// The host of a peer is reached before its program, which is busy, makes progress.
TEST_P(UnreachablePeers, TimeOfABusyPeerIsNotThatOfItsHost) {
  RELIABLE_DATAGRAMS_ONLY();
  constexpr int kHostMs = 400;
  const Parameter host(target().provider == "tcp" ? "FI_TCP_CONNECT_TIMEOUT" : "FI_OFI_RXM_CONNECT_TIMEOUT",
                       std::to_string(kHostMs).c_str());
  Fabric ours(target()), theirs(target());
  DatagramEnd end(ours), busy(theirs);
  end->peer = end.insert(busy.address());
  Buffer out(ours, 64), in(theirs, 64);
  Context sent, received;
  ASSERT_EQ(busy->recv(in, 64, &received), 0);
  ASSERT_EQ(end->send(out, 64, &sent), 0);
  for (const auto until = after(milliseconds(3 * kHostMs)); Clock::now() < until;) {
    const Completion early = end->tx().read();
    ASSERT_EQ(early.rc, -FI_EAGAIN) << early;
  }
  EXPECT_TRUE(busy->rx().wait().ok());
  EXPECT_TRUE(end->tx().wait().ok());
}

TEST_P(UnreachablePeers, LackOfDescriptorsIsReportedAsSuch) {
  RELIABLE_DATAGRAMS_ONLY();
  if (!target().provider.starts_with("tcp")) GTEST_SKIP() << "a connection over a device has no descriptor of its own";
  Fabric fabric(target());
  DatagramEnd end(fabric), peer(fabric);
  end->peer = end.insert(peer.address());
  Buffer out(fabric, 64), in(fabric, 64);
  Context context, received;
  ASSERT_EQ(peer->recv(in, 64, &received), 0);
  std::optional<NoDescriptors> none(std::in_place);
  const ssize_t rc = fi_send(end->ep(), out.data(), 64, out.desc(), end->peer, &context);
  none.reset();
  EXPECT_EQ(rc, -FI_EMFILE) << fi_strerror(static_cast<int>(-rc));
  ASSERT_EQ(end->send(out, 64, &context), 0);
  EXPECT_TRUE(peer->rx().wait().ok());
  EXPECT_TRUE(end->tx().wait().ok());
}

}  // namespace unreachable_peers
