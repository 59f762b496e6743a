// SPDX-License-Identifier: BSD-2-Clause
// Peers that are killed at every step: of connecting, of short and long messages in both directions, of
// accesses to their memory; fi_endpoint(3) (FI_EP_RDM). The survivor sees each of its operations end once, continues
// with others, and reaches the next process at that address.
//   WEFT_CONFORMANCE_DIE_AT   only this step
//   WEFT_CONFORMANCE_STRIDE   only every so many (1)
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <random>

#include "fixture/child.h"
#include "fixture/driver.h"
#include "fixture/kept_address.h"
#include "fixture/mortal.h"
#include "fixture/parameter.h"
#include "fixture/process.h"

namespace reliable_deaths {

CONFORMANCE_TOPIC(ReliableDeaths);

namespace {

using namespace mortal;

constexpr std::chrono::seconds kLong{30};

// Operations of one end, and their outcome.
class Account {
 public:
  explicit Account(DatagramEnd& end) : end_(end) {}

  // The context of a new operation.
  Context* open(const char* what) {
    contexts_.push_back(std::make_unique<Context>());
    open_[contexts_.back().get()] = what;
    return contexts_.back().get();
  }
  bool is_open(const void* context) const { return open_.count(context) != 0; }
  bool all_closed() const { return open_.empty(); }
  int error_of(const void* context) const { return errors_.at(context); }
  // A refused operation has no completion.
  void forget(const void* context) { open_.erase(context); }

  void read() {
    driver::poke();
    for (CompletionQueue* queue : {&end_->tx(), &end_->rx()})
      for (Completion done = queue->read(); done.rc != -FI_EAGAIN; done = queue->read()) {
        const auto found = open_.find(done.context());
        ASSERT_NE(found, open_.end()) << "it has ended before: " << done;
        errors_[done.context()] = done.err();
        open_.erase(found);
      }
  }
  template <class Reached>
  void wait(const char* what, Reached reached) {
    const auto deadline = after(kLong);
    while (!reached() && !testing::Test::HasFailure()) {
      read();
      if (Clock::now() <= deadline) continue;
      for (const auto& [context, name] : open_) ADD_FAILURE() << name << " has no end";
      FAIL() << "in vain: " << what;
    }
  }

 private:
  DatagramEnd& end_;
  std::vector<std::unique_ptr<Context>> contexts_;
  std::map<const void*, const char*> open_;
  std::map<const void*, int> errors_;
};

// One life of a peer, as the survivor sees it.
class Life {
 public:
  Life(const Fabric& fabric, const Target& target, const Address& address, bool calls, unsigned step)
      : calls_(calls),
        end_(fabric),
        account_(end_),
        region_(fabric, kRegion, 1),
        child_("exchange_and_die",
               {{"WEFT_CONFORMANCE_PEER", target.address + " " + std::to_string(end_.address().port())},
                {"WEFT_CONFORMANCE_NAME", std::to_string(address.port())},
                {"WEFT_CONFORMANCE_DIE_AT", std::to_string(step)}}) {
    end_->peer = end_.insert(address);
    for (size_t i = 0; i < kCount; ++i) {
      in_.emplace_back(fabric, kLengths[i]);
      out_.emplace_back(fabric, kLengths[i]);
      out_[i].fill_pattern(static_cast<unsigned>(i));
      received_.push_back(account_.open("a receive"));
      require_ok(end_->trecv(in_[i], kLengths[i], kToParent + i, 0, received_[i]), "fi_trecv");
    }
    if (calls) call();
  }
  DatagramEnd& end() { return end_; }

  // True if the child lived to the end.
  bool run() {
    if (calls_) send_all();
    account_.wait("the first message", [&] { return !account_.is_open(received_[0]) || child_.ended(); });
    if (!calls_ && !child_.ended()) send_all();
    if (!account_.is_open(received_[0]) && account_.error_of(received_[0]) == 0) access_memory();
    account_.wait("the exchange", [&] { return account_.all_closed() || child_.ended(); });
    if (account_.all_closed()) {
      check_messages();
      post("the idle_close",
           [&](Context* context) { return fi_tsend(end_->ep(), nullptr, 0, nullptr, end_->peer, kBye, context); });
    }
    account_.wait("the end of the child", [&] { return child_.ended(); });
    const auto soon = after(milliseconds(10));
    while (Clock::now() < soon) account_.read();
    for (Context* context : received_)
      if (account_.is_open(context)) {
        const ssize_t rc = fi_cancel(end_->fid(), context);
        EXPECT_TRUE(rc == 0 || rc == -FI_ENOENT) << rc;
      }
    account_.wait("all ends", [&] { return account_.all_closed(); });
    for (int i = 0; i < 20; ++i) account_.read();
    return child_.status() == 0;
  }

