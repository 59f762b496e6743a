// SPDX-License-Identifier: BSD-2-Clause
// Reliable datagrams between ends of one host, whose messages go through shared memory; fi_tcp(7). None overtakes, no
// sleeper misses one, and pollers make no system call for it.
#include <rdma/fi_rma.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "fixture/driver.h"
#include "fixture/member.h"
#include "fixture/mortal.h"
#include "fixture/parameter.h"

namespace local_messages {

CONFORMANCE_TOPIC(LocalMessages);

namespace {

#define LOCAL_MESSAGES_ONLY() \
  if (!target().provider.starts_with("tcp") || target().connected()) GTEST_SKIP() << "RDM over tcp only"

constexpr size_t kLong = 65536;
constexpr std::chrono::seconds kPatient{60};

// Two ends that are inserted at each other, each in a domain of its own.
struct Ends {
  explicit Ends(const Target& target, const NodeOptions& options = {})
      : fabrics{Fabric(target), Fabric(target)}, a(fabrics[0], options), b(fabrics[1], options) {
    a->peer = a.insert(b.address());
    b->peer = b.insert(a.address());
  }
  Fabric fabrics[2];
  DatagramEnd a, b;
};

void expect_message(DatagramEnd& from, DatagramEnd& to, Buffer& out, Buffer& in, size_t length, unsigned seed) {
  out.fill_pattern(seed);
  Context sent, received;
  ASSERT_EQ(to->trecv(in, in.size(), 3, 0, &received), 0);
  ASSERT_EQ(from->tsend(out, length, 3, &sent), 0);
  const Completion arrival = to->rx().wait(after(kPatient));
  ASSERT_TRUE(arrival.ok()) << arrival;
  EXPECT_EQ(arrival.entry.len, length);
  EXPECT_TRUE(in.holds_pattern(seed, length)) << length;
  ASSERT_TRUE(from->tx().wait(after(kPatient)).ok());
}

// Both ends read what came meanwhile.
void settle() {
  for (int i = 0; i < 64; ++i) driver::poke();
}

// Memory is shared after a few messages.
void share_memory(Ends& ends, Buffer& out, Buffer& in) {
  for (unsigned i = 0; i < 10; ++i) {
    expect_message(ends.a, ends.b, out, in, kLong, i);
    settle();
  }
}

// fi_tinject() makes progress when there is no room; nothing else does here.
void inject_all(DatagramEnd& from, Buffer& out, size_t length, unsigned count) {
  const auto deadline = after(kPatience);
  for (unsigned i = 0; i < count;) {
    const ssize_t result = fi_tinject(from->ep(), out.data(), length, from->peer, 3);
    ASSERT_TRUE(result == 0 || (result == -FI_EAGAIN && Clock::now() < deadline)) << result << " at " << i;
    i += result == 0 ? 1 : 0;
  }
}

// Only the receiver makes progress.
void expect_arrivals(DatagramEnd& to, unsigned count, size_t length) {
  const auto deadline = after(milliseconds(2000));
  for (unsigned arrived = 0; arrived < count;) {
    const Completion arrival = to->rx().read();
    ASSERT_TRUE(arrival.ok() || arrival.rc == -FI_EAGAIN) << arrival;
    ASSERT_LT(Clock::now(), deadline) << arrived << " of " << count << " messages of " << length << " bytes";
    if (!arrival.ok()) continue;
    EXPECT_EQ(arrival.entry.len, length);
    ++arrived;
  }
}

NodeOptions with_wait(fi_wait_obj wait_obj) {
  NodeOptions options;
  options.tx_cq.wait_obj = options.rx_cq.wait_obj = wait_obj;
  return options;
}

}  // namespace

TEST_P(LocalMessages, PollersOfOneHostExchangeNoPackets) {
  LOCAL_MESSAGES_ONLY();
  if (!mortal::sends()) GTEST_SKIP() << "calls are not counted here";
  Ends ends(target());
  Buffer out(ends.fabrics[0], kLong), in(ends.fabrics[0], kLong), back(ends.fabrics[1], kLong),
      there(ends.fabrics[1], kLong);
  const auto round_trip = [&](unsigned seed) {
    expect_message(ends.a, ends.b, out, there, kLong, seed);
    expect_message(ends.b, ends.a, back, in, kLong, seed + 1);
  };
  for (unsigned i = 0; i < 10; ++i) {  // memory is shared after a few messages
    round_trip(i);
    settle();
  }
  // An end that was not polled for 50 ms, on a busy machine, has asked for a wake-up.
  constexpr int kPromptMs = 20;
  unsigned prompt = 0;
  for (unsigned i = 0; i < 50 && !HasFailure(); ++i) {
    const auto before = mortal::sends();
    const auto start = Clock::now();
    round_trip(10 + i);
    const bool polled = elapsed_ms(start) < kPromptMs;
    if (polled) {
      EXPECT_EQ(mortal::sends(), before) << "round " << i;
    }
    if (!polled) round_trip(10 + i);
    prompt += polled ? 1 : 0;
  }
  EXPECT_GT(prompt, 0U);
}

// The memory is shorter than a socket's buffer, and the reader busy.
TEST_P(LocalMessages, InjectedMessagesArriveAlthoughTheirEndpointCloses) {
  LOCAL_MESSAGES_ONLY();
  Ends ends(target());
  Buffer out(ends.fabrics[0], kLong), in(ends.fabrics[1], kLong);
  share_memory(ends, out, in);
  constexpr unsigned kMany = 500;
  constexpr size_t kShort = 100;
  std::vector<Context> contexts(kMany);
  for (Context& context : contexts) ASSERT_EQ(ends.b->trecv(in, kShort, 3, 0, &context), 0);
  unsigned taken = 0, arrived = 0;
  while (taken < kMany && fi_tinject(ends.a->ep(), out.data(), kShort, ends.a->peer, 3) == 0) ++taken;
  EXPECT_GT(taken, 0U);
  std::thread closing([&] { ends.a->close(); });
  Completion arrival;
  for (const auto deadline = after(kPatience); arrived < taken && Clock::now() < deadline;) {
    arrival = ends.b->rx().read();
    if (arrival.rc != -FI_EAGAIN && !arrival.ok()) break;
    arrived += arrival.ok() ? 1 : 0;
  }
  closing.join();
  EXPECT_EQ(arrived, taken) << arrival;
}

// Their sender then waits by other means: a runtime's barrier, for example. More messages than the memory has room for.
TEST_P(LocalMessages, InjectedMessagesArriveWithoutProgressOfTheirSender) {
  LOCAL_MESSAGES_ONLY();
  constexpr unsigned kMany = 100;
  constexpr size_t kLongest = 16384;
  Ends ends(target());
  Buffer out(ends.fabrics[0], kLong), in(ends.fabrics[1], kLong);
  share_memory(ends, out, in);
  for (const size_t length : {size_t{40}, size_t{100}, size_t{300}, size_t{2000}, size_t{9000}, kLongest}) {
    std::vector<Context> contexts(kMany);
    for (Context& context : contexts) ASSERT_EQ(ends.b->trecv(in, kLongest, 3, 0, &context), 0);
    inject_all(ends.a, out, length, kMany);
    expect_arrivals(ends.b, kMany, length);
    settle();
  }
}

// The long message waits in its sender's memory until the receiver fetches it.
TEST_P(LocalMessages, InjectedMessagesFollowALongMessageWithoutProgressOfTheirSender) {
  LOCAL_MESSAGES_ONLY();
  constexpr unsigned kMany = 5;
  constexpr size_t kShort = 100;
  Ends ends(target());
  Buffer out(ends.fabrics[0], kLong), in(ends.fabrics[1], kLong);
  share_memory(ends, out, in);
  Context sent, received[1 + kMany];
  for (Context& context : received) ASSERT_EQ(ends.b->trecv(in, kLong, 3, 0, &context), 0);
  ASSERT_EQ(ends.a->tsend(out, kLong, 3, &sent), 0);
  inject_all(ends.a, out, kShort, kMany);
  expect_arrivals(ends.b, 1, kLong);
  expect_arrivals(ends.b, kMany, kShort);
}

// The descriptors of an end need not be polled as often as its memory.
TEST_P(LocalMessages, PollersOfOneHostMakeFewSystemCalls) {
  LOCAL_MESSAGES_ONLY();
  if (!mortal::polls()) GTEST_SKIP() << "calls are not counted here";
  Ends ends(target());
  Buffer out(ends.fabrics[0], kLong), in(ends.fabrics[1], kLong);
  share_memory(ends, out, in);
  constexpr unsigned kReads = 4000;
  const unsigned before = *mortal::polls();
  for (unsigned i = 0; i < kReads; ++i) ASSERT_EQ(fi_cq_read(ends.b->rx().get(), nullptr, 0), -FI_EAGAIN);
  EXPECT_LE(*mortal::polls() - before, kReads / 64);
}

// An end whose peers cannot all run beside it lets them run.
TEST_P(LocalMessages, PollersYieldWhenProcessorsAreFewerThanEnds) {
  LOCAL_MESSAGES_ONLY();
  if (!mortal::yields()) GTEST_SKIP() << "calls are not counted here";
  const long processors = ::sysconf(_SC_NPROCESSORS_ONLN);
  if (processors > 64) GTEST_SKIP() << "too many ends for one process";
  Fabric fabric(target());
  DatagramEnd hub(fabric);
  const auto yields = [&] {
    const unsigned before = *mortal::yields();
    for (int i = 0; i < 4000; ++i) EXPECT_EQ(fi_cq_read(hub->rx().get(), nullptr, 0), -FI_EAGAIN);
    return *mortal::yields() - before;
  };
  std::vector<std::unique_ptr<Fabric>> others;
  std::vector<std::unique_ptr<DatagramEnd>> ends;
  Buffer out(fabric, kLong), in(fabric, kLong);
  for (long i = 0; i < processors; ++i) {
    EXPECT_EQ(yields(), 0u) << i << " peers";
    others.push_back(std::make_unique<Fabric>(target()));
    ends.push_back(std::make_unique<DatagramEnd>(*others.back()));
    DatagramEnd& end = *ends.back();
    end->peer = end.insert(hub.address());
    for (unsigned round = 0; round < 10; ++round) {  // memory is shared after a few messages
      expect_message(end, hub, out, in, kLong, round);
      settle();
    }
  }
  unsigned yielded = 0;
  for (const auto limit = after(kPatience); yielded == 0 && Clock::now() < limit;) {
    for (auto& end : ends) expect_message(*end, hub, out, in, kLong, 9);  // connections that are idle do not count
    yielded = yields();
  }
  EXPECT_GT(yielded, 0u);
}

// Messages over the connection and beside it, alternating, arrive in one order.
TEST_P(LocalMessages, MessagesOfAllLengthsStayInOrder) {
  LOCAL_MESSAGES_ONLY();
  constexpr size_t kMessages = 3000, kUnderWay = 40;
  constexpr size_t kLengths[] = {8, 500, 16384, 16385, 20000, 70000};
  Ends ends(target());
  std::vector<std::unique_ptr<Buffer>> out, in;
  for (size_t i = 0; i < kUnderWay; ++i) {
    out.push_back(std::make_unique<Buffer>(ends.fabrics[0], 70000));
    in.push_back(std::make_unique<Buffer>(ends.fabrics[1], 70000));
  }
  std::vector<Context> sent(kMessages), received(kMessages);
  std::mt19937 random(7);
  size_t posted = 0, receives = 0, arrived = 0, finished = 0;
  std::vector<bool> out_free(kUnderWay, true);
  while (arrived < kMessages || finished < kMessages) {
    // Sometimes the receive is first, sometimes the message.
    const bool posts = random() % 3 != 0, sends_now = random() % 3 != 0;
    while (posts && receives < kMessages && receives - arrived < kUnderWay) {
      ASSERT_EQ(ends.b->trecv(*in[receives % kUnderWay], 70000, 3, 0, &received[receives]), 0);
      ++receives;
    }
    for (size_t burst = random() % 6; sends_now && burst != 0; --burst) {
      if (posted == kMessages || !out_free[posted % kUnderWay]) break;
      Buffer& buffer = *out[posted % kUnderWay];
      const size_t length = kLengths[random() % std::size(kLengths)];
      std::memcpy(buffer.data(), &posted, sizeof posted);
      out_free[posted % kUnderWay] = false;
      ASSERT_EQ(ends.a->tsend(buffer, length, 3, &sent[posted]), 0);
      ++posted;
    }
    fi_cq_tagged_entry entry{};
    while (fi_cq_read(ends.a->tx().get(), &entry, 1) == 1) {
      out_free[static_cast<size_t>(static_cast<Context*>(entry.op_context) - sent.data()) % kUnderWay] = true;
      ++finished;
    }
    while (fi_cq_read(ends.b->rx().get(), &entry, 1) == 1) {
      const auto which = static_cast<size_t>(static_cast<Context*>(entry.op_context) - received.data());
      size_t number = 0;
      std::memcpy(&number, in[which % kUnderWay]->data(), sizeof number);
      ASSERT_EQ(number, which) << "of " << entry.len << " bytes";
      ++arrived;
    }
  }
}

// The sender in a thread of its own: a long message and a short one behind it may arrive while the receiver already
// polls one of the ways.
TEST_P(LocalMessages, NothingOvertakesWhileTheReceiverPolls) {
  LOCAL_MESSAGES_ONLY();
  constexpr size_t kMessages = 6000, kUnderWay = 8;
  Ends ends(target());
  Buffer out(ends.fabrics[0], kLong), in(ends.fabrics[1], kLong);
  expect_message(ends.a, ends.b, out, in, kLong, 1);
  expect_message(ends.a, ends.b, out, in, kLong, 2);
  std::thread sender([&] {
    std::vector<std::uint64_t> words(kUnderWay * kLong / 8);
    std::vector<Context> sent(kMessages);
    bool in_use[kUnderWay] = {};  // here, too, a short message may complete before a long one
    fi_cq_tagged_entry entry;
    for (size_t i = 0, finished = 0; finished < kMessages;) {
      for (; fi_cq_read(ends.a->tx().get(), &entry, 1) == 1; ++finished)
        in_use[static_cast<size_t>(static_cast<Context*>(entry.op_context) - sent.data()) % kUnderWay] = false;
      if (i == kMessages || in_use[i % kUnderWay] || in_use[(i + 1) % kUnderWay]) continue;
      const auto send = [&](size_t length) {
        std::uint64_t* const word = words.data() + i % kUnderWay * kLong / 8;
        *word = i;
        in_use[i % kUnderWay] = true;
        while (fi_tsend(ends.a->ep(), word, length, nullptr, ends.a->peer, 3, &sent[i]) == -FI_EAGAIN)
          fi_cq_read(ends.a->tx().get(), nullptr, 0);
        ++i;
      };
      send(kLong);
      send(8);
    }
  });
  std::vector<Buffer> buffers;
  std::vector<Context> received(kMessages);
  bool used[kUnderWay] = {};  // a short message may complete before a long one
  for (size_t i = 0; i < kUnderWay; ++i) buffers.emplace_back(ends.fabrics[1], kLong);
  size_t posted = 0, wrong = 0;
  mortal::slow_down_receiving(5);
  fi_cq_tagged_entry entry;
  for (size_t arrived = 0; arrived < kMessages;) {
    for (; posted < kMessages && !used[posted % kUnderWay]; ++posted) {
      if (ends.b->trecv(buffers[posted % kUnderWay], kLong, 3, 0, &received[posted]) != 0) break;
      used[posted % kUnderWay] = true;
    }
    if (fi_cq_read(ends.b->rx().get(), &entry, 1) != 1) continue;
    const auto which = static_cast<size_t>(static_cast<Context*>(entry.op_context) - received.data());
    std::uint64_t number = 0;
    std::memcpy(&number, buffers[which % kUnderWay].data(), sizeof number);
    used[which % kUnderWay] = false;
    wrong += number != which || entry.len != (which % 2 == 0 ? kLong : 8);
    ++arrived;
  }
  sender.join();
  mortal::slow_down_receiving(0);
  EXPECT_EQ(wrong, 0u);
}

// FI_ORDER_SAW: a receiver of the message sees the data written before it.
TEST_P(LocalMessages, AMessageDoesNotOvertakeAWrite) {
  LOCAL_MESSAGES_ONLY();
  Ends ends(target());
  Buffer out(ends.fabrics[0], kLong), in(ends.fabrics[1], kLong), word(ends.fabrics[0], 1 << 20);
  Buffer window(ends.fabrics[1], 1 << 20, 0, FI_REMOTE_WRITE);
  expect_message(ends.a, ends.b, out, in, kLong, 1);
  expect_message(ends.a, ends.b, out, in, kLong, 2);
  for (int round = 0; round < 200; ++round) {
    const char mark = static_cast<char>('a' + round % 26);
    std::memset(word.data(), mark, word.size());
    Context wrote, sent, received;
    ASSERT_EQ(ends.b->trecv(in, kLong, 3, 0, &received), 0);
    ASSERT_EQ(retry([&] {
                return fi_write(ends.a->ep(), word.data(), word.size(), word.desc(), ends.a->peer,
                                window.remote_address(), window.key(), &wrote);
              }),
              0);
    ASSERT_EQ(ends.a->tsend(out, kLong, 3, &sent), 0);
    ASSERT_TRUE(ends.b->rx().wait(after(kPatient)).ok());
    EXPECT_EQ(window.data()[0], mark);
    EXPECT_EQ(window.data()[window.size() - 1], mark);
    ASSERT_TRUE(ends.a->tx().wait(after(kPatient)).ok());
    ASSERT_TRUE(ends.a->tx().wait(after(kPatient)).ok());
  }
}

// FI_ORDER_SAW while the provider below has no room for more.
TEST_P(LocalMessages, AMessageDoesNotOvertakeManyWrites) {
  LOCAL_MESSAGES_ONLY();
  Ends ends(target());
  Buffer out(ends.fabrics[0], kLong), in(ends.fabrics[1], kLong), word(ends.fabrics[0], kLong);
  Buffer window(ends.fabrics[1], kLong, 0, FI_REMOTE_WRITE), last(ends.fabrics[1], kLong, 0, FI_REMOTE_WRITE);
  expect_message(ends.a, ends.b, out, in, kLong, 1);
  expect_message(ends.a, ends.b, out, in, kLong, 2);
  for (size_t writes = 250; writes <= 400; ++writes) {  // there is room for some of them
    const char mark = static_cast<char>(writes);
    std::memset(word.data(), mark, word.size());
    std::vector<Context> wrote(writes);
    Context sent, received;
    ASSERT_EQ(ends.b->trecv(in, kLong, 3, 0, &received), 0);
    for (size_t i = 0; i < writes; ++i) {
      Buffer& to = i + 1 == writes ? last : window;
      ASSERT_EQ(fi_write(ends.a->ep(), word.data(), kLong, word.desc(), ends.a->peer, to.remote_address(), to.key(),
                         &wrote[i]),
                0);
    }
    ASSERT_EQ(ends.a->tsend(out, kLong, 3, &sent), 0);
    ASSERT_TRUE(ends.b->rx().wait(after(kPatient)).ok());
    EXPECT_EQ(last.data()[kLong - 1], mark);
    for (size_t i = 0; i <= writes; ++i) ASSERT_TRUE(ends.a->tx().wait(after(kPatient)).ok());
  }
}

// Each end in a thread of its own that sleeps until an entry arrives.
TEST_P(LocalMessages, WakeASleepingReceiver) {
  LOCAL_MESSAGES_ONLY();
  for (const fi_wait_obj wait_obj : {FI_WAIT_UNSPEC, FI_WAIT_FD}) {
    Ends ends(target(), with_wait(wait_obj));
    const auto play = [&](DatagramEnd& end, Fabric& fabric, bool begins) {
      constexpr int kRounds = 300, kPatienceMs = 20'000;
      Buffer out(fabric, kLong), in(fabric, kLong);
      Context sent, received;
      fi_cq_tagged_entry entry;
      for (int round = 0; round < kRounds; ++round) {
        ASSERT_EQ(fi_trecv(end->ep(), in.data(), kLong, in.desc(), FI_ADDR_UNSPEC, 3, 0, &received), 0);
        for (const bool sending : {begins, !begins}) {
          if (!sending) {
            ASSERT_EQ(fi_cq_sread(end->rx().get(), &entry, 1, nullptr, kPatienceMs), 1) << round;
            continue;
          }
          // The other end may or may not be asleep by then.
          if (round % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
          ASSERT_EQ(fi_tsend(end->ep(), out.data(), kLong, out.desc(), end->peer, 3, &sent), 0);
          ASSERT_EQ(fi_cq_sread(end->tx().get(), &entry, 1, nullptr, kPatienceMs), 1) << round;
        }
      }
    };
    const auto start = Clock::now();
    std::thread other([&] { play(ends.b, ends.fabrics[1], false); });
    play(ends.a, ends.fabrics[0], true);
    other.join();
    EXPECT_LT(elapsed_ms(start), 15'000) << "somebody slept through something";
  }
}

// Another thread polls now and then, and reads the entry that would have woken the sleeper.
TEST_P(LocalMessages, WakeASleepingReceiverWhileOthersPoll) {
  LOCAL_MESSAGES_ONLY();
  constexpr int kRounds = 5000;
  Ends ends(target(), with_wait(FI_WAIT_UNSPEC));
  Buffer out(ends.fabrics[0], kLong), in(ends.fabrics[1], kLong);
  std::atomic<bool> over{false};
  std::thread passer_by([&] {
    std::mt19937 random(3);
    while (!over) {
      for (unsigned looks = random() % 8; looks != 0; --looks) fi_cq_read(ends.b->tx().get(), nullptr, 0);
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
    }
  });
  std::thread sender([&] {
    std::vector<Context> sent(kRounds);
    fi_cq_tagged_entry entry;
    std::mt19937 random(5);
    for (int posted = 0, finished = 0; finished < kRounds && !over;) {
      if (fi_cq_read(ends.a->tx().get(), &entry, 1) == 1) ++finished;
      for (unsigned pause = random() % 16; pause != 0; --pause) fi_cq_read(ends.a->tx().get(), nullptr, 0);
      if (posted == kRounds || posted - finished == 2) continue;
      if (fi_tsend(ends.a->ep(), out.data(), kLong, out.desc(), ends.a->peer, 3, &sent[posted]) == 0) ++posted;
    }
  });
  fi_cq_tagged_entry entry;
  Context received;
  for (int round = 0; round < kRounds; ++round) {
    EXPECT_EQ(fi_trecv(ends.b->ep(), in.data(), kLong, in.desc(), FI_ADDR_UNSPEC, 3, 0, &received), 0);
    EXPECT_EQ(fi_cq_sread(ends.b->rx().get(), &entry, 1, nullptr, 3000), 1) << round;
    if (HasFailure()) break;
  }
  over = true;
  passer_by.join();
  sender.join();
}

// Another thread polls while the receiver sleeps, but no longer when the message comes.
TEST_P(LocalMessages, WakeASleeperBesideAThreadThatHasPolled) {
  LOCAL_MESSAGES_ONLY();
  Ends ends(target(), with_wait(FI_WAIT_UNSPEC));
  Buffer out(ends.fabrics[0], kLong), in(ends.fabrics[1], kLong);
  share_memory(ends, out, in);
  for (int round = 0; round < 5; ++round) {
    Context sent, received;
    ASSERT_EQ(ends.b->trecv(in, kLong, 3, 0, &received), 0);
    ssize_t got = 0;
    std::thread sleeper([&] {
      fi_cq_tagged_entry entry;
      got = fi_cq_sread(ends.b->rx().get(), &entry, 1, nullptr, 3000);
    });
    std::this_thread::sleep_for(milliseconds(20));
    for (int i = 0; i < 3; ++i) fi_cq_read(ends.b->tx().get(), nullptr, 0);
    std::this_thread::sleep_for(milliseconds(5));
    const auto start = Clock::now();
    EXPECT_EQ(ends.a->tsend(out, 64, 3, &sent), 0);
    sleeper.join();
    EXPECT_EQ(got, 1);
    EXPECT_LT(elapsed_ms(start), 1000);
    ASSERT_TRUE(ends.a->tx().wait(after(kPatient)).ok());
  }
}

// Two threads sleep on two queues of one endpoint; a message is for one of them.
TEST_P(LocalMessages, WakeTheSleeperOnTheQueueOfTheMessage) {
  LOCAL_MESSAGES_ONLY();
  Ends ends(target(), with_wait(FI_WAIT_UNSPEC));
  Buffer out(ends.fabrics[0], kLong), in(ends.fabrics[1], kLong);
  share_memory(ends, out, in);
  for (int round = 0; round < 5; ++round) {
    Context sent, received;
    ASSERT_EQ(ends.b->trecv(in, kLong, 3, 0, &received), 0);
    ssize_t got = 0, none = 0;
    Clock::time_point woken;
    std::thread sleeper([&] {
      fi_cq_tagged_entry entry;
      got = fi_cq_sread(ends.b->rx().get(), &entry, 1, nullptr, 3000);
      woken = Clock::now();
    });
    std::thread other([&] {
      fi_cq_tagged_entry entry;
      none = fi_cq_sread(ends.b->tx().get(), &entry, 1, nullptr, 100 * (round % 2));
    });
    std::this_thread::sleep_for(milliseconds(30));
    const auto start = Clock::now();
    EXPECT_EQ(ends.a->tsend(out, 64, 3, &sent), 0);
    sleeper.join();
    other.join();
    EXPECT_EQ(got, 1);
    EXPECT_EQ(none, -FI_EAGAIN);
    EXPECT_LT(woken - start, std::chrono::seconds(1));
    ASSERT_TRUE(ends.a->tx().wait(after(kPatient)).ok());
  }
}

// No more than the event queues that may watch one engine.
TEST_P(LocalMessages, ManyPeersComeAndGo) {
  LOCAL_MESSAGES_ONLY();
  constexpr size_t kPeers = 50;
  Fabric fabric(target());
  DatagramEnd hub(fabric);
  Buffer out(fabric, kLong), in(fabric, kLong);
  for (int round = 0; round < 2; ++round) {
    std::vector<std::unique_ptr<DatagramEnd>> ends;
    for (size_t i = 0; i < kPeers; ++i) {
      ends.push_back(std::make_unique<DatagramEnd>(fabric));
      (*ends[i])->peer = ends[i]->insert(hub.address());
    }
    for (unsigned pass = 0; pass < 3; ++pass)
      for (auto& end : ends) expect_message(*end, hub, out, in, kLong, pass);
  }
  DatagramEnd last(fabric);
  last->peer = last.insert(hub.address());
  for (unsigned i = 0; i < 10; ++i) {
    expect_message(last, hub, out, in, kLong, i);
    settle();
  }
  const auto before = mortal::sends();
  expect_message(last, hub, out, in, kLong, 9);
  EXPECT_EQ(mortal::sends(), before);
}

// An end that stores too much lets its peers wait.
TEST_P(LocalMessages, WaitWhileTooMuchIsStored) {
  LOCAL_MESSAGES_ONLY();
  if (target().provider == "tcp") GTEST_SKIP() << "a limit below the length of one message is for packets";
  const Parameter limit("FI_OFI_RXM_UNEXPECTED_BYTES", "20000");
  Ends ends(target());
  Buffer out(ends.fabrics[0], kLong), in(ends.fabrics[1], kLong);
  expect_message(ends.a, ends.b, out, in, kLong, 1);
  constexpr size_t kMessages = 600;
  std::vector<Context> sent(kMessages), received(kMessages);
  for (size_t i = 0; i < kMessages; ++i) ASSERT_EQ(ends.a->tsend(out, i % 5 == 0 ? 16384 : kLong, 3, &sent[i]), 0) << i;
  for (int i = 0; i < 200; ++i) driver::poke();
  for (size_t i = 0; i < kMessages; ++i) {
    ASSERT_EQ(ends.b->trecv(in, kLong, 3, 0, &received[i]), 0);
    const Completion arrival = ends.b->rx().wait(after(kPatient));
    ASSERT_TRUE(arrival.ok()) << arrival;
    EXPECT_EQ(arrival.entry.len, i % 5 == 0 ? 16384 : kLong) << i;
    ASSERT_TRUE(ends.a->tx().wait(after(kPatient)).ok());
  }
}

// Peers wait while too much is stored, the receiver sleeps, and another thread posts its receives.
TEST_P(LocalMessages, WakeASleeperWhenThereIsRoomAgain) {
  LOCAL_MESSAGES_ONLY();
  const Parameter limit(target().provider == "tcp" ? "FI_TCP_UNEXPECTED_BYTES" : "FI_OFI_RXM_UNEXPECTED_BYTES",
                        "20000");
  for (const size_t length : {kLong, size_t{8000}}) {
    Ends ends(target(), with_wait(FI_WAIT_UNSPEC));
    constexpr size_t kMessages = 120;
    Buffer out(ends.fabrics[0], kLong), in(ends.fabrics[1], kLong);
    expect_message(ends.a, ends.b, out, in, kLong, 1);
    std::vector<Context> sent(kMessages), received(kMessages);
    std::atomic<bool> all_sent{false};
    for (Context& context : sent)
      ASSERT_EQ(fi_tsend(ends.a->ep(), out.data(), length, nullptr, ends.a->peer, 3, &context), 0);
    std::thread sender([&] {
      fi_cq_tagged_entry entry;
      for (size_t i = 0; i < kMessages; ++i) ASSERT_EQ(fi_cq_sread(ends.a->tx().get(), &entry, 1, nullptr, 30'000), 1);
      all_sent = true;
    });
    std::thread receiver([&] {
      fi_cq_tagged_entry entry;
      for (size_t i = 0; i < kMessages; ++i)
        ASSERT_EQ(fi_cq_sread(ends.b->rx().get(), &entry, 1, nullptr, 5000), 1) << i << " of " << length;
    });
    for (Context& context : received) {
      std::this_thread::sleep_for(milliseconds(1));
      ASSERT_EQ(fi_trecv(ends.b->ep(), in.data(), kLong, nullptr, FI_ADDR_UNSPEC, 3, 0, &context), 0);
    }
    receiver.join();
    sender.join();
    EXPECT_TRUE(all_sent);
  }
}

}  // namespace local_messages
