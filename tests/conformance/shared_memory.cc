// SPDX-License-Identifier: BSD-2-Clause
// Messages between processes of one host go through memory that they share; fi_tcp(7). Long ones are read out of the
// sender's memory with process_vm_readv(2): this binary interposes that call, so a test can observe it and let it fail.
// Peers over a device do the same: ofi_rxm redirects their connections; fi_rxm(7).
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <memory>
#include <thread>

#include "fixture/child.h"
#include "fixture/driver.h"
#include "fixture/member.h"
#include "fixture/mortal.h"
#include "fixture/raw_client.h"

namespace shared_memory {

CONFORMANCE_TOPIC(SharedMemory);

namespace {

enum class Reads { kWork, kRefused, kCut, kOfAnotherProcess };
std::atomic<Reads> reads{Reads::kWork};
std::atomic<int> working{0};  // calls that succeed before `reads` applies
std::atomic<int> calls{0};
std::atomic<int> memories{0};  // created
std::atomic<int> slow{0};      // number of next calls that take long

}  // namespace

// The library's calls resolve to this function.
extern "C" __attribute__((visibility("default"))) ssize_t process_vm_readv(pid_t process, const iovec* to,
                                                                           unsigned long to_count, const iovec* from,
                                                                           unsigned long from_count,
                                                                           unsigned long flags) noexcept {
  ++calls;
  mortal::step();
  if (slow > 0) {
    --slow;
    std::this_thread::sleep_for(milliseconds(50));
  }
  const Reads now = working-- > 0 ? Reads::kWork : reads.load();
  if (now == Reads::kRefused) {
    errno = EPERM;
    return -1;
  }
  if (now == Reads::kCut) --from_count;
  const ssize_t got = ::syscall(SYS_process_vm_readv, process, to, to_count, from, from_count, flags);
  // Fails as if the other process held other bytes there.
  if (now == Reads::kOfAnotherProcess)
    for (unsigned long i = 0; i < to_count; ++i) std::memset(to[i].iov_base, '!', to[i].iov_len);
  return got;
}

extern "C" __attribute__((visibility("default"))) int memfd_create(const char* name, unsigned flags) noexcept {
  ++memories;
  return static_cast<int>(::syscall(SYS_memfd_create, name, flags));
}

namespace {

bool is_redirected(const Target& target) {
  const char* const shares = std::getenv("FI_TCP_SHARED_MEMORY");
  return target.provider == "verbs;ofi_rxm" && (shares == nullptr || std::strcmp(shares, "0") != 0);
}

#define SHARED_MEMORY_ONLY()                                                                      \
  if (!(target().provider.starts_with("tcp") || is_redirected(target())) || target().connected()) \
  GTEST_SKIP() << "RDM over tcp, or redirected to it, only"

#define REDIRECTED_ONLY() \
  FETCHES_ONLY();         \
  if (!is_redirected(target())) GTEST_SKIP() << "RDM over a device only"

// An emulator of another processor may lack the system call.
#define FETCHES_ONLY()                                                                   \
  SHARED_MEMORY_ONLY();                                                                  \
  if (::syscall(SYS_process_vm_readv, ::getpid(), nullptr, 0UL, nullptr, 0UL, 0UL) != 0) \
  GTEST_SKIP() << "without process_vm_readv"

constexpr size_t kLongest = size_t{4} << 20;
constexpr std::chrono::seconds kLong{60};
constexpr size_t kWakeUps = 16;  // bytes; a ring without news for 50 ms needs one

class Disturbed {
 public:
  explicit Disturbed(Reads how, int after = 0) {
    calls = 0;
    working = after;
    reads = how;
  }
  ~Disturbed() {
    reads = Reads::kWork;
    slow = 0;
  }
};

// Cuts `length` bytes of `buffer` into four pieces, none as long as its neighbours.
std::vector<iovec> pieces_of(Buffer& buffer, size_t length, size_t first) {
  const size_t lengths[] = {first, length / 2, length / 8, length - first - length / 2 - length / 8};
  std::vector<iovec> pieces;
  size_t offset = 0;
  for (size_t len : lengths) {
    pieces.push_back({buffer.data() + offset, len});
    offset += len;
  }
  return pieces;
}

void expect_pieces(Pair& pair, size_t length, size_t room, bool expected) {
  Buffer out(pair.a().fabric(), length), in(pair.b().fabric(), length);
  const auto seed = static_cast<unsigned>(length + room);
  out.fill_pattern(seed);
  std::memset(in.data(), '#', in.size());
  const auto from = pieces_of(out, length, 1), to = pieces_of(in, room, room / 16);
  Context sent, received;
  const auto post = [&] { ASSERT_EQ(fi_recvv(pair.b().ep(), to.data(), nullptr, 4, FI_ADDR_UNSPEC, &received), 0); };
  if (expected) post();
  ASSERT_EQ(retry([&] { return fi_sendv(pair.a().ep(), from.data(), nullptr, 4, pair.a().peer, &sent); }), 0);
  if (!expected) {
    for (int i = 0; i < 20; ++i) driver::poke();
    post();
  }
  const Completion arrival = pair.b().rx().wait(after(kLong));
  EXPECT_EQ(arrival.context(), &received);
  EXPECT_TRUE(in.holds_pattern(seed, room)) << length << " to " << room;
  EXPECT_TRUE(std::all_of(in.data() + room, in.data() + length, [](auto byte) { return byte == decltype(byte){'#'}; }));
  if (room < length)
    EXPECT_EQ(arrival.err(), FI_ETRUNC) << arrival;
  else
    EXPECT_TRUE(arrival.ok()) << arrival;
  EXPECT_TRUE(pair.a().tx().wait(after(kLong)).ok());
}

// The ends share memory after a few messages: then messages take no system call.
void warm_up(Pair& pair) {
  const auto deadline = after(kLong);
  for (int quiet = 0; quiet < 20 && Clock::now() < deadline;) {
    const auto before = mortal::sends();
    expect_exchange(pair);
    for (int round = 0; round < 64; ++round) driver::poke();
    quiet = mortal::sends() == before ? quiet + 1 : 0;
  }
}

void expect_all_kinds(Pair& pair) {
  for (const bool expected : {true, false})
    for (const size_t length : {16385u, 65536u, (2u << 20) - 1})
      for (const size_t room : {length, length - 1, length / 2}) expect_pieces(pair, length, room, expected);
}

// Sends messages of many lengths to the child, which returns them.
void expect_echoes(const Fabric& fabric, DatagramEnd& end) {
  Buffer out(fabric, kLongest), in(fabric, kLongest);
  for (const size_t length : {64ul, 16384ul, 16385ul, 65536ul, 1ul << 20, kLongest}) {
    const auto seed = static_cast<unsigned>(length);
    out.fill_pattern(seed);
    std::memset(in.data(), '#', length);
    Context sent, received;
    ASSERT_EQ(end->trecv(in, length, 3, 0, &received), 0);
    ASSERT_EQ(end->tsend(out, length, 2, &sent), 0);
    ASSERT_TRUE(end->tx().wait(after(kLong)).ok());
    const Completion arrival = end->rx().wait(after(kLong));
    ASSERT_TRUE(arrival.ok()) << arrival << " length " << length;
    ASSERT_EQ(arrival.entry.len, length);
    EXPECT_TRUE(in.holds_pattern(seed, length)) << length;
  }
}

std::string name_for_child(const Target& target, DatagramEnd& end) {
  return target.address + " " + std::to_string(end.address().port());
}

}  // namespace

TEST_P(SharedMemory, VectorsAndTruncatedMessagesArriveCorrectly) {
  FETCHES_ONLY();
  Fabric fabric(target());
  Pair pair(fabric);
  warm_up(pair);
  const Disturbed none(Reads::kWork);
  expect_all_kinds(pair);
  EXPECT_GE(calls, 12);  // all but short pieces
}

TEST_P(SharedMemory, UnreadableMessagesAreCopiedThroughIt) {
  FETCHES_ONLY();
  for (const Reads how : {Reads::kRefused, Reads::kCut, Reads::kOfAnotherProcess})
    for (const int after : {0, 2}) {
      Fabric fabric(target());
      Pair pair(fabric);
      warm_up(pair);
      const auto before = mortal::sent_bytes();
      const Disturbed reading(how, after);
      expect_pieces(pair, 3u << 20, 3u << 20, true);
      EXPECT_EQ(calls, after + 1);  // and is not tried again
      expect_pieces(pair, 65536, 65536, false);
      EXPECT_EQ(calls, after + 1);
      if (before) {
        EXPECT_LE(*mortal::sent_bytes(), *before + kWakeUps);
      }
    }
}

TEST_P(SharedMemory, AnotherProcessIsReadInOneCopy) {
  FETCHES_ONLY();
  Fabric fabric(target());
  DatagramEnd end(fabric);
  child::Running peer("echo", {{"WEFT_CONFORMANCE_PEER", name_for_child(target(), end)}});
  end.meet_child();
  for (int i = 0; i < 4; ++i) expect_echoes(fabric, end);
  const Disturbed none(Reads::kWork);
  expect_echoes(fabric, end);
  EXPECT_GE(calls, 2 + 4);  // one for each MiB
}

// The datagrams of many peers are in the mailbox at once; it often has room for ten only.
TEST_P(SharedMemory, PeersThatGiveMemoryAtOnceAllShareIt) {
  SHARED_MEMORY_ONLY();
  constexpr size_t kPeers = 40;
  Fabric fabric(target());
  DatagramEnd hub(fabric);
  std::vector<std::unique_ptr<Fabric>> fabrics;
  std::vector<std::unique_ptr<DatagramEnd>> peers;
  for (size_t i = 0; i < kPeers; ++i) {
    fabrics.push_back(std::make_unique<Fabric>(target()));
    DatagramEnd& peer = *peers.emplace_back(std::make_unique<DatagramEnd>(*fabrics.back()));
    peer->peer = peer.insert(hub.address());
  }
  if (!mortal::sends()) GTEST_SKIP() << "system calls are not counted here";
  const auto limit = after(kPatience);
  int quiet = 0;  // rounds whose messages took no system call, one after the other
  while (quiet < 20 && Clock::now() < limit) {
    const auto before = mortal::sends();
    std::vector<Context> sent(kPeers), received(kPeers);
    std::deque<Buffer> buffers;
    for (size_t i = 0; i < kPeers; ++i) {
      ASSERT_EQ(hub->trecv(buffers.emplace_back(fabric, 64), 64, 1, 0, &received[i]), 0);
      ASSERT_EQ((*peers[i])->tsend(buffers.emplace_back(*fabrics[i], 64), 64, 1, &sent[i]), 0);
    }
    for (size_t i = 0; i < kPeers; ++i) ASSERT_TRUE(hub->rx().wait(limit).ok());
    for (auto& peer : peers) ASSERT_TRUE((*peer)->tx().wait(limit).ok());
    quiet = mortal::sends() == before ? quiet + 1 : 0;
  }
  EXPECT_EQ(quiet, 20);
}

// A peer may propose again and again to share memory, and need not be a process of this user, or of this host.
TEST_P(SharedMemory, ItIsNotCreatedForAPeerThatDoesNotProveItsUser) {
  if (target().provider != "tcp" || target().connected()) GTEST_SKIP() << "attacks tcp's own reliable datagrams";
  constexpr uint8_t kMailbox = 69;
  constexpr uint16_t kHasData = 1;
  Fabric fabric(target());
  DatagramEnd end(fabric);
  raw::Socket peer = raw::Socket::connected_to(end.address());
  std::string request = raw::cm_message(raw::kConnreq, raw::greeting(1, 9, 1));
  request.replace(8, 8, std::string_view("weft\0\0\0\2", 8));
  ASSERT_TRUE(peer.write(request));
  ASSERT_EQ(peer.read(raw::kCmHeader + raw::kGreeting).size(), raw::kCmHeader + raw::kGreeting);
  const std::string proposal =
      raw::data_header(kMailbox, 32, 32, kHasData) + raw::word(7) + raw::word(0x31'3131'3131'00);
  std::string many;
  for (int i = 0; i < 1000; ++i) many += proposal;
  memories = 0;
  ASSERT_TRUE(peer.write(many));
  // All proposals have been read when the acknowledgement of a message behind them arrives.
  constexpr uint16_t kWantsAck = 4;
  Buffer in(fabric, 64);
  Context received;
  ASSERT_EQ(end->recv(in, 64, &received), 0);
  ASSERT_TRUE(peer.write(raw::data_header(raw::kMsg, 20, 16, kWantsAck) + "text"));
  ASSERT_EQ(peer.read(raw::kDataHeader).size(), raw::kDataHeader);
  EXPECT_EQ(memories, 0);
}

TEST_P(SharedMemory, IsOffWhereOneEndDisablesIt) {
  SHARED_MEMORY_ONLY();
  for (const bool by_option : {false, true}) {
    Fabric fabric(target());
    NodeOptions options;
    options.configure = [&](fid_ep* ep) {
      const bool permitted = !by_option;
      require_ok(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_SHARED_MEMORY_PERMITTED, &permitted, sizeof permitted),
                 "fi_setopt");
      bool found = by_option;
      size_t size = sizeof found;
      require_ok(fi_getopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_SHARED_MEMORY_PERMITTED, &found, &size), "fi_getopt");
      require(found == permitted, "the option");
    };
    DatagramEnd end(fabric, options);
    child::Running peer("echo", {{"WEFT_CONFORMANCE_PEER", name_for_child(target(), end)},
                                 {"FI_TCP_SHARED_MEMORY", by_option ? "1" : "0"}});
    end.meet_child();
    const Disturbed none(Reads::kWork);
    for (int i = 0; i < 4; ++i) expect_echoes(fabric, end);
    EXPECT_EQ(calls, 0);
  }
}