 private:
  template <class Call>
  Context* post(const char* what, Call call) {
    Context* const context = account_.open(what);
    ssize_t rc;
    while ((rc = call(context)) == -FI_EAGAIN) account_.read();
    EXPECT_EQ(rc, 0) << what;
    if (rc != 0) account_.forget(context);
    return context;
  }
  // Tries to connect until the child listens, or is dead.
  void call() {
    const Context* context = nullptr;
    account_.wait("a connection", [&] {
      if (context != nullptr && account_.is_open(context)) return child_.ended();
      if ((context != nullptr && account_.error_of(context) == 0) || child_.ended()) return true;
      context = post("the greeting",
                     [&](Context* c) { return fi_tsend(end_->ep(), nullptr, 0, nullptr, end_->peer, kGreeting, c); });
      return false;
    });
  }
  void send_all() {
    for (size_t i = 0; i < kCount; ++i)
      post("a send", [&](Context* context) {
        return fi_tsend(end_->ep(), out_[i].data(), kLengths[i], out_[i].desc(), end_->peer, kToChild + i, context);
      });
  }
  void access_memory() {
    mortal::Region where;
    std::memcpy(&where, in_[0].data(), sizeof where);
    char* const bytes = region_.data();
    post("a write", [&](Context* context) {
      return fi_write(end_->ep(), bytes, 2000, region_.desc(), end_->peer, where.address, where.key, context);
    });
    post("a read", [&](Context* context) {
      return fi_read(end_->ep(), bytes, 2000, region_.desc(), end_->peer, where.address, where.key, context);
    });
    post("an atomic operation", [&](Context* context) {
      return fi_fetch_atomic(end_->ep(), bytes + 2048, 1, region_.desc(), bytes + 2056, region_.desc(), end_->peer,
                             where.address + 2048, where.key, FI_UINT64, FI_SUM, context);
    });
  }
  void check_messages() {
    for (size_t i = 0; i < kCount; ++i)
      EXPECT_TRUE(account_.error_of(received_[i]) != 0 || i == 0 ||
                  in_[i].holds_pattern(static_cast<unsigned>(i), kLengths[i]));
  }

