// SPDX-License-Identifier: BSD-2-Clause
// Peers that make an end keep as much as they can: the table of docs/limits.md, row by row. Memory stays bounded, no
// call takes long, and other peers are served. The peers are bare sockets, or endpoints of the lower provider.
#include <rdma/fi_atomic.h>
#include <rdma/fi_ext.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <deque>
#include <fstream>
#include <thread>

#include "fixture/child.h"
#include "fixture/driver.h"
#include "fixture/intruder.h"
#include "fixture/member.h"
#include "fixture/parameter.h"
#include "fixture/process.h"
#include "fixture/raw_client.h"
#include "fixture/raw_peer.h"

namespace hostile_memory {

CONFORMANCE_TOPIC(HostileMemory);

#define RAW_TCP_ONLY() \
  if (!speaks_tcp()) GTEST_SKIP() << "attacks the wire of tcp"
#define RAW_RELIABLE_ONLY() \
  if (!speaks_tcp() || target().ep_type != FI_EP_RDM) GTEST_SKIP() << "attacks tcp's own reliable datagrams"
#define INTRUDERS_ONLY() \
  if (target().provider.find(";ofi_rxm") == std::string::npos) GTEST_SKIP() << "attacks the packets of ofi_rxm"
#define DATAGRAMS_ONLY() \
  if (target().ep_type != FI_EP_DGRAM) GTEST_SKIP() << "attacks datagram endpoints"

namespace {

constexpr uint16_t kWantsAck = 4;
constexpr uint8_t kAnnouncement = 5, kClearance = 6, kIdleClose = 64, kAtomic = 65, kScarce = 67;
constexpr uint8_t kClientCloses = 0x20;

std::string with_byte(std::string header, uint8_t byte) {
  header[4] = static_cast<char>(byte);
  return header;
}

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

// Memory and the longest round of calls since it was made. Processor time, because other programs may interrupt a call.
class Watch {
 public:
  void poke() {
    const double begun = thread_seconds();
    driver::poke();
    longest_ = std::max(longest_, thread_seconds() - begun);
  }
  void expect_bounded(size_t mib) const {
    if (kSanitized) return;
    EXPECT_LE(resident_kib(), before_ + mib * 1024);
    EXPECT_LE(longest_, 1.0) << "seconds in one call";
  }

 private:
  const size_t before_ = resident_kib();
  double longest_ = 0;
};

// An end whose attacker is a bare socket, with memory that the attacker may access.
struct Victim {
  explicit Victim(const Target& target, uint8_t features = 0)
      : fabric(target, with_all(target)),
        bystanders(fabric),
        region(fabric, 16'384, 0, FI_REMOTE_READ | FI_REMOTE_WRITE) {
    if (target.connected())
      connect();
    else
      end = std::make_unique<DatagramEnd>(fabric), connect(9, 1, features);
  }
  static HintsEditor with_all(const Target& target) {
    return
        [&target](fi_info& hints) { hints.caps = FI_MSG | FI_TAGGED | FI_RMA | (target.connected() ? 0 : FI_ATOMIC); };
  }
  void connect(uint16_t port, uint32_t process, uint8_t features = 0) {
    raw::RawClient client(end->address(), 1, port, process, features);
    require(client.accepted, "accepted");
    attacker = std::move(client.socket);
  }
  void connect() {
    listener.emplace(fabric);
    attacker = raw::Socket::connected_to(listener->address());
    require(attacker.write(raw::cm_message(raw::kConnreq)), "write");
    const InfoPtr request = listener->next_request();
    node = std::make_unique<Node>(fabric, NodeOptions{}, request.get());
    node->enable();
    require_ok(node->accept(), "fi_accept");
    require(attacker.read(raw::kCmHeader).size() == raw::kCmHeader, "no answer to the request");
  }
  Node& victim() { return node != nullptr ? *node : **end; }
  std::string range(uint64_t length) {
    return raw::word(region.remote_address()) + raw::word(length) + raw::word(region.key());
  }

