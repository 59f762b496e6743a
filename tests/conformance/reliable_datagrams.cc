// SPDX-License-Identifier: BSD-2-Clause
// Reliable datagrams: connections behind the interface, messages of all lengths between many ends, peers that are
// missing or close; fi_endpoint(3) (FI_EP_RDM), fi_av(3), fi_tagged(3).
#include <rdma/fi_rma.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <utility>

#include "fixture/driver.h"
#include "fixture/intruder.h"
#include "fixture/kept_address.h"
#include "fixture/mesh.h"
#include "fixture/parameter.h"
#include "fixture/process.h"
#include "fixture/raw_peer.h"

namespace reliable_datagrams {

CONFORMANCE_TOPIC(ReliableDatagrams);

// The intruder below sends packets of ofi_rxm; reliable_wire.cc has tcp's own.
#define PACKETS_ONLY()       \
  RELIABLE_DATAGRAMS_ONLY(); \
  if (speaks_tcp()) GTEST_SKIP() << "packets of ofi_rxm only"

namespace {

void with_sources(fi_info& hints) {
  hints.caps = FI_MSG | FI_TAGGED | FI_SOURCE | FI_DIRECTED_RECV;
}

void expect_arrival(Node& from, Node& to, fi_addr_t address, size_t length, bool tagged, bool expected) {
  Buffer out(from.fabric(), std::max<size_t>(length, 1)), in(to.fabric(), std::max<size_t>(length, 1));
  Context send_context, recv_context;
  const auto seed = static_cast<unsigned>(length + tagged);
  out.fill_pattern(seed);
  const auto post = [&] {
    ASSERT_EQ(tagged ? to.trecv(in, length, 5, 0, &recv_context) : to.recv(in, length, &recv_context), 0);
  };
  if (expected) post();
  from.peer = address;
  ASSERT_EQ(tagged ? from.tsend(out, length, 5, &send_context) : from.send(out, length, &send_context), 0);
  if (!expected) {
    for (int i = 0; i < 20; ++i) driver::poke();
    post();
  }
  const Completion received = to.rx().wait();
  ASSERT_TRUE(received.ok()) << received << " length " << length;
  EXPECT_EQ(received.context(), &recv_context);
  EXPECT_EQ(received.entry.len, length);
  EXPECT_EQ(received.entry.flags & (FI_MSG | FI_TAGGED), tagged ? FI_TAGGED : FI_MSG);
  EXPECT_TRUE(in.holds_pattern(seed, length)) << "length " << length;
  const Completion sent = from.tx().wait();
  ASSERT_TRUE(sent.ok()) << sent;
  EXPECT_EQ(sent.context(), &send_context);
}

}  // namespace

TEST_P(ReliableDatagrams, AllLengthsArriveExpectedOrUnexpected) {
  RELIABLE_DATAGRAMS_ONLY();
  Fabric fabric(target());
  Pair pair(fabric);
  const size_t longest = fabric.length_up_to(kSanitized ? 8 << 20 : 64 << 20);
  for (const size_t length : {0ul,     1ul,      63ul,     64ul,     65ul,      127ul,           128ul,     129ul,
                              1023ul,  1024ul,   1025ul,   16319ul,  16320ul,   16383ul,         16384ul,   16385ul,
                              32768ul, 131071ul, 131072ul, 131073ul, 1ul << 20, (1ul << 20) + 1, 8ul << 20, 64ul << 20})
    for (const bool tagged : {false, true})
      for (const bool expected : {true, false})
        if (length <= longest) expect_arrival(pair.a(), pair.b(), pair.a().peer, length, tagged, expected);
}

// Needs more memory and time than every run has; WEFT_CONFORMANCE_LONGEST=268435456 is 256 MiB.
TEST_P(ReliableDatagrams, LongestMessageArrivesOverEveryProtocol) {
  RELIABLE_DATAGRAMS_ONLY();
  const char* asked = std::getenv("WEFT_CONFORMANCE_LONGEST");
  if (asked == nullptr) GTEST_SKIP() << "WEFT_CONFORMANCE_LONGEST does not ask for it";
  for (const char* memory : {"1", "0"})
    for (const char* write : {"0", "1"}) {
      const Parameter shared("FI_TCP_SHARED_MEMORY", memory), writes("FI_OFI_RXM_USE_RNDV_WRITE", write);
      Fabric fabric(target());
      Pair pair(fabric);
      const size_t length = fabric.length_up_to(std::strtoull(asked, nullptr, 0));
      for (const bool expected : {true, false})
        expect_arrival(pair.a(), pair.b(), pair.a().peer, length, true, expected);
    }
}

TEST_P(ReliableDatagrams, LimitOfSegmentedMessagesMayBeLarge) {
  RELIABLE_DATAGRAMS_ONLY();
  const Parameter limit("FI_OFI_RXM_SAR_LIMIT", "33554432");
  Fabric fabric(target());
  Pair pair(fabric);
  const size_t longest = fabric.length_up_to(20 << 20);
  for (const size_t length : {16ul << 20, (16ul << 20) + 1, 20ul << 20})
    for (const bool expected : {true, false})
      if (length <= longest) expect_arrival(pair.a(), pair.b(), pair.a().peer, length, true, expected);
}

TEST_P(ReliableDatagrams, LongMessagesMayBeWrittenByTheirSender) {
  RELIABLE_DATAGRAMS_ONLY();
  const Parameter writes("FI_OFI_RXM_USE_RNDV_WRITE", "1");
  Fabric fabric(target());
  Pair pair(fabric);
  for (const size_t length : {16384ul, 16385ul, 131072ul, 131073ul, 1ul << 20, (4ul << 20) + 1})
    for (const bool tagged : {false, true})
      for (const bool expected : {true, false})
        expect_arrival(pair.a(), pair.b(), pair.a().peer, length, tagged, expected);
  // And into a receive that is too short.
  Buffer out(fabric, 200'000), in(fabric, 200'000);
  out.fill_pattern(9);
  Context contexts[2];
  ASSERT_EQ(pair.b().recv(in, 150'000, &contexts[0]), 0);
  ASSERT_EQ(pair.a().send(out, 200'000, &contexts[1]), 0);
  const Completion cut = pair.b().rx().wait();
  EXPECT_EQ(cut.err(), FI_ETRUNC) << cut;
  EXPECT_EQ(cut.error.olen, 50'000u);
  EXPECT_TRUE(in.holds_pattern(9, 150'000));
  EXPECT_TRUE(std::all_of(in.data() + 150'000, in.data() + 200'000, [](char byte) { return byte == 0; }));
  EXPECT_TRUE(pair.a().tx().wait().ok());
}

TEST_P(ReliableDatagrams, MessagesThatAreTooLongAreRefused) {
  RELIABLE_DATAGRAMS_ONLY();
  Fabric fabric(target());
  Pair pair(fabric);
  const size_t most = fabric.info()->ep_attr->max_msg_size;
  if (most > (1ul << 30)) GTEST_SKIP() << "no memory is so long";
  Buffer out(fabric, most + 1);
  EXPECT_EQ(pair.a().send(out, most + 1, nullptr), -FI_EMSGSIZE);
  EXPECT_EQ(pair.a().tsend(out, most + 1, 1, nullptr), -FI_EMSGSIZE);
  EXPECT_TRUE(pair.a().tx().stays_silent(milliseconds(1)));
}

// After its completions were read, the application may do anything for any time.
TEST_P(ReliableDatagrams, CompletedMessagesHaveBeenSent) {
  RELIABLE_DATAGRAMS_ONLY();
  constexpr size_t kCount = 8;
  Fabric ours(target()), theirs(target());
  DatagramEnd from(ours), to(theirs);
  from->peer = from.insert(to.address());
  Buffer out(ours, 64), in(theirs, 64);
  std::vector<Context> contexts(2 * kCount + 2);
  ASSERT_EQ(to->recv(in, 64, &contexts[2 * kCount]), 0);
  ASSERT_EQ(from->send(out, 64, &contexts[2 * kCount + 1]), 0);
  ASSERT_TRUE(to->rx().wait().ok());
  ASSERT_TRUE(from->tx().wait().ok());
  for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(to->recv(in, 64, &contexts[kCount + i]), 0);
  for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(from->send(out, 64, &contexts[i]), 0);
  for (size_t i = 0; i < kCount; ++i) ASSERT_TRUE(retry([&] { return from->tx().read().rc; }) == 1);
  // The sender is not driven any more.
  const auto deadline = after(kPatience);
  for (size_t arrived = 0; arrived < kCount;) {
    arrived += to->rx().read().ok();
    ASSERT_LT(Clock::now(), deadline) << arrived << " have come";
  }
}

TEST_P(ReliableDatagrams, EitherEndMaySendFirst) {
  RELIABLE_DATAGRAMS_ONLY();
  Fabric fabric(target());
  for (int round = 0; round < 25; ++round) {
    Pair pair(fabric);
    Buffer out(fabric, 100), in_a(fabric, 100), in_b(fabric, 100);
    out.fill_pattern(1);
    Context contexts[4];
    ASSERT_EQ(pair.a().recv(in_a, 100, &contexts[0]), 0);
    ASSERT_EQ(pair.b().recv(in_b, 100, &contexts[1]), 0);
    ASSERT_EQ(pair.a().send(out, 100, &contexts[2]), 0);
    ASSERT_EQ(pair.b().send(out, 100, &contexts[3]), 0);
    for (Node* node : {&pair.a(), &pair.b()}) {
      ASSERT_TRUE(node->rx().wait().ok());
      ASSERT_TRUE(node->tx().wait().ok());
      EXPECT_TRUE(node->tx().stays_silent(milliseconds(1)));
    }
    EXPECT_TRUE(in_a.holds_pattern(1, 100) && in_b.holds_pattern(1, 100));
  }
}

TEST_P(ReliableDatagrams, ManyEndpointsThatStartAtOnceAllConnect) {
  RELIABLE_DATAGRAMS_ONLY();
  constexpr size_t kEnds = 12;
  Fabric fabric(target());
  Mesh mesh(fabric, kEnds);
  Buffer out(fabric, 64), in(fabric, 64);
  std::vector<Context> contexts(2 * kEnds * kEnds);
  for (size_t i = 0; i < kEnds; ++i)
    for (size_t j = 0; j < kEnds; ++j) {
      ASSERT_EQ(mesh.node(i).trecv(in, 64, j, 0, &contexts[i * kEnds + j]), 0);
      mesh.node(i).peer = mesh.peers[i][j];
      ASSERT_EQ(mesh.node(i).tsend(out, 64, i, &contexts[(kEnds + i) * kEnds + j]), 0);
    }
  for (size_t i = 0; i < kEnds; ++i)
    for (size_t j = 0; j < kEnds; ++j) {
      const Completion received = mesh.node(i).rx().wait();
      ASSERT_TRUE(received.ok()) << received;
      const Completion sent = mesh.node(i).tx().wait();
      ASSERT_TRUE(sent.ok()) << sent;
    }
}

TEST_P(ReliableDatagrams, EndpointReachesItself) {
  RELIABLE_DATAGRAMS_ONLY();
  Fabric fabric(target());
  DatagramEnd end(fabric);
  const fi_addr_t self = end.insert(end.address());
  for (const size_t length : {0ul, 8ul, 1000ul, 20000ul, 1ul << 20})
    for (const bool expected : {true, false}) expect_arrival(*end, *end, self, length, true, expected);
}

TEST_P(ReliableDatagrams, MissingPeerFailsItsOperationsOnceAndNoOthers) {
  RELIABLE_DATAGRAMS_ONLY();
  const Parameter at_once(speaks_tcp() ? "FI_TCP_START_TIMEOUT" : "FI_OFI_RXM_START_TIMEOUT", "0");
  Fabric fabric(target());
  Pair pair(fabric);
  Address gone;
  {
    DatagramEnd was(fabric);
    gone = was.address();
  }
  DatagramEnd end(fabric);
  const fi_addr_t nobody = end.insert(gone);
  const fi_addr_t friendly = end.insert(Address::local_name(pair.a().fid()));
  Buffer out(fabric, 100'000), in(fabric, 64);
  Context contexts[5], received;
  ASSERT_EQ(pair.a().recv(in, 64, &received), 0);
  for (int i = 0; i < 5; ++i) {
    end->peer = i == 4 ? friendly : nobody;
    ASSERT_EQ(end->send(out, i == 3 ? 100'000 : 64, &contexts[i]), 0);
  }
  EXPECT_TRUE(pair.a().rx().wait().ok());
  bool seen[5] = {};
  for (int i = 0; i < 5; ++i) {
    const Completion done = end->tx().wait();
    const auto* context = static_cast<const Context*>(done.context());
    ASSERT_TRUE(context >= contexts && context < contexts + 5);
    EXPECT_EQ(done.err(), context == contexts + 4 ? 0 : FI_ECONNREFUSED) << done;
    EXPECT_FALSE(std::exchange(seen[context - contexts], true));
  }
  EXPECT_TRUE(end->tx().stays_silent());
}

TEST_P(ReliableDatagrams, OperationsOfADepartedPeerFail) {
  RELIABLE_DATAGRAMS_ONLY();
  Fabric fabric(target());
  DatagramEnd stays(fabric);
  auto leaves = std::make_unique<DatagramEnd>(fabric);
  stays->peer = stays.insert(leaves->address());
  (*leaves)->peer = leaves->insert(stays.address());
  expect_arrival(*stays, **leaves, stays->peer, 8, true, true);
  // Two long messages that are never fetched, and one that is announced to this end.
  Buffer out(fabric, 1 << 20), in(fabric, 1 << 20);
  Context contexts[3];
  ASSERT_EQ(stays->tsend(out, out.size(), 1, &contexts[0]), 0);
  ASSERT_EQ(stays->tsend(out, out.size(), 2, &contexts[1]), 0);
  ASSERT_EQ((*leaves)->tsend(out, out.size(), 3, &contexts[2]), 0);
  for (int i = 0; i < 50; ++i) driver::poke_and_rest();
  leaves.reset();
  for (int i = 0; i < 2; ++i) {
    const Completion failed = stays->tx().wait();
    EXPECT_EQ(failed.err(), FI_ECONNRESET) << failed;
  }
  ASSERT_EQ(stays->trecv(in, in.size(), 3, 0, &contexts[2]), 0);
  EXPECT_EQ(stays->rx().wait().err(), FI_ECONNRESET);
}

TEST_P(ReliableDatagrams, RestartedPeerAtTheSameAddressIsReached) {
  RELIABLE_DATAGRAMS_ONLY();
  Fabric fabric(target());
  DatagramEnd stays(fabric);
  const KeptAddress address(fabric);
  stays->peer = stays.insert(*address);
  for (int life = 0; life < 5; ++life) {
    // Messages that are sent before the end of the previous incarnation is detected are lost with it.
    for (int i = 0; i < 50; ++i) driver::poke_and_rest();
    DatagramEnd restarted(fabric, address.options());
    EXPECT_EQ(restarted.address(), *address);
    const fi_addr_t back = restarted.insert(stays.address());
    if (life % 2 == 0) {
      expect_arrival(*stays, *restarted, stays->peer, 100, true, true);
      expect_arrival(*restarted, *stays, back, 100, true, true);
    } else {
      expect_arrival(*restarted, *stays, back, 100, true, true);
      expect_arrival(*stays, *restarted, stays->peer, 100, true, true);
    }
  }
}

TEST_P(ReliableDatagrams, DirectedReceivesTakeTheirSourceOnlyAndSourcesAreReported) {
  RELIABLE_DATAGRAMS_ONLY();
  NEEDS(with_sources, "FI_DIRECTED_RECV");
  Fabric fabric(target(), with_sources);
  Mesh mesh(fabric, 3);
  Buffer out(fabric, 64), in(fabric, 64);
  Context from_one, from_two, sent[2];
  ASSERT_EQ(
      retry([&] { return fi_trecv(mesh.node(0).ep(), in.data(), 64, in.desc(), mesh.peers[0][1], 9, 0, &from_one); }),
      0);
  ASSERT_EQ(retry([&] {
              return fi_trecv(mesh.node(0).ep(), in.data(), 64, in.desc(), mesh.peers[0][2], 0, ~0ull, &from_two);
            }),
            0);
  for (size_t sender : {2u, 1u}) {
    mesh.node(sender).peer = mesh.peers[sender][0];
    ASSERT_EQ(mesh.node(sender).tsend(out, 64, 9, &sent[sender - 1]), 0);
    fi_cq_tagged_entry entry{};
    fi_addr_t source = FI_ADDR_NOTAVAIL;
    ASSERT_EQ(retry([&] { return fi_cq_readfrom(mesh.node(0).rx().get(), &entry, 1, &source); }), 1);
    EXPECT_EQ(entry.op_context, sender == 1 ? &from_one : &from_two);
    EXPECT_EQ(source, mesh.peers[0][sender]);
    EXPECT_TRUE(mesh.node(sender).tx().wait().ok());
  }
}

// The message was unexpected.
TEST_P(ReliableDatagrams, ASourceIsKnownOnceItsAddressIsInserted) {
  RELIABLE_DATAGRAMS_ONLY();
  NEEDS(with_sources, "FI_SOURCE");
  Fabric fabric(target(), with_sources);
  DatagramEnd sender(fabric), receiver(fabric);
  for (const size_t length : {64ul, 100'000ul}) {
    SCOPED_TRACE(length);
    Buffer out(fabric, length), in(fabric, length);
    Context sent, received;
    sender->peer = sender.insert(receiver.address());
    ASSERT_EQ(sender->tsend(out, length, 9, &sent), 0);
    for (const auto end = after(kSilence); Clock::now() < end;) driver::poke();
    fi_addr_t name = receiver.insert(sender.address());
    ASSERT_EQ(receiver->trecv(in, length, 9, 0, &received), 0);
    fi_cq_tagged_entry entry{};
    fi_addr_t source = FI_ADDR_NOTAVAIL;
    ASSERT_EQ(retry([&] { return fi_cq_readfrom(receiver->rx().get(), &entry, 1, &source); }), 1);
    EXPECT_EQ(source, name);
    EXPECT_TRUE(sender->tx().wait().ok());
    ASSERT_EQ(fi_av_remove(receiver.av(), &name, 1, 0), 0);
  }
}

TEST_P(ReliableDatagrams, LongMessagesArePeekedAtClaimedAndDiscarded) {
  RELIABLE_DATAGRAMS_ONLY();
  Fabric fabric(target());
  Pair pair(fabric);
  constexpr size_t kLong = 300'000;
  Buffer out(fabric, kLong), in(fabric, kLong);
  out.fill_pattern(3);
  Context sends[3], context;
  for (uint64_t tag = 0; tag < 3; ++tag) ASSERT_EQ(pair.a().tsend(out, kLong, tag, &sends[tag]), 0);
  iovec iov{in.data(), kLong};
  void* desc = in.desc();
  const auto ask = [&](uint64_t tag, uint64_t flags) {
    const bool buffer = (flags & (FI_PEEK | FI_DISCARD)) == 0;
    fi_msg_tagged message{&iov, &desc, buffer ? 1u : 0u, FI_ADDR_UNSPEC, tag, 0, &context, 0};
    Completion answer;
    const auto deadline = after(kPatience);
    do {
      driver::poke();
      EXPECT_EQ(fi_trecvmsg(pair.b().ep(), &message, flags), 0);
      answer = pair.b().rx().wait();
    } while (answer.err() == FI_ENOMSG && Clock::now() < deadline);
    return answer;
  };
  Completion found = ask(1, FI_PEEK);
  ASSERT_TRUE(found.ok()) << found;
  EXPECT_EQ(found.entry.len, kLong);
  ASSERT_TRUE(ask(1, FI_PEEK | FI_CLAIM).ok());
  fi_msg_tagged peek{nullptr, nullptr, 0, FI_ADDR_UNSPEC, 1, 0, &sends[0], 0};
  ASSERT_EQ(fi_trecvmsg(pair.b().ep(), &peek, FI_PEEK), 0);
  EXPECT_EQ(pair.b().rx().wait().err(), FI_ENOMSG) << "it is claimed";
  ASSERT_TRUE(ask(1, FI_CLAIM).ok());
  EXPECT_TRUE(in.holds_pattern(3, kLong));
  ASSERT_TRUE(ask(0, FI_PEEK | FI_DISCARD).ok());
  ASSERT_TRUE(ask(2, FI_PEEK | FI_CLAIM).ok());
  ASSERT_TRUE(ask(2, FI_CLAIM | FI_DISCARD).ok());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(pair.a().tx().wait().ok());
}

TEST_P(ReliableDatagrams, MoreMessagesThanAnyQueueHoldsKeepTheirOrder) {
  RELIABLE_DATAGRAMS_ONLY();
  constexpr uint64_t kMany = 20'000;
  Fabric fabric(target());
  Pair pair(fabric);
  Buffer in(fabric, 2000);
  std::vector<Context> contexts(kMany);
  std::vector<char> out(2000);
  uint64_t sent = 0, next = 0;
  while (next < kMany) {
    for (int burst = 0; sent < kMany && burst < 3000; ++burst) {
      const size_t length = sent % 7 == 0 ? 2000 : 8;
      if (fi_tinject(pair.a().ep(), out.data(), length, pair.a().peer, sent) != 0) break;
      ++sent;
    }
    fi_cq_tagged_entry entry;
    ASSERT_NE(fi_cq_read(pair.a().tx().get(), &entry, 1), -FI_EAVAIL);
    for (int burst = 0; next < sent && burst < 1000; ++burst, ++next) {
      ASSERT_EQ(pair.b().trecv(in, 2000, 0, ~0ull, &contexts[next]), 0);
      const Completion received = pair.b().rx().wait();
      ASSERT_TRUE(received.ok()) << received;
      ASSERT_EQ(received.entry.tag, next);
    }
  }
}

TEST_P(ReliableDatagrams, SendersWaitForReceiversThatFallBehind) {
  RELIABLE_DATAGRAMS_ONLY();
  const Parameter rxm("FI_OFI_RXM_UNEXPECTED_BYTES", "1000000"), tcp("FI_TCP_UNEXPECTED_BYTES", "1000000");
  Fabric fabric(target());
  Pair pair(fabric);
  constexpr size_t kLength = 10'000;
  constexpr uint64_t kEnough = 40'000;  // 400 MB
  Buffer out(fabric, kLength), in(fabric, kLength);
  std::vector<Context> contexts(kEnough);
  uint64_t sent = 0;
  auto last = Clock::now();
  while (sent < kEnough && elapsed_ms(last) < 300) {
    const Completion done = pair.a().tx().read();
    ASSERT_NE(done.rc, -FI_EAVAIL) << done << " after " << sent;
    if (fi_tsend(pair.a().ep(), out.data(), kLength, out.desc(), pair.a().peer, sent, &contexts[sent]) == 0) {
      ++sent;
      last = Clock::now();
    }
    driver::poke();
  }
  EXPECT_LT(sent, kEnough) << "nothing held the sender back";
  for (uint64_t tag = 0; tag < sent; ++tag) {
    Context context;
    ASSERT_EQ(pair.b().trecv(in, kLength, tag, 0, &context), 0);
    const Completion received = pair.b().rx().wait();
    ASSERT_TRUE(received.ok()) << received << " message " << tag << " of " << sent;
    ASSERT_EQ(received.entry.tag, tag);
  }
}

TEST_P(ReliableDatagrams, SilentPeerFailsItsOperationsInTime) {
  RELIABLE_DATAGRAMS_ONLY();
  if (target().provider != "tcp;ofi_rxm" && !speaks_tcp()) GTEST_SKIP() << "a silent peer is a bare socket here";
  const Parameter limit(speaks_tcp() ? "FI_TCP_ANSWER_TIMEOUT" : "FI_OFI_RXM_ANSWER_TIMEOUT", "500");
  Fabric fabric(target());
  const raw::Socket silent = raw::Socket::listening(target().address);
  DatagramEnd end(fabric);
  end->peer = end.insert(silent.address());
  Buffer out(fabric, 64);
  Context contexts[2];
  const auto start = Clock::now();
  for (Context& context : contexts) ASSERT_EQ(end->send(out, 64, &context), 0);
  for (Context& context : contexts) {
    const Completion failed = end->tx().wait();
    EXPECT_EQ(failed.err(), FI_ETIMEDOUT) << failed;
    EXPECT_EQ(failed.context(), &context);
  }
  EXPECT_GE(elapsed_ms(start), 450);
  EXPECT_TRUE(end->tx().stays_silent());
}

// A peer whose request crossed another one needs it: otherwise it takes the late one for that of a new process.
TEST_P(ReliableDatagrams, AnswersNameTheirProcess) {
  PACKETS_ONLY();
  Fabric fabric(target());
  Pair pair(fabric);
  expect_exchange(pair);
  Intruder intruder(target(), Address::local_name(pair.b().fid()));
  ASSERT_TRUE(intruder.accepted());
  uint32_t process = 0;
  ASSERT_GE(intruder.answer().size(), 16u);
  std::memcpy(&process, intruder.answer().data() + 4, sizeof process);
  EXPECT_EQ(process, static_cast<uint32_t>(getpid()));
}

TEST_P(ReliableDatagrams, ProcessThatLivesReplacesAConnectionAndADeadOneDoesNot) {
  PACKETS_ONLY();
  Fabric fabric(target());
  Pair pair(fabric);
  expect_exchange(pair);
  const Address victim = Address::local_name(pair.b().fid());
  Buffer in(fabric, 8);
  Context received;
  Intruder first(target(), victim, 16384, 100);
  ASSERT_TRUE(first.accepted());
  for (uint32_t process = 101; process < 104; ++process) Intruder::request_and_die(target(), victim, process);
  for (int i = 0; i < 200; ++i) driver::poke_and_rest();
  ASSERT_EQ(pair.b().recv(in, 8, &received), 0);
  first.say(packet_of(0, 0, 8, 8));
  EXPECT_EQ(pair.b().rx().wait().context(), &received);
  Intruder restarted(target(), victim, 16384, 200);
  ASSERT_TRUE(restarted.accepted());
  EXPECT_TRUE(first.cut_off());
  ASSERT_EQ(pair.b().recv(in, 8, &received), 0);
  restarted.say(packet_of(0, 0, 8, 8));
  EXPECT_EQ(pair.b().rx().wait().context(), &received);
  expect_exchange(pair);
}

namespace {

// `shared`: receive buffers of all connections lie in one queue.
void expect_nonsense_to_end_its_connection(const Target& target, bool shared) {
  Fabric fabric(target);
  Pair pair(fabric);
  expect_exchange(pair);
  const Address victim = Address::local_name(pair.b().fid());
  std::string ranges_overflow = packet_of(2, 1, 5, 104);
  std::memset(ranges_overflow.data() + 64, 0xff, 96);
  ranges_overflow[64 + 96] = 4;
  std::string too_many = packet_of(2, 0, 0, 104);
  too_many[64 + 96] = 5;
  std::string middle_first = packet_of(1, 0, 20, 10);
  middle_first[24] = 2;
  std::string endless = packet_of(1, 0, ~0ull, 10);
  endless[2] = 10;
  endless[24] = 1;
  // Atomic operations: no range, too many, unknown operation, unknown type, missing elements, answers.
  const auto atomic = [](uint8_t op, uint8_t type, uint8_t operation, uint8_t count, uint64_t elements) {
    std::string bytes = packet_of(4, op, 96 + 8, 96 + 8);
    bytes[56] = static_cast<char>(type);
    bytes[57] = static_cast<char>(operation);
    bytes[58] = static_cast<char>(count);
    std::memcpy(bytes.data() + 64 + 8, &elements, sizeof elements);
    return bytes;
  };
  std::string cut = atomic(6, FI_UINT64, FI_SUM, 1, 1).substr(0, 64 + 90);
  const uint64_t cut_size = 90;
  std::memcpy(cut.data() + 40, &cut_size, sizeof cut_size);
  for (const std::string& bytes :
       {atomic(6, FI_UINT64, FI_SUM, 0, 1), atomic(6, FI_UINT64, FI_SUM, 5, 1), atomic(6, FI_UINT64, 99, 1, 1),
        atomic(6, 99, FI_SUM, 1, 1), atomic(6, FI_UINT64, FI_CSWAP, 1, 1), atomic(7, FI_UINT64, FI_SUM, 1, 2),
        atomic(8, FI_UINT64, FI_CSWAP, 1, 1), atomic(7, FI_UINT64, FI_ATOMIC_READ, 1, 60'000),
        atomic(6, FI_UINT64, FI_SUM, 1, ~0ull), atomic(6, FI_UINT64, FI_SUM, 1, (1ull << 61) + 1),
        atomic(1, FI_UINT64, FI_SUM, 1, 1), cut, packet_of(5, 7, 8, 8), packet_of(5, 7, 4, 4)}) {
    Intruder intruder(target, victim);
    ASSERT_TRUE(intruder.accepted());
    intruder.say(bytes);
    EXPECT_TRUE(intruder.cut_off()) << bytes.size();
  }
  for (const std::string& bytes :
       {std::string(), std::string("x"), std::string(31, '\x04'), packet_of(0, 0, 8, 8, 9), packet_of(0, 0, 9, 8),
        packet_of(0, 6, 8, 8), packet_of(99, 0, 0, 0), packet_of(0, 0, 0, 0).substr(0, 40), packet_of(2, 0, 100, 8),
        packet_of(3, 0, 0, 0), packet_of(7, 0, 0, 0), packet_of(7, 0, 0, 104), packet_of(8, 0, 0, 0), ranges_overflow,
        too_many, middle_first, endless, std::string(100'000, '\x04')}) {
    Intruder intruder(target, victim);
    ASSERT_TRUE(intruder.accepted());
    intruder.say(bytes);
    // Shared receive buffers do not identify the sender of a packet.
    if (bytes.size() >= kControlHeader || !shared)
      EXPECT_TRUE(intruder.cut_off()) << bytes.size();
    else
      expect_exchange(pair);
  }
  EXPECT_FALSE(Intruder(target, victim, 4096).accepted()) << "another eager limit";
  expect_exchange(pair);
}

}  // namespace

TEST_P(ReliableDatagrams, MalformedPacketsEndTheirConnectionAndNoOther) {
  PACKETS_ONLY();
  const Parameter shares("FI_OFI_RXM_USE_SRX", "0");
  expect_nonsense_to_end_its_connection(target(), false);
}

TEST_P(ReliableDatagrams, MalformedPacketsInSharedBuffersEndTheirConnectionAndNoOther) {
  PACKETS_ONLY();
  if (target().provider == "tcp;ofi_rxm") GTEST_SKIP() << "every connection has buffers of its own";
  expect_nonsense_to_end_its_connection(target(), true);
}

TEST_P(ReliableDatagrams, DeliveryCompleteMeansThatDataIsInPlace) {
  RELIABLE_DATAGRAMS_ONLY();
  const HintsEditor delivered = [](fi_info& hints) {
    hints.caps = FI_MSG | FI_RMA;
    hints.tx_attr->op_flags = FI_DELIVERY_COMPLETE;
  };
  ASSERT_TRUE(Fabric::offers(target(), delivered));
  Fabric fabric(target(), delivered);
  EXPECT_EQ(fabric.info()->tx_attr->op_flags & FI_DELIVERY_COMPLETE, FI_DELIVERY_COMPLETE);
  Pair pair(fabric);
  Buffer remote(fabric, 100'000, 0, FI_REMOTE_READ | FI_REMOTE_WRITE), local(fabric, 100'000, 0, FI_WRITE);
  Context context;
  unsigned seed = 0;
  for (const size_t length : {8ul, 1000ul, 100'000ul, 8ul, 16'384ul}) {
    local.fill_pattern(++seed);
    ASSERT_EQ(retry([&] {
                return fi_write(pair.a().ep(), local.data(), length, local.desc(), pair.a().peer,
                                remote.remote_address(), remote.key(), &context);
              }),
              0);
    ASSERT_TRUE(pair.a().tx().wait().ok());
    EXPECT_TRUE(remote.holds_pattern(seed, length)) << "length " << length;
  }
}

}  // namespace reliable_datagrams