// Other peers and the application's own calls proceed while a long message is copied.
TEST_P(SharedMemory, ALongMessageNeedsNoProgressOfItsSender) {
  FETCHES_ONLY();
  Fabric sends(target()), receives(target());
  DatagramEnd sender(sends), receiver(receives);
  sender->peer = sender.insert(receiver.address());
  receiver->peer = receiver.insert(sender.address());
  const size_t length = 65536;
  Buffer out(sends, length), in(receives, length);
  out.fill_pattern(1);
  for (int i = 0; i < 20; ++i) {
    expect_round_trip(*sender, *receiver);
    for (int round = 0; round < 64; ++round) driver::poke();
  }
  // A receive that is posted before the message arrives, and one that is posted behind it.
  for (const bool expected : {true, false}) {
    std::memset(in.data(), '#', length);
    const auto sent = std::make_unique<Context>(), received = std::make_unique<Context>();
    if (expected) ASSERT_EQ(receiver->recv(in, length, received.get()), 0);
    ASSERT_EQ(sender->send(out, length, sent.get()), 0);
    fi_cq_read(receiver->rx().get(), nullptr, 0);
    if (!expected) ASSERT_EQ(receiver->recv(in, length, received.get()), 0);
    Completion arrival;
    const auto deadline = after(kLong);
    do arrival = receiver->rx().read();
    while (arrival.rc == -FI_EAGAIN && Clock::now() < deadline);
    ASSERT_TRUE(arrival.ok()) << arrival;
    EXPECT_TRUE(in.holds_pattern(1, length));
    EXPECT_TRUE(sender->tx().wait(after(kLong)).ok());
  }
}

