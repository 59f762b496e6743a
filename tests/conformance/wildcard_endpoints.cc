// SPDX-License-Identifier: BSD-2-Clause
// Reliable-datagram endpoints at all interfaces of a host, and their peers on that host, which may have inserted
// another address than that from which the connections come; fi_cm(3) fi_getname, fi_getinfo(3) FI_SOURCE,
// fi_endpoint(3) FI_DIRECTED_RECV.
#include "fixture/driver.h"
#include "fixture/member.h"
#include "fixture/raw_peer.h"

namespace wildcard_endpoints {

CONFORMANCE_TOPIC(WildcardEndpoints);

#define WILDCARDS_ONLY()     \
  RELIABLE_DATAGRAMS_ONLY(); \
  if (!target().provider.starts_with("tcp")) GTEST_SKIP() << "a queue pair is at one address"

namespace {

constexpr uint64_t kTag = 9;
constexpr size_t kLength = 64;

void with_sources(fi_info& hints) {
  hints.caps = FI_MSG | FI_TAGGED | FI_SOURCE | FI_DIRECTED_RECV;
}

const char* wildcard(const Target& target) {
  return target.address.find(':') == std::string::npos ? "0.0.0.0" : "::";
}

// A port that no socket has at any address. The one that an endpoint has at its own address may be taken at others.
uint16_t free_port(const Address& any) {
  const raw::Socket probe(::socket(any.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  Address bound = any;
  auto size = static_cast<socklen_t>(bound.size);
  require(::bind(probe.fd(), any.get(), size) == 0, "bind");
  require(::getsockname(probe.fd(), reinterpret_cast<sockaddr*>(&bound.storage), &size) == 0, "getsockname");
  return bound.port();
}

NodeOptions everywhere(const Target& target) {
  NodeOptions options;
  options.configure = [&target](fid_ep* ep) {
    constexpr int kTries = 10;
    Address any = Address::numeric(wildcard(target), 0);
    int error = fi_setname(&ep->fid, any.get(), any.size);
    for (int i = 0; error == -FI_EADDRINUSE && i < kTries; ++i) {
      any.set_port(0);
      any.set_port(free_port(any));
      error = fi_setname(&ep->fid, any.get(), any.size);
    }
    require_ok(error, "fi_setname");
  };
  return options;
}

// The target's address with the end's port.
Address reached_at_the_target(DatagramEnd& end, const Target& target) {
  return Address::numeric(target.address, end.address().port());
}

#define NEEDS_TWO_ADDRESSES(end)                               \
  if ((end).address() == reached_at_the_target(end, target())) \
  GTEST_SKIP() << "this host has no address but the target's"

// A message between the ends of a fabric, received from its source only.
struct Directed {
  explicit Directed(const Fabric& fabric) : out(fabric, kLength), in(fabric, kLength) {}

  void post(DatagramEnd& receiver, fi_addr_t source) {
    expected = source;
    ASSERT_EQ(
        retry([&] { return fi_trecv(receiver->ep(), in.data(), kLength, in.desc(), source, kTag, 0, &received); }), 0);
  }
  void send(DatagramEnd& sender, fi_addr_t to) {
    sender->peer = to;
    ASSERT_EQ(sender->tsend(out, kLength, kTag, &sent), 0);
  }
  // `source`: FI_SOURCE.
  void expect_arrival(DatagramEnd& receiver) {
    fi_cq_tagged_entry entry{};
    fi_addr_t source = FI_ADDR_NOTAVAIL;
    ssize_t got = -FI_EAGAIN;
    for (const auto deadline = after(kPatience); got == -FI_EAGAIN && Clock::now() < deadline; driver::poke())
      got = fi_cq_readfrom(receiver->rx().get(), &entry, 1, &source);
    ASSERT_EQ(got, 1) << "the message has not arrived";
    EXPECT_EQ(entry.op_context, &received);
    EXPECT_EQ(source, expected);
  }

  Buffer out, in;
  fi_addr_t expected = FI_ADDR_UNSPEC;
  Context sent, received;
};

// Two ends, the first of which is at all interfaces. The second has inserted its name, and is itself inserted under the
// target's address.
struct Neighbours {
  Neighbours(const Fabric& fabric, const Target& target, const NodeOptions& second)
      : one(fabric, everywhere(target)), two(fabric, second) {
    to_one = two.insert(one.address());
    to_two = one.insert(reached_at_the_target(two, target));
  }
  // A message each way, with receives for the other end only.
  void expect_exchange(const Fabric& fabric, bool at_once) {
    Directed there(fabric), back(fabric);
    there.post(two, to_one);
    back.post(one, to_two);
    there.send(one, to_two);
    if (!at_once) there.expect_arrival(two);
    back.send(two, to_one);
    if (at_once) there.expect_arrival(two);
    back.expect_arrival(one);
  }

  DatagramEnd one, two;
  fi_addr_t to_one, to_two;
};

}  // namespace

TEST_P(WildcardEndpoints, HaveANameThatPeersReach) {
  WILDCARDS_ONLY();
  Fabric fabric(target());
  DatagramEnd server(fabric, everywhere(target())), client(fabric);
  const Address name = server.address();
  EXPECT_NE(name.port(), 0);
  EXPECT_NE(name, Address::numeric(wildcard(target()), name.port()));
  client->peer = client.insert(name);
  server->peer = server.insert(client.address());
  expect_round_trip(*client, *server);
  server->peer = server.insert(name);  // itself
  expect_round_trip(*server, *server);
}

// The connection comes from the address by which it was reached, which is not the name.
TEST_P(WildcardEndpoints, AreKnownByTheirNamesWhereverTheirConnectionsComeFrom) {
  WILDCARDS_ONLY();
  NEEDS(with_sources, "FI_DIRECTED_RECV");
  Fabric fabric(target(), with_sources);
  for (const bool inserted_first : {true, false})
    for (const bool posted_first : {true, false}) {
      if (posted_first && !inserted_first) continue;
      SCOPED_TRACE(std::string(inserted_first ? "inserted" : "connected") + " first");
      SCOPED_TRACE(std::string(posted_first ? "posted" : "sent") + " first");
      DatagramEnd sender(fabric, everywhere(target())), receiver(fabric);
      NEEDS_TWO_ADDRESSES(sender);
      Directed there(fabric), back(fabric);
      fi_addr_t name = FI_ADDR_NOTAVAIL;
      if (inserted_first) name = receiver.insert(sender.address());
      if (posted_first) there.post(receiver, name);
      there.send(sender, sender.insert(receiver.address()));
      if (!posted_first)
        for (const auto end = after(kSilence); Clock::now() < end;) driver::poke();
      if (!inserted_first) name = receiver.insert(sender.address());
      if (!posted_first) there.post(receiver, name);
      there.expect_arrival(receiver);
      back.post(sender, sender->peer);
      back.send(receiver, name);
      back.expect_arrival(sender);
    }
}

TEST_P(WildcardEndpoints, ReachEachOtherByDifferentAddresses) {
  WILDCARDS_ONLY();
  NEEDS(with_sources, "FI_DIRECTED_RECV");
  Fabric fabric(target(), with_sources);
  Neighbours ends(fabric, target(), everywhere(target()));
  NEEDS_TWO_ADDRESSES(ends.one);
  ends.expect_exchange(fabric, false);
}

TEST_P(WildcardEndpoints, ReachEachOtherWhenTheirRequestsCross) {
  WILDCARDS_ONLY();
  NEEDS(with_sources, "FI_DIRECTED_RECV");
  Fabric fabric(target(), with_sources);
  for (int round = 0; round < 10; ++round) {
    SCOPED_TRACE(round);
    Neighbours ends(fabric, target(), round % 2 == 0 ? everywhere(target()) : NodeOptions());
    NEEDS_TWO_ADDRESSES(ends.one);
    ends.expect_exchange(fabric, true);
  }
}

// A program may have inserted two addresses of an endpoint, and used both before it knows that they are one. Then they
// are two peers: the answer comes from the first one.
TEST_P(WildcardEndpoints, AnswerRequestsFromTwoOfTheirAddresses) {
  WILDCARDS_ONLY();
  NEEDS(with_sources, "FI_DIRECTED_RECV");
  Fabric fabric(target(), with_sources);
  Neighbours ends(fabric, target(), everywhere(target()));
  NEEDS_TWO_ADDRESSES(ends.one);
  const fi_addr_t by_name = ends.one.insert(ends.two.address());
  Directed first(fabric), second(fabric), back(fabric);
  first.post(ends.two, ends.to_one);
  second.post(ends.two, ends.to_one);
  first.send(ends.one, by_name);
  first.expect_arrival(ends.two);
  second.send(ends.one, ends.to_two);
  second.expect_arrival(ends.two);
  back.post(ends.one, by_name);
  back.send(ends.two, ends.to_one);
  back.expect_arrival(ends.one);
}

// Only the wildcard address makes one endpoint of all addresses: two endpoints may have one port at two addresses.
TEST_P(WildcardEndpoints, AreNotMistakenForEndpointsAtOneAddress) {
  WILDCARDS_ONLY();
  NEEDS(with_sources, "FI_DIRECTED_RECV");
  if (target().address != "127.0.0.1") GTEST_SKIP() << "loopback has one address in IPv6";
  Fabric fabric(target(), with_sources);
  DatagramEnd receiver(fabric), sender(fabric);
  NodeOptions beside;
  beside.configure = [&](fid_ep* ep) {
    Address same_port = Address::numeric("127.0.0.2", sender.address().port());
    require_ok(fi_setname(&ep->fid, same_port.get(), same_port.size), "fi_setname");
  };
  DatagramEnd other(fabric, beside);
  Directed from_other(fabric), from_sender(fabric);
  from_sender.send(sender, sender.insert(receiver.address()));
  for (const auto end = after(kSilence); Clock::now() < end;) driver::poke();
  from_other.post(receiver, receiver.insert(other.address()));
  EXPECT_TRUE(receiver->rx().stays_silent()) << "the message of the same port";
  from_other.send(other, other.insert(receiver.address()));
  from_other.expect_arrival(receiver);
  from_sender.post(receiver, receiver.insert(sender.address()));
  from_sender.expect_arrival(receiver);
}

}  // namespace wildcard_endpoints
