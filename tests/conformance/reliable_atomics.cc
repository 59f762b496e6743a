// SPDX-License-Identifier: BSD-2-Clause
// Atomic operations on tcp's own reliable datagrams, byte by byte: their announcement, the form of a request and its
// answer, peers that have none, that break the rules, or that close; fi_atomic(3). Peers are bare sockets.
#include <rdma/fi_atomic.h>

#include "fixture/driver.h"
#include "fixture/member.h"
#include "fixture/raw_client.h"

namespace reliable_atomics {

CONFORMANCE_TOPIC(ReliableAtomics);

#define RELIABLE_TCP_ONLY() \
  if (!speaks_tcp() || target().ep_type != FI_EP_RDM) GTEST_SKIP() << "the wire of tcp's own reliable datagrams"

namespace {

using raw::RawClient, raw::greeting, raw::word;

constexpr uint8_t kAtomic = 65, kAnswer = 66;
enum Kind : uint64_t { kUpdate, kFetch, kCompare };
const HintsEditor kWithAtomics = [](fi_info& hints) { hints.caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC; };

uint64_t words(uint64_t kind, uint64_t datatype, uint64_t operation) {
  return kind | datatype << 8 | operation << 16;
}

struct Range {
  uint64_t address, count, key;
};

// A request: `said` are its words, `arrays` the bytes behind the header.
std::string request(uint64_t said, const std::vector<Range>& ranges, const std::string& arrays, uint16_t flags = 0) {
  const size_t header = 24 + 24 * ranges.size();
  std::string bytes = raw::data_header(kAtomic, header + arrays.size(), static_cast<uint8_t>(header), flags,
                                       static_cast<uint8_t>(ranges.size()));
  bytes += word(said);
  for (const Range& range : ranges) bytes += word(range.address) + word(range.count) + word(range.key);
  return bytes + arrays;
}
std::string answer(uint64_t status, const std::string& fetched = {}) {
  return raw::data_header(kAnswer, 24 + fetched.size(), 24) + word(status) + fetched;
}
// Without the counter of each message.
std::string uncounted(std::string bytes) {
  if (bytes.size() > 7) bytes[7] = '\0';
  return bytes;
}

// An end of weft with memory that peers may update, connected to a bare socket.
struct Scene {
  explicit Scene(const Target& target, uint64_t access = FI_REMOTE_READ | FI_REMOTE_WRITE)
      : fabric(target, kWithAtomics), end(fabric), name(end.address()), memory(fabric, 64, 0, access) {}

  uint64_t& value(size_t index = 0) { return reinterpret_cast<uint64_t*>(memory.data())[index]; }
  Range range(uint64_t count = 1, uint64_t offset = 0) {
    return {memory.remote_address() + offset, count, memory.key()};
  }
  ssize_t fetch(uint64_t* operand, uint64_t* result, Context* context) {
    return fi_fetch_atomic(end->ep(), operand, 1, nullptr, result, nullptr, end->peer, 16, 5, FI_UINT64, FI_SUM,
                           context);
  }