TEST_P(SharedMemory, ShortMessageOvertakesTheCopyOfALongOne) {
  FETCHES_ONLY();
  Fabric fabric(target());
  DatagramEnd hub(fabric), busy(fabric), quick(fabric);
  const fi_addr_t address_of_hub = busy.insert(hub.address());
  busy->peer = address_of_hub;
  quick->peer = quick.insert(hub.address());
  const size_t length = size_t{64} << 20;
  if (fabric.length_up_to(length) < length) GTEST_SKIP() << "the device limits messages to fewer bytes";
  Buffer out(fabric, length), in(fabric, length), small(fabric, 64), word(fabric, 64);
  Context sent[3], received[3];
  // Both are connected before the measurement.
  ASSERT_EQ(hub->trecv(word, 64, 7, 0, &received[2]), 0);
  ASSERT_EQ(quick->tsend(small, 64, 7, &sent[2]), 0);
  ASSERT_TRUE(hub->rx().wait().ok());
  ASSERT_TRUE(quick->tx().wait().ok());
  ASSERT_EQ(hub->trecv(in, length, 1, 0, &received[0]), 0);
  ASSERT_EQ(hub->trecv(word, 64, 2, 0, &received[1]), 0);
  for (int i = 0; i < 20; ++i) {
    for (int round = 0; round < 64; ++round) driver::poke();
    Context here, there;
    ASSERT_EQ(hub->trecv(word, 64, 8, 0, &there), 0);
    ASSERT_EQ(busy->tsend(small, 64, 8, &here), 0);
    ASSERT_TRUE(hub->rx().wait().ok());
    ASSERT_TRUE(busy->tx().wait().ok());
  }
  const Disturbed none(Reads::kWork);
  ASSERT_EQ(busy->tsend(out, length, 1, &sent[0]), 0);
  const auto deadline = after(kLong);
  while (calls == 0 && Clock::now() < deadline) driver::poke();
  ASSERT_GT(calls, 0);
  slow = 4;  // gives the system time to deliver the messages
  ASSERT_EQ(quick->tsend(small, 64, 2, &sent[1]), 0);
  const Completion first = hub->rx().wait(after(kLong));
  ASSERT_TRUE(first.ok()) << first;
  EXPECT_EQ(first.context(), &received[1]);
  const Completion second = hub->rx().wait(after(kLong));
  ASSERT_TRUE(second.ok()) << second;
  EXPECT_EQ(second.context(), &received[0]);
  EXPECT_TRUE(busy->tx().wait(after(kLong)).ok());
  EXPECT_TRUE(quick->tx().wait(after(kLong)).ok());
}