  Fabric fabric;
  Pair bystanders;
  Buffer region;
  std::optional<Listener> listener;
  std::unique_ptr<Node> node;
  std::unique_ptr<DatagramEnd> end;
  raw::Socket attacker;
  Watch watch;
};

// Exchanges a tagged message: untagged ones of an intruder may still be on their way, and would match an untagged
// receive.
void expect_tagged_message(Pair& pair) {
  constexpr size_t kLength = 64;
  Buffer out(pair.a().fabric(), kLength), in(pair.b().fabric(), kLength);
  Context sent, received;
  out.fill_pattern(kLength);
  ASSERT_EQ(pair.b().trecv(in, kLength, 1, 0, &received), 0);
  ASSERT_EQ(pair.a().tsend(out, kLength, 1, &sent), 0);
  const Completion arrival = pair.b().rx().wait();
  ASSERT_TRUE(arrival.ok()) << arrival;
  EXPECT_EQ(arrival.context(), &received);
  EXPECT_EQ(arrival.entry.len, kLength);
  EXPECT_TRUE(in.holds_pattern(kLength, kLength));
  EXPECT_TRUE(pair.a().tx().wait().ok());
}

// Writes the same bytes again and again: `enough` of them, or until none are taken for a while. Others are served
// meanwhile. Returns the bytes taken; -1 after the connection was closed.
ssize_t pour(Victim& victim, const std::string& unit, size_t enough) {
  std::string batch;
  while (batch.size() < 64 * 1024) batch += unit;
  size_t taken = 0, at = 0;
  auto last = Clock::now();
  for (unsigned round = 0; taken < enough && elapsed_ms(last) < 300; ++round) {
    const ssize_t sent =
        ::send(victim.attacker.fd(), batch.data() + at, batch.size() - at, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) return -1;
    if (sent > 0) {
      taken += static_cast<size_t>(sent);
      at = (at + static_cast<size_t>(sent)) % batch.size();
      last = Clock::now();
    }
    victim.watch.poke();
    if (round % 256 == 0) expect_exchange(victim.bystanders);
  }
  expect_exchange(victim.bystanders);
  return static_cast<ssize_t>(taken);
}

}  // namespace

TEST_P(HostileMemory, AcknowledgementsThatNobodyReadsAreCounted) {
  RAW_TCP_ONLY();
  Victim victim(target());
  const std::string write = raw::data_header(raw::kWrite, 40 + 8, 40, kWantsAck, 1) + victim.range(8) + "contents";
  EXPECT_NE(pour(victim, write, 60'000'000), -1);
  victim.watch.expect_bounded(16);
  // All acknowledgements are sent when the peer reads after all.
  std::string ack = victim.attacker.read(16);
  ASSERT_EQ(ack.size(), 16u);
  EXPECT_EQ(ack[4], 2);
}

TEST_P(HostileMemory, ReadsWhoseAnswersNobodyReadsAreHeldBack) {
  RAW_TCP_ONLY();
  Victim victim(target());
  const std::string read = raw::data_header(raw::kReadReq, 40, 40, 0, 1) + victim.range(16'000);
  EXPECT_LT(pour(victim, read, 60'000'000), 60'000'000);
  victim.watch.expect_bounded(64);
}

TEST_P(HostileMemory, AtomicOperationsWhoseAnswersNobodyReadsAreHeldBack) {
  RAW_RELIABLE_ONLY();
  Victim victim(target(), raw::kClientHasAtomics);
  const std::string fetch = raw::data_header(kAtomic, 48, 48, 0, 1) +
                            raw::word(1 | uint64_t{FI_UINT64} << 8 | uint64_t{FI_ATOMIC_READ} << 16) +
                            victim.range(2000);
  EXPECT_LT(pour(victim, fetch, 60'000'000), 60'000'000);
  victim.watch.expect_bounded(64);
}

TEST_P(HostileMemory, IdleCloseRequestsWhoseAnswersNobodyReadsAreHeldBack) {
  RAW_RELIABLE_ONLY();
  const Parameter closes("FI_TCP_IDLE_TIMEOUT", "60000");
  Victim victim(target(), kClientCloses);
  // Its message is on the way, so the end is not idle and declines.
  ASSERT_TRUE(
      victim.attacker.write(with_byte(raw::data_header(kAnnouncement, 32, 32), 1) + raw::word(1) + raw::word(8)));
  EXPECT_LT(pour(victim, with_byte(raw::data_header(kIdleClose, 16), 1), 60'000'000), 60'000'000);
  victim.watch.expect_bounded(64);
}

TEST_P(HostileMemory, AnnouncementsAreAsManyAsTickets) {
  RAW_RELIABLE_ONLY();
  Victim victim(target());
  const auto announcement = [](unsigned ticket) {
    return with_byte(raw::data_header(kAnnouncement, 32, 32), static_cast<uint8_t>(ticket)) + raw::word(1) +
           raw::word(1 << 20);
  };
  for (unsigned ticket = 1; ticket < 256; ++ticket) ASSERT_TRUE(victim.attacker.write(announcement(ticket)));
  expect_exchange(victim.bystanders);
  EXPECT_FALSE(victim.attacker.closed_by_peer(milliseconds(50)));
  ASSERT_TRUE(victim.attacker.write(announcement(77)));
  EXPECT_TRUE(victim.attacker.closed_by_peer());
  victim.connect(9, 2);
  EXPECT_EQ(pour(victim, announcement(7), 200'000'000), -1);
  victim.watch.expect_bounded(16);
}

TEST_P(HostileMemory, AnnouncementsWithNumbersEndAtTheLimit) {
  RAW_RELIABLE_ONLY();
  const Parameter limit("FI_TCP_UNEXPECTED_BYTES", "8000000");
  Victim victim(target(), raw::kClientHasNumbers);
  const std::string announcement =
      raw::data_header(kAnnouncement, 40, 40) + raw::word(1) + raw::word(1 << 20) + raw::word(7);
  EXPECT_LT(pour(victim, announcement, 100'000'000), 100'000'000);
  victim.watch.expect_bounded(96);  // 64 MiB for what is under way between ends that have numbers
}

// The peer claims that its memory is scarce, and fetches nothing.
TEST_P(HostileMemory, CopiesThatNobodyFetchesEndAtTheLimit) {
  RAW_RELIABLE_ONLY();
  const Parameter limit("FI_TCP_UNEXPECTED_BYTES", "8000000");
  Victim victim(target(), raw::kClientHasNumbers);
  (*victim.end)->peer = victim.end->insert(Address::numeric(target().address, 9));
  ASSERT_TRUE(victim.attacker.write(with_byte(raw::data_header(kScarce, 16), 1)));
  for (int i = 0; i < 100; ++i) victim.watch.poke();
  Buffer out(victim.fabric, 10'000);
  std::vector<Context> contexts(20'000);  // 200 MB
  size_t sent = 0;
  for (auto last = Clock::now(); sent < contexts.size() && elapsed_ms(last) < 300; victim.watch.poke()) {
    if (fi_tsend(victim.victim().ep(), out.data(), out.size(), out.desc(), victim.victim().peer, 1, &contexts[sent]) !=
        0)
      continue;
    ++sent;
    last = Clock::now();
  }
  EXPECT_LT(sent, contexts.size());
  victim.watch.expect_bounded(32);
  expect_exchange(victim.bystanders);
  ASSERT_TRUE(victim.attacker.write(raw::data_header(kClearance, 24, 24) + raw::word(uint64_t{1} << 40)));
  EXPECT_TRUE(victim.attacker.closed_by_peer()) << "nothing has that number";
}

TEST_P(HostileMemory, UnexpectedMessagesEndAtTheLimit) {
  RAW_TCP_ONLY();
  const Parameter limit("FI_TCP_UNEXPECTED_BYTES", "8000000");
  for (const size_t length : {size_t{0}, size_t{8}, size_t{5000}, size_t{3'000'000}}) {
    Victim victim(target());
    const std::string message =
        raw::data_header(raw::kTagged, 24 + length, 24) + raw::word(5) + std::string(length, 'u');
    const ssize_t taken = pour(victim, message, 100'000'000);
    EXPECT_LT(taken, 100'000'000) << length;
    victim.watch.expect_bounded(48);
    // The application takes them, and later ones follow.
    Buffer in(victim.fabric, 8);
    for (size_t left = std::min<size_t>(1000, static_cast<size_t>(taken) / message.size()); left != 0; --left) {
      Context context;
      ASSERT_EQ(victim.victim().trecv(in, 8, 5, 0, &context), 0);
      EXPECT_EQ(victim.victim().rx().wait().context(), &context);
    }
  }
}

// One read may bring bytes behind the message for which there is no room.
TEST_P(HostileMemory, BytesBehindAMessageThatWaitsAreOneRead) {
  RAW_RELIABLE_ONLY();
  constexpr size_t kPeers = 200, kReadKib = 64;
  const Parameter limit("FI_TCP_UNEXPECTED_BYTES", "1000000");
  Victim victim(target());
  expect_exchange(victim.bystanders);
  std::string messages;
  while (messages.size() < 300'000)
    messages += raw::data_header(raw::kTagged, 5024, 24) + raw::word(5) + std::string(5000, 'u');
  std::deque<raw::Socket> attackers;
  for (uint16_t port = 10; port < 10 + kPeers; ++port) {
    victim.connect(port, port);
    attackers.push_back(std::move(victim.attacker));
    for (size_t at = 0; at < messages.size();) {
      const ssize_t sent =
          ::send(attackers.back().fd(), messages.data() + at, messages.size() - at, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent <= 0) break;
      at += static_cast<size_t>(sent);
      victim.watch.poke();
    }
  }
  expect_exchange(victim.bystanders);
  victim.watch.expect_bounded(8 + kPeers * kReadKib / 1024);
}

TEST_P(HostileMemory, AReconnectingPeerLeavesNoMoreThanTheLimit) {
  RAW_RELIABLE_ONLY();
  const Parameter limit("FI_TCP_UNEXPECTED_BYTES", "1000000");
  Victim victim(target());
  std::string said;
  for (unsigned ticket = 1; ticket < 256; ++ticket)
    said += with_byte(raw::data_header(kAnnouncement, 32, 32), static_cast<uint8_t>(ticket)) + raw::word(1) +
            raw::word(1 << 20);
  for (uint32_t process = 2; process < 300; ++process) {
    victim.connect(9, process);
    ASSERT_TRUE(victim.attacker.write(said));
    victim.watch.poke();
  }
  expect_exchange(victim.bystanders);
  victim.watch.expect_bounded(16);
}

// A server has other clients every day.
TEST_P(HostileMemory, ClientsThatAreGoneLeaveNothing) {
  RAW_RELIABLE_ONLY();
  Victim victim(target());
  constexpr uint8_t kEverywhere = 0x80;
  uint16_t port = 10;
  const auto come_and_go = [&](int clients, uint8_t features) {
    for (int i = 0; i < clients; ++i) {
      victim.connect(port++, 1, features);
      victim.watch.poke();
    }
  };
  for (const uint8_t features : {uint8_t{0}, kEverywhere}) {
    SCOPED_TRACE(features == 0 ? "at one address" : "at all interfaces");
    come_and_go(1100, features);  // peers are forgotten at 1024
    const size_t before = allocated_kib();
    come_and_go(kSanitized ? 50 : 1000, features);
    if (!kSanitized) {
      EXPECT_LE(allocated_kib(), before + 100);  // 100 bytes a client
    }
    expect_exchange(victim.bystanders);
  }
}

TEST_P(HostileMemory, ThePeersShareOfTheLogIsLimited) {
  RAW_RELIABLE_ONLY();
  const std::string log = testing::TempDir() + "weft_hostile_memory_" + std::to_string(getpid());
  int status = -1;
  child::output_of("refuse_requests",
                   {{"FI_LOG_LEVEL", "warn"}, {"FI_LOG_LOCATION", log}, {"FI_LOG_INTERVAL", "600000"}}, &status);
  EXPECT_EQ(status, 0);
  std::ifstream file(log);
  size_t lines = 0;
  for (std::string line; std::getline(file, line);) ++lines;
  EXPECT_GT(lines, 0u);
  EXPECT_LE(lines, 110u);
  std::remove(log.c_str());
}

TEST_P(HostileMemory, AFullPipeForTheLogStopsNoTransfers) {
  RAW_RELIABLE_ONLY();
  child::Running victim("refuse_requests", {{"FI_LOG_LEVEL", "warn"}, {"WEFT_CONFORMANCE_FULL_PIPE", "1"}});
  const auto deadline = after(std::chrono::minutes(1));
  while (!victim.ended() && Clock::now() < deadline) std::this_thread::sleep_for(milliseconds(5));
  EXPECT_EQ(victim.status(), 0);
}

// The system refuses what is beyond; those that are connected are served, and new ones once there is room again.
TEST_P(HostileMemory, ConnectionsEndAtTheLimitOfDescriptors) {
  RAW_RELIABLE_ONLY();
  constexpr size_t kAttackers = 100, kRoom = 20;
  Victim victim(target());
  expect_exchange(victim.bystanders);
  std::vector<raw::Socket> attackers;
  for (size_t i = 0; i < kAttackers; ++i) {
    attackers.push_back(raw::Socket::connected_to(victim.end->address()));
    ASSERT_TRUE(
        attackers.back().write(raw::cm_message(raw::kConnreq, raw::greeting(1, static_cast<uint16_t>(10 + i), 1))));
  }
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const int next = dup(attackers.back().fd());
  const rlimit low{static_cast<rlim_t>(next) + kRoom, limit.rlim_max};
  close(next);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  for (int i = 0; i < 100; ++i) victim.watch.poke();
  expect_exchange(victim.bystanders);
  const auto answered = [&] {
    return static_cast<size_t>(std::count_if(attackers.begin(), attackers.end(), [](const raw::Socket& each) {
      char byte;
      return ::recv(each.fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
    }));
  };
  EXPECT_LE(answered(), kRoom);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  for (const auto end = after(kPatience); answered() < kAttackers && Clock::now() < end;) victim.watch.poke();
  EXPECT_EQ(answered(), kAttackers);
  victim.watch.expect_bounded(16);
}

// ---- ofi_rxm ----

TEST_P(HostileMemory, AtomicPacketsWhoseAnswersNobodyReadsAreHeldBack) {
  INTRUDERS_ONLY();
  const Parameter separate("FI_OFI_RXM_USE_SRX", "0");
  Fabric fabric(target(), Victim::with_all(target()));
  Pair pair(fabric);
  expect_exchange(pair);
  Buffer region(fabric, 16'000, 'r', FI_REMOTE_READ);
  Intruder intruder(target(), Address::local_name(pair.b().fid()));
  ASSERT_TRUE(intruder.accepted());
  Watch watch;
  std::string fetch = packet_of(4, 7, 96, 96);
  fetch[56] = static_cast<char>(FI_UINT64);
  fetch[57] = static_cast<char>(FI_ATOMIC_READ);
  fetch[58] = 1;
  fetch.replace(64, 24, raw::word(region.remote_address()) + raw::word(2000) + raw::word(region.key()));
  intruder.pour(fetch, 100'000, [&] { watch.poke(); });
  watch.expect_bounded(128);
  expect_exchange(pair);
}

TEST_P(HostileMemory, AnsweredMessagesWhoseAnswersNobodyReadsAreHeldBack) {
  INTRUDERS_ONLY();
  const Parameter separate("FI_OFI_RXM_USE_SRX", "0");
  Fabric fabric(target(), Victim::with_all(target()));
  Pair pair(fabric);
  expect_exchange(pair);
  Buffer many(fabric, 1 << 20);
  Context receives;
  const iovec iov{many.data(), many.size()};
  void* desc = many.desc();
  const fi_msg message{&iov, &desc, 1, FI_ADDR_UNSPEC, &receives, 0};
  ASSERT_EQ(fi_recvmsg(pair.b().ep(), &message, FI_MULTI_RECV), 0);
  Intruder intruder(target(), Address::local_name(pair.b().fid()));
  ASSERT_TRUE(intruder.accepted());
  Watch watch;
  constexpr uint8_t kAnsweredEager = 66;
  intruder.pour(packet_of(kAnsweredEager, 0, 0, 0), 100'000, [&] {
    watch.poke();
    while (pair.b().rx().read().ok()) {
    }
  });
  watch.expect_bounded(128);
  EXPECT_EQ(fi_cancel(pair.b().fid(), &receives), 0);
  while (pair.b().rx().read().ok()) {
  }
  expect_tagged_message(pair);
}

// One call takes 256 completions of the lower provider at most, however many packets wait.
TEST_P(HostileMemory, PacketsOfOneCallAreLimited) {
  INTRUDERS_ONLY();
  if (target().provider.starts_with("verbs")) GTEST_SKIP() << "no more packets wait than receives are posted";
  constexpr size_t kPackets = 4000, kMostOfACall = 256;
  Fabric fabric(target());
  Pair pair(fabric);
  expect_exchange(pair);
  Intruder intruder(target(), Address::local_name(pair.b().fid()));
  ASSERT_TRUE(intruder.accepted());
  Buffer in(fabric, 8);
  Context context;
  size_t receives = 0, taken = 0, most = 0;
  fi_cq_tagged_entry entries[2 * kMostOfACall];
  const auto poke = [&] {  // the queue is empty before each call
    for (; receives < taken + 1024 && receives < kPackets; ++receives) ASSERT_EQ(pair.b().recv(in, 8, &context), 0);
    const ssize_t count = fi_cq_read(pair.b().rx().get(), entries, 2 * kMostOfACall);
    if (count == -FI_EAGAIN) return;
    ASSERT_GT(count, 0);
    most = std::max(most, static_cast<size_t>(count));
    taken += static_cast<size_t>(count);
  };
  unsigned round = 0;
  const size_t posted = intruder.pour(packet_of(0, 0, 8, 8), kPackets, [&] {
    if (++round % 64 == 0) poke();  // many packets wait
  });
  EXPECT_GT(most, 1u);
  EXPECT_LE(most, kMostOfACall);
  const auto limit = after(kPatience);
  while (taken < posted && Clock::now() < limit) {
    poke();
    driver::poke();  // several calls, from here on
  }
  EXPECT_EQ(taken, posted);
  expect_exchange(pair);
}

TEST_P(HostileMemory, AnnouncedAndEagerPacketsEndAtTheLimit) {
  INTRUDERS_ONLY();
  const Parameter limit("FI_OFI_RXM_UNEXPECTED_BYTES", "4000000"), separate("FI_OFI_RXM_USE_SRX", "0");
  for (const uint8_t type : {0, 2}) {
    Fabric fabric(target());
    Pair pair(fabric);
    expect_exchange(pair);
    Intruder intruder(target(), Address::local_name(pair.b().fid()));
    ASSERT_TRUE(intruder.accepted());
    Watch watch;
    const std::string packet = type == 0 ? packet_of(0, 1, 1000, 1000) : packet_of(2, 1, 0, 104);
    EXPECT_LT(intruder.pour(packet, 100'000, [&] { watch.poke(); }), 100'000u) << int(type);
    watch.expect_bounded(32);
    expect_exchange(pair);
  }
}

// Memory for the whole message is counted when its first ten bytes arrive.
TEST_P(HostileMemory, SegmentsOfTooManyMessagesEndTheConnection) {
  INTRUDERS_ONLY();
  for (const auto& [size, count] : {std::pair{20u, 65u}, std::pair{9u << 20, 2u}}) {
    Fabric fabric(target());
    Pair pair(fabric);
    expect_exchange(pair);
    Intruder intruder(target(), Address::local_name(pair.b().fid()));
    ASSERT_TRUE(intruder.accepted());
    Watch watch;
    for (unsigned i = 0; i < count; ++i) {
      intruder.say(first_segment_of(static_cast<uint8_t>(i + 1), size));
      watch.poke();
    }
    EXPECT_TRUE(intruder.cut_off()) << size;
    expect_exchange(pair);
    watch.expect_bounded(16);
  }
}

// ---- Datagrams ----

// A flood finds no receive: what is stored has a limit, the rest is lost, and the receives that follow find the oldest.
TEST_P(HostileMemory, DatagramsWithoutAReceiveEndAtALimit) {
  DATAGRAMS_ONLY();
  constexpr size_t kFlood = kSanitized ? 20'000 : 100'000, kLength = 1000, kMostStored = 8192;
  Fabric fabric(target());
  Pair bystanders(fabric), pair(fabric);
  Node &attacker = pair.a(), &victim = pair.b();
  expect_exchange(bystanders);
  Buffer flood(fabric, kLength, 'x'), last(fabric, kLength, 'y'), in(fabric, kLength);
  Context sent, received;
  const auto send = [&](Buffer& what) {
    ASSERT_EQ(retry([&] { return attacker.send(what, kLength, &sent); }), 0);
    ASSERT_TRUE(attacker.tx().wait().ok());
  };
  Watch watch;
  for (size_t i = 0; i < kFlood && !HasFailure(); ++i) {
    send(flood);
    if (i % 16 == 0) watch.poke();
    if (i % 8192 == 0) expect_exchange(bystanders);
  }
  watch.expect_bounded(16);
  size_t stored = 0;
  for (; stored <= kMostStored && !HasFailure(); ++stored) {
    ASSERT_EQ(victim.recv(in, kLength, &received), 0);
    send(last);  // lost while the flood fills the queue
    ASSERT_TRUE(victim.rx().wait().ok());
    if (*in.data() == 'y') break;
  }
  EXPECT_LE(stored, kMostStored);
  expect_exchange(bystanders);
}

// Looking an endpoint up leaves nothing there.
TEST_P(HostileMemory, LookupsOfDatagramEndpointsLeaveNothing) {
  DATAGRAMS_ONLY();
  constexpr int kLookups = kSanitized ? 500 : 3000;
  Fabric fabric(target());
  Pair bystanders(fabric);
  DatagramEnd victim(fabric), attacker(fabric);
  const size_t descriptors = open_descriptors();
  Watch watch;
  for (int i = 0; i < kLookups; ++i) {
    fi_addr_t found = attacker.insert(victim.address());
    ASSERT_EQ(fi_av_remove(attacker.av(), &found, 1, 0), 0);
    watch.poke();
  }
  watch.expect_bounded(8);
  EXPECT_EQ(open_descriptors(), descriptors);
  expect_exchange(bystanders);
}

// The private data of the last lookups is kept.
TEST_P(HostileMemory, DataOfLookupsEndsAtALimit) {
  if (target().provider != "verbs" || target().ep_type != FI_EP_DGRAM) GTEST_SKIP() << "attacks lookups of verbs";
  constexpr int kLookups = 200, kKept = 64;
  Fabric fabric(target());
  DatagramEnd victim(fabric), attacker(fabric);
  for (int i = 0; i < kLookups; ++i) {
    char data[FI_WEFT_LOOKUP_DATA_SIZE];
    std::memset(data, i + 1, sizeof data);
    iovec value{data, sizeof data};
    ASSERT_EQ(fi_set_val(&attacker.av()->fid, FI_VAL_WEFT_LOOKUP_DATA, &value), 0);
    attacker.insert(victim.address());
  }
  fi_weft_lookup_data lookup;
  size_t size = sizeof lookup;
  const auto take = [&] { return fi_getopt(victim->fid(), FI_OPT_ENDPOINT, FI_OPT_WEFT_LOOKUP_DATA, &lookup, &size); };
  for (int i = kLookups - kKept; i < kLookups; ++i) {
    ASSERT_EQ(take(), 0) << i;
    EXPECT_EQ(lookup.data[0], i + 1);
  }
  EXPECT_EQ(take(), -FI_EAGAIN);
}

}  // namespace hostile_memory