  Fabric fabric;
  DatagramEnd end;
  const Address name;
  Buffer memory;
};

// A socket whose end announces atomic operations.
RawClient partner(Scene& scene, uint16_t port = 9) {
  RawClient peer(scene.name, 1, port, 1, raw::kClientHasAtomics);
  require(peer.accepted, "accepted");
  scene.end->peer = scene.end.insert(Address::numeric(scene.fabric.target().address, port));
  return peer;
}

}  // namespace

TEST_P(ReliableAtomics, BothEndsAnnounceThem) {
  RELIABLE_TCP_ONLY();
  Scene scene(target());
  uint16_t port = 20;
  for (const auto& [version, features, answered] :
       {std::tuple{1, raw::kClientHasAtomics, raw::kAnswererHasAtomics}, std::tuple{1, uint8_t{0}, uint8_t{0}},
        std::tuple{1, raw::kAnswererHasAtomics, uint8_t{0}}, std::tuple{0, raw::kClientHasAtomics, uint8_t{0}}}) {
    const RawClient peer(scene.name, static_cast<uint8_t>(version), port++, 1, features);
    ASSERT_TRUE(peer.accepted);
    EXPECT_EQ(static_cast<uint8_t>(peer.answer[1]), answered) << version << " " << int{features};
  }
}

TEST_P(ReliableAtomics, RequestsAreCarriedOutAndAnsweredInOrder) {
  RELIABLE_TCP_ONLY();
  Scene scene(target());
  RawClient peer = partner(scene);
  scene.value(0) = 40, scene.value(1) = 7;
  const uint64_t sum = words(kFetch, FI_UINT64, FI_SUM), swap = words(kCompare, FI_UINT64, FI_CSWAP);
  const uint64_t read = words(kFetch, FI_UINT64, FI_ATOMIC_READ), set = words(kUpdate, FI_UINT64, FI_ATOMIC_WRITE);
  ASSERT_TRUE(peer.socket.write(
      request(sum, {scene.range()}, word(2)) + request(swap, {scene.range(2)}, word(1) + word(2) + word(42) + word(8)) +
      request(set, {scene.range(1, 16), scene.range(1, 8)}, word(5) + word(6)) + request(read, {scene.range(3)}, "")));
  EXPECT_EQ(uncounted(peer.socket.read(32)), answer(0, word(40)));
  EXPECT_EQ(uncounted(peer.socket.read(40)), answer(0, word(42) + word(7)));
  EXPECT_EQ(uncounted(peer.socket.read(24)), answer(0));
  EXPECT_EQ(uncounted(peer.socket.read(48)), answer(0, word(1) + word(6) + word(5)));
}

TEST_P(ReliableAtomics, RequestsTravelAndTheAnswerCompletesThem) {
  RELIABLE_TCP_ONLY();
  Scene scene(target());
  RawClient peer = partner(scene);
  uint64_t operand = 3, fetched = 0;
  Context context;
  ASSERT_EQ(scene.fetch(&operand, &fetched, &context), 0);
  operand = 0;  // the operand was copied
  EXPECT_EQ(uncounted(peer.socket.read(56)), request(words(kFetch, FI_UINT64, FI_SUM), {{16, 1, 5}}, word(3)));
  EXPECT_TRUE(scene.end->tx().stays_silent(milliseconds(20)));
  ASSERT_TRUE(peer.socket.write(answer(0, word(77))));
  const Completion done = scene.end->tx().wait();
  ASSERT_TRUE(done.ok()) << done;
  EXPECT_EQ(done.context(), &context);
  EXPECT_EQ(done.entry.flags & (FI_ATOMIC | FI_READ), FI_ATOMIC | FI_READ);
  EXPECT_EQ(fetched, 77u);
}

TEST_P(ReliableAtomics, RefusedOperationFailsAndTheConnectionContinues) {
  RELIABLE_TCP_ONLY();
  Scene scene(target());
  RawClient peer = partner(scene);
  uint64_t operand = 3, fetched = 9;
  Context refused, carried_out;
  ASSERT_EQ(scene.fetch(&operand, &fetched, &refused), 0);
  ASSERT_EQ(scene.fetch(&operand, &fetched, &carried_out), 0);
  ASSERT_EQ(peer.socket.read(2 * 56).size(), 2 * 56u);
  ASSERT_TRUE(peer.socket.write(answer(FI_EACCES) + answer(0, word(1))));
  const Completion failed = scene.end->tx().wait();
  EXPECT_EQ(failed.err(), FI_EACCES) << failed;
  EXPECT_EQ(failed.error.prov_errno, FI_EACCES);
  EXPECT_EQ(failed.context(), &refused);
  const Completion done = scene.end->tx().wait();
  EXPECT_TRUE(done.ok()) << done;
  EXPECT_EQ(fetched, 1u);
}

namespace {

void expect_no_atomics_there(Scene& scene, Context* context) {
  const Completion failed = scene.end->tx().wait();
  EXPECT_EQ(failed.err(), FI_EOPNOTSUPP) << failed;
  EXPECT_EQ(failed.context(), context);
  char text[256] = "";
  fi_cq_strerror(scene.end->tx().get(), failed.error.prov_errno, nullptr, text, sizeof text);
  EXPECT_NE(std::string(text).find("atomic"), std::string::npos) << text;
  EXPECT_TRUE(scene.end->tx().stays_silent(milliseconds(5))) << "once";
}

}  // namespace

TEST_P(ReliableAtomics, PeersWithoutThemReceiveNone) {
  RELIABLE_TCP_ONLY();
  Scene scene(target());
  Buffer out(scene.fabric, 64);
  uint16_t port = 30;
  for (const uint8_t version : {0, 1}) {
    RawClient peer(scene.name, version, port, 1, version == 0 ? raw::kClientHasAtomics : uint8_t{0});
    ASSERT_TRUE(peer.accepted);
    scene.end->peer = scene.end.insert(Address::numeric(target().address, port++));
    uint64_t operand = 3, fetched = 9;
    Context context, sent;
    ASSERT_EQ(scene.fetch(&operand, &fetched, &context), 0);
    expect_no_atomics_there(scene, &context);
    EXPECT_EQ(fetched, 9u);
    ASSERT_EQ(fi_inject_atomic(scene.end->ep(), &operand, 1, scene.end->peer, 16, 5, FI_UINT64, FI_SUM), 0);
    expect_no_atomics_there(scene, nullptr);
    // No other message arrives, and the connection serves valid requests.
    ASSERT_EQ(scene.end->tsend(out, 64, 5, &sent), 0);
    EXPECT_EQ(uncounted(peer.socket.read(24)), raw::data_header(raw::kTagged, 24 + 64, 24) + word(5));
    EXPECT_TRUE(scene.end->tx().wait().ok());
  }
}

TEST_P(ReliableAtomics, WaitingOperationsFailWhenThePeerLacksThem) {
  RELIABLE_TCP_ONLY();
  for (const bool echoes : {true, false}) {  // release 1.17 answers with the bytes of the request
    Scene scene(target());
    raw::Socket listener = raw::Socket::listening(target().address);
    scene.end->peer = scene.end.insert(listener.address());
    uint64_t operand = 3, fetched = 9;
    Context context;
    ASSERT_EQ(scene.fetch(&operand, &fetched, &context), 0);
    raw::Socket asked = listener.accept();
    const std::string request = asked.read(raw::kCmHeader + raw::kGreeting);
    ASSERT_EQ(request.size(), raw::kCmHeader + raw::kGreeting);
    EXPECT_EQ(static_cast<uint8_t>(request[raw::kCmHeader + 1]), raw::kClientHasAtomics | raw::kClientHasNumbers);
    const std::string said = echoes ? request.substr(raw::kCmHeader) : greeting(0x81, 9, 77);
    ASSERT_TRUE(asked.write(raw::cm_message(raw::kConnresp, said)));
    expect_no_atomics_there(scene, &context);
  }
}

TEST_P(ReliableAtomics, ForbiddenMemoryIsNotTouched) {
  RELIABLE_TCP_ONLY();
  Scene scene(target(), FI_REMOTE_READ);
  RawClient peer = partner(scene);
  scene.value() = 5;
  const uint64_t sum = words(kUpdate, FI_UINT64, FI_SUM), read = words(kFetch, FI_UINT64, FI_ATOMIC_READ);
  const Range mine = scene.range();
  const auto status = [&](const std::string& bytes) {
    require(peer.socket.write(bytes), "write");
    const std::string said = uncounted(peer.socket.read(24));
    require(said.size() == 24, "an answer");
    EXPECT_EQ(said.substr(0, 16), raw::data_header(kAnswer, 24, 24)) << "nothing is fetched";
    return static_cast<int>(static_cast<uint8_t>(said[16]) | static_cast<uint8_t>(said[17]) << 8);
  };
  EXPECT_EQ(status(request(sum, {mine}, word(1))), FI_EACCES) << "no right to write";
  EXPECT_EQ(status(request(read, {{mine.address + 64, 1, mine.key}}, "")), FI_EACCES) << "behind its end";
  EXPECT_EQ(status(request(read, {{mine.address + 60, 1, mine.key}}, "")), FI_EACCES) << "across its end";
  EXPECT_EQ(status(request(read, {{mine.address - 8, 1, mine.key}}, "")), FI_EACCES) << "before it";
  EXPECT_EQ(status(request(read, {{~uint64_t{0} - 3, 1, mine.key}}, "")), FI_EACCES) << "around";
  EXPECT_EQ(status(request(read, {mine, {mine.address, 1, mine.key + 1000}}, "")), FI_ENOKEY) << "no such key";
  EXPECT_EQ(scene.value(), 5u);
  ASSERT_TRUE(peer.socket.write(request(read, {mine}, "")));
  EXPECT_EQ(uncounted(peer.socket.read(32)), answer(0, word(5))) << "all else goes on";
}

// A request that began to arrive before fi_close(mr) does not reach the region that has the key next.
TEST_P(ReliableAtomics, RequestDoesNotReachALaterRegionOfTheKey) {
  RELIABLE_TCP_ONLY();
  Scene scene(target());
  RawClient peer = partner(scene);
  uint64_t values[2] = {5, 5};
  const auto expose = [&](uint64_t& value) {
    return opened<fid_mr>("fi_mr_reg", [&](fid_mr** mr) {
      return fi_mr_reg(scene.fabric.domain(), &value, sizeof value, FI_REMOTE_WRITE, 0, 0x4711, 0, mr, nullptr);
    });
  };
  auto region = expose(values[0]);
  const uint64_t sum = words(kUpdate, FI_UINT64, FI_SUM);
  const std::string bytes = request(sum, {{0, 1, 0x4711}}, word(1));
  const std::string before = request(sum, {scene.range()}, word(1));
  ASSERT_TRUE(peer.socket.write(before + bytes.substr(0, bytes.size() - 1)));
  ASSERT_EQ(uncounted(peer.socket.read(24)), answer(0)) << "the first request shows that the second began to arrive";
  region.reset();
  region = expose(values[1]);
  ASSERT_TRUE(peer.socket.write(bytes.substr(bytes.size() - 1) + bytes));
  EXPECT_EQ(uncounted(peer.socket.read(24)), answer(FI_ENOKEY));
  EXPECT_EQ(uncounted(peer.socket.read(24)), answer(0)) << "a request for the new region";
  EXPECT_EQ(values[0], 5u);
  EXPECT_EQ(values[1], 6u);
}

TEST_P(ReliableAtomics, MalformedPacketsEndTheirConnectionAndTouchNothing) {
  RELIABLE_TCP_ONLY();
  Scene scene(target());
  const uint64_t sum = words(kUpdate, FI_UINT64, FI_SUM), read = words(kFetch, FI_UINT64, FI_ATOMIC_READ);
  const Range mine = scene.range();
  const std::string eight = word(1);
  std::string no_ranges = request(sum, {}, eight), five = request(sum, {mine, mine, mine, mine}, std::string(32, 1));
  five[5] = 5;
  uint16_t port = 1;
  const std::vector<std::string> nonsense = {
      request(words(3, FI_UINT64, FI_SUM), {mine}, eight),           // no such kind
      request(words(kUpdate, 99, FI_SUM), {mine}, eight),            // nor type
      request(words(kUpdate, FI_VOID & 0xff, 0xff), {mine}, eight),  // nor operation
      request(words(kUpdate, FI_UINT64, FI_CSWAP), {mine}, eight),   // not of this kind
      request(words(kCompare, FI_UINT64, FI_SUM), {mine}, eight + eight),
      request(words(kUpdate, FI_DOUBLE, FI_BXOR), {mine}, eight),  // nor for this type
      request(words(kUpdate, FI_UINT64, FI_ATOMIC_READ), {mine}, ""),
      request(sum | uint64_t{1} << 24, {mine}, eight),  // reserved words
      no_ranges,
      five,
      request(sum, {scene.range(2)}, eight),  // fewer operands than that
      request(sum, {mine}, eight + eight),    // more operands
      request(sum, {mine}, "1234"),
      request(read, {mine}, eight),                         // reads have none
      request(read, {scene.range(16 * 1024 / 8 + 1)}, ""),  // more than is allowed
      request(read, {scene.range(~uint64_t{0})}, ""),
      request(read, {scene.range(uint64_t{1} << 61)}, ""),
      request(read, {scene.range(1 << 10), scene.range(1 << 10), scene.range(1)}, ""),
      request(sum, {scene.range(4096)}, std::string(4096 * 8, 1)),
      request(sum, {mine}, eight, 1),
      request(sum, {mine}, eight, 4),  // invalid flags
      answer(0),
      answer(0, eight),
      answer(FI_EACCES)};  // without a target
  for (const std::string& bytes : nonsense) {
    RawClient peer(scene.name, 1, port++, 1, raw::kClientHasAtomics);
    ASSERT_TRUE(peer.accepted);
    peer.socket.write(bytes);
    EXPECT_TRUE(peer.socket.closed_by_peer()) << "of " << port - 2;
  }
  // A valid one, from a peer that did not announce them.
  RawClient peer(scene.name, 1, port);
  ASSERT_TRUE(peer.accepted);
  ASSERT_TRUE(peer.socket.write(request(sum, {mine}, eight)));
  EXPECT_TRUE(peer.socket.closed_by_peer());
  EXPECT_EQ(scene.value(), 0u);
}

TEST_P(ReliableAtomics, AnswersThatDoNotFitEndTheConnection) {
  RELIABLE_TCP_ONLY();
  Scene scene(target());
  uint16_t port = 1;
  for (const std::string& bytes : {answer(0), answer(0, "1234"), answer(0, word(1) + word(2)), answer(13, word(1)),
                                   answer(4096), answer(~uint64_t{0}), raw::data_header(raw::kReadRsp, 24) + word(1)}) {
    RawClient peer = partner(scene, port++);
    uint64_t operand = 3, fetched = 9;
    Context context;
    ASSERT_EQ(scene.fetch(&operand, &fetched, &context), 0);
    ASSERT_EQ(peer.socket.read(56).size(), 56u);
    ASSERT_TRUE(peer.socket.write(bytes));
    const Completion failed = scene.end->tx().wait();
    EXPECT_EQ(failed.err(), FI_ECONNRESET) << failed;
    EXPECT_EQ(failed.context(), &context);
    EXPECT_EQ(fetched, 9u);
    EXPECT_TRUE(peer.socket.closed_by_peer());
  }
}

// The active end may be cut off at every byte: incomplete requests are not carried out.
TEST_P(ReliableAtomics, ClientsMayCloseAtAnyByte) {
  RELIABLE_TCP_ONLY();
  Scene scene(target());
  const std::string said = request(words(kFetch, FI_UINT64, FI_SUM), {scene.range(2)}, word(1) + word(1));
  for (size_t length = 0; length <= said.size(); ++length) {
    scene.value(0) = scene.value(1) = 0;
    RawClient peer(scene.name, 1, static_cast<uint16_t>(1 + length), 1, raw::kClientHasAtomics);
    ASSERT_TRUE(peer.accepted);
    ASSERT_TRUE(peer.socket.write(said.substr(0, length)));
    const bool whole = length == said.size();
    if (whole) {
      EXPECT_EQ(peer.socket.read(40).size(), 40u);
    }
    if (length % 2 == 0)
      peer.socket.close();
    else
      peer.socket.reset();
    for (int i = 0; i < 20; ++i) driver::poke();
    EXPECT_EQ(scene.value(0), whole ? 1u : 0u) << length;
    EXPECT_EQ(scene.value(1), whole ? 1u : 0u) << length;
  }
}

// The passive end may be cut off too: each outstanding operation ends once.
TEST_P(ReliableAtomics, ServersMayCloseAtAnyByte) {
  RELIABLE_TCP_ONLY();
  Scene scene(target());
  const std::string said = answer(0, word(1)) + answer(0);
  for (size_t length = 0; length <= said.size(); ++length) {
    RawClient peer = partner(scene, static_cast<uint16_t>(1 + length));
    uint64_t operand = 3, fetched = 9;
    Context contexts[3];
    ASSERT_EQ(scene.fetch(&operand, &fetched, &contexts[0]), 0);
    for (int i = 1; i < 3; ++i)
      ASSERT_EQ(
          fi_atomic(scene.end->ep(), &operand, 1, nullptr, scene.end->peer, 16, 5, FI_UINT64, FI_SUM, &contexts[i]), 0);
    ASSERT_EQ(peer.socket.read(3 * 56).size(), 3 * 56u);
    ASSERT_TRUE(peer.socket.write(said.substr(0, length)));
    if (length % 2 == 0)
      peer.socket.close();
    else
      peer.socket.reset();
    int ended[3] = {};
    for (int i = 0; i < 3; ++i) {
      const Completion done = scene.end->tx().wait();
      const auto index = static_cast<Context*>(done.context()) - contexts;
      ASSERT_TRUE(index >= 0 && index < 3);
      EXPECT_EQ(++ended[index], 1) << length;
      if (done.ok()) {
        EXPECT_LT(index, length >= said.size() ? 2 : length >= 32 ? 1 : 0);
      }
    }
    EXPECT_TRUE(scene.end->tx().stays_silent(milliseconds(0)));
  }
}

}  // namespace reliable_atomics