namespace {

// Whether a long message is read out of the sender's memory, after enough short ones.
bool is_shared(DatagramEnd& from, DatagramEnd& to) {
  for (int i = 0; i < 20; ++i) {
    expect_round_trip(*from, *to);
    for (int round = 0; round < 64; ++round) driver::poke();
  }
  const Disturbed none(Reads::kWork);
  expect_round_trip(*from, *to, size_t{1} << 20);
  return calls > 0;
}

void introduce(DatagramEnd& a, DatagramEnd& b) {
  a->peer = a.insert(b.address());
  b->peer = b.insert(a.address());
}

// Ends without a connection send to each other at the same time, `first` before the other one.
void cross(const Fabric& fabric, DatagramEnd& first, DatagramEnd& second) {
  Buffer out(fabric, 64), in(fabric, 64);
  Context sent[2], received[2];
  DatagramEnd* const ends[] = {&first, &second};
  for (int i = 0; i < 2; ++i) ASSERT_EQ((*ends[i])->recv(in, 64, &received[i]), 0);
  for (int i = 0; i < 2; ++i) ASSERT_EQ((*ends[i])->send(out, 64, &sent[i]), 0);
  for (DatagramEnd* end : ends) {
    ASSERT_TRUE((*end)->rx().wait().ok());
    ASSERT_TRUE((*end)->tx().wait().ok());
  }
}

}  // namespace