  const bool calls_;
  DatagramEnd end_;
  Account account_;
  Buffer region_;
  std::vector<Buffer> in_, out_;
  std::vector<Context*> received_;
  child::Running child_;
};

void expect_greeting(DatagramEnd& from, fi_addr_t to_address, DatagramEnd& to) {
  Context sent, received;
  from->peer = to_address;
  ASSERT_EQ(retry([&] { return fi_trecv(to->ep(), nullptr, 0, nullptr, FI_ADDR_UNSPEC, 77, 0, &received); }), 0);
  ASSERT_EQ(retry([&] { return fi_tsend(from->ep(), nullptr, 0, nullptr, to_address, 77, &sent); }), 0);
  const Completion arrival = to->rx().wait(after(kLong));
  ASSERT_TRUE(arrival.ok()) << arrival;
  ASSERT_TRUE(from->tx().wait(after(kLong)).ok());
}

// Kills at one step after the other until the child survives the exchange.
void kill_at_every_step(const Target& target, bool calls) {
  if (target.ep_type != FI_EP_RDM) GTEST_SKIP() << "FI_EP_RDM only";
  if (kSanitized) GTEST_SKIP() << "sanitizers have the system's calls themselves";
  if (target.addr_format != FI_SOCKADDR_IN) GTEST_SKIP() << "the family makes no difference";
  if (target.provider != "tcp;ofi_rxm" && target.provider != "tcp" && target.provider != "verbs;ofi_rxm")
    GTEST_SKIP() << "a child counts its calls of sockets and RDMA devices";
  if (!Fabric::offers(target, with_memory)) GTEST_SKIP() << "no access to memory";
  const char* only = std::getenv("WEFT_CONFORMANCE_DIE_AT");
  Fabric fabric(target, with_memory);
  DatagramEnd other(fabric);
  const KeptAddress address(fabric);
  constexpr unsigned kMost = 1000;
  const char* asked = std::getenv("WEFT_CONFORMANCE_STRIDE");
  const auto stride = asked != nullptr ? static_cast<unsigned>(std::atoi(asked)) : 1u;
  bool lived = false;
  unsigned step = only != nullptr ? static_cast<unsigned>(std::atoi(only)) : 1;
  for (; step < kMost && !lived && !testing::Test::HasFailure(); step += stride) {
    SCOPED_TRACE("WEFT_CONFORMANCE_DIE_AT=" + std::to_string(step));
    Life life(fabric, target, *address, calls, step);
    const fi_addr_t same = life.end()->peer;
    lived = life.run() || only != nullptr;
    expect_greeting(life.end(), life.end().insert(other.address()), other);
    DatagramEnd restarted(fabric, address.options());
    expect_greeting(life.end(), same, restarted);
  }
  EXPECT_TRUE(lived || testing::Test::HasFailure());
  EXPECT_TRUE(only != nullptr || step > 20 + stride) << "hardly a step was counted";
  std::printf("%u steps, every %u\n", step, stride);
}

}  // namespace

TEST_P(ReliableDeaths, EveryStepOfAPeerThatAccepts) {
  kill_at_every_step(target(), true);
}

TEST_P(ReliableDeaths, EveryStepOfAPeerThatConnectsAndIsReadOverTheConnection) {
  const Parameter memory("FI_TCP_SHARED_MEMORY", "0");
  kill_at_every_step(target(), false);
}

TEST_P(ReliableDeaths, EveryStepOfAPeerThatWritesAndIsWrittenTo) {
  const Parameter writes("FI_OFI_RXM_USE_RNDV_WRITE", "1");
  kill_at_every_step(target(), true);
}

// Peers that share memory make no system call while they poll: this one is killed at random times, at both ends of
// messages of all lengths. What it returned before is whole.
TEST_P(ReliableDeaths, AnyInstantOfAPeerThatPolls) {
  if (target().ep_type != FI_EP_RDM) GTEST_SKIP() << "FI_EP_RDM only";
  if (target().addr_format != FI_SOCKADDR_IN) GTEST_SKIP() << "the family makes no difference";
  if (!target().provider.starts_with("tcp")) GTEST_SKIP() << "over tcp only";
  constexpr int kLives = kSanitized ? 12 : 60;
  constexpr size_t kUnderWay = 4, kLongest = 300'000;
  constexpr size_t kSizes[] = {8, 4096, 20'000, kLongest};
  constexpr uint64_t kToEcho = 2, kFromEcho = 3;
  const Fabric fabric(target());
  Pair others(fabric);
  std::mt19937 random(16);
  for (int life = 0; life < kLives && !HasFailure(); ++life) {
    SCOPED_TRACE(life);
    DatagramEnd end(fabric);
    Account account(end);
    child::Running peer("echo",
                        {{"WEFT_CONFORMANCE_PEER", target().address + " " + std::to_string(end.address().port())}});
    ASSERT_TRUE(end.meet_child([&] { return peer.ended(); }));
    struct Message {
      Buffer out, in;
      size_t length = 0;
      unsigned seed = 0;
      Context* sent = nullptr;
      Context* received = nullptr;
    };
    std::vector<Message> messages;
    for (size_t i = 0; i < kUnderWay; ++i) messages.push_back({Buffer(fabric, kLongest), Buffer(fabric, kLongest)});
    unsigned next = 0;
    size_t whole = 0;
    const auto begin = [&](Message& message) {
      message.length = kSizes[random() % std::size(kSizes)];
      message.out.fill_pattern(message.seed = next++);
      message.received = account.open("a receive");
      ASSERT_EQ(end->trecv(message.in, kLongest, kFromEcho, 0, message.received), 0);
      message.sent = account.open("a send");
      if (end->tsend(message.out, message.length, kToEcho, message.sent) != 0) account.forget(message.sent);
    };
    const auto check = [&](Message& message) {
      if (account.error_of(message.received) != 0) return;
      EXPECT_TRUE(message.in.holds_pattern(message.seed, message.length)) << message.seed;
      ++whole;
    };
    for (Message& message : messages) begin(message);
    auto kill_at = after(kLong);
    while (Clock::now() < kill_at && !HasFailure()) {
      account.read();
      Message& message = messages[whole % kUnderWay];  // messages return in order
      if (account.is_open(message.sent) || account.is_open(message.received)) continue;
      check(message);
      begin(message);
      if (whole == 20) kill_at = Clock::now() + std::chrono::microseconds(random() % 3000);
    }
    EXPECT_GE(whole, 20);
    peer.kill();
    const auto start = Clock::now();
    account.wait("the sends", [&] {
      return std::none_of(messages.begin(), messages.end(), [&](auto& each) { return account.is_open(each.sent); });
    });
    const auto soon = after(milliseconds(5));
    while (Clock::now() < soon) account.read();
    for (Message& message : messages)
      if (account.is_open(message.received)) fi_cancel(end->fid(), message.received);
    account.wait("the receives", [&] { return account.all_closed(); });
    EXPECT_LT(elapsed_ms(start), 10'000);
    for (size_t i = 0; i < kUnderWay; ++i) check(messages[i]);
    expect_exchange(others);
  }
}

}  // namespace reliable_deaths