TEST_P(SharedMemory, RedirectsRequestsThatCross) {
  REDIRECTED_ONLY();
  Fabric fabric(target());
  for (int round = 0; round < 10; ++round) {
    DatagramEnd first(fabric), second(fabric);
    introduce(first, second);
    ASSERT_NO_FATAL_FAILURE(round % 2 == 0 ? cross(fabric, first, second) : cross(fabric, second, first));
    EXPECT_TRUE(is_shared(first, second));
    EXPECT_TRUE(is_shared(second, first));
  }
}

TEST_P(SharedMemory, IsNotUsedOverADeviceWhereOneEndForbidsIt) {
  REDIRECTED_ONLY();
  NodeOptions forbids;
  forbids.configure = [](fid_ep* ep) {
    const bool permitted = false;
    require_ok(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_SHARED_MEMORY_PERMITTED, &permitted, sizeof permitted),
               "fi_setopt");
  };
  Fabric fabric(target());
  DatagramEnd permits(fabric), other(fabric, forbids), third(fabric);
  introduce(permits, other);
  EXPECT_FALSE(is_shared(permits, other));
  introduce(other, third);
  EXPECT_FALSE(is_shared(other, third));
  introduce(permits, third);
  EXPECT_TRUE(is_shared(permits, third));
}

TEST_P(SharedMemory, PeersWhoseConnectionFailsUseTheDevice) {
  REDIRECTED_ONLY();
  if (!mortal::sends()) GTEST_SKIP() << "system calls are not seen here";
  Fabric fabric(target());
  DatagramEnd first(fabric), second(fabric), third(fabric);
  introduce(first, second);
  mortal::refuse_connections(1);
  expect_round_trip(*first, *second);
  EXPECT_EQ(mortal::refuse_connections(0), 0);
  EXPECT_FALSE(is_shared(first, second));
  introduce(first, third);
  EXPECT_TRUE(is_shared(first, third));
  // One or both of the requests that cross fail.
  for (const int failures : {1, 2})
    for (int round = 0; round < 10; ++round) {
      DatagramEnd left(fabric), right(fabric);
      introduce(left, right);
      mortal::refuse_connections(failures);
      ASSERT_NO_FATAL_FAILURE(round % 2 == 0 ? cross(fabric, left, right) : cross(fabric, right, left));
      mortal::refuse_connections(0);
      EXPECT_TRUE(left->tx().stays_silent(milliseconds(1)));
    }
}

TEST_P(SharedMemory, AnUninvitedRequestOverADeviceIsRejected) {
  REDIRECTED_ONLY();
  if (!mortal::sends()) GTEST_SKIP() << "system calls are not seen here";
  Fabric fabric(target());
  DatagramEnd first(fabric), second(fabric);
  introduce(first, second);
  expect_round_trip(*first, *second);
  const uint16_t listener = mortal::last_port();
  // In the name of the first end, by a process that seems to have replaced it.
  std::string request("\1\2\4\3", 4);
  const uint16_t port = first.address().port();
  const uint32_t limits[] = {16384, 8};
  request.append(reinterpret_cast<const char*>(&port), 2).append("\2\0", 2);
  request.append(reinterpret_cast<const char*>(limits), 8) += raw::word(uint64_t{1} << 32 | 1);
  for (const std::string& token : {std::string(), raw::word(0), raw::word(0x1234'5678'9abc'def0)}) {
    raw::Socket stranger = raw::Socket::connected_to(Address::numeric("127.0.0.1", listener));
    ASSERT_TRUE(stranger.write(raw::cm_message(raw::kConnreq, request + token)));
    const std::string answer = stranger.read(raw::kCmHeader);
    ASSERT_EQ(answer.size(), raw::kCmHeader);
    EXPECT_EQ(answer[1], raw::kNack);
    EXPECT_TRUE(is_shared(first, second));
  }
}

}  // namespace shared_memory
