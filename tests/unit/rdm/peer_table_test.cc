// SPDX-License-Identifier: BSD-2-Clause
// The peers of an endpoint, and the cached answers of its address vector.
#include "rdm/peer_table.h"

#include <gtest/gtest.h>

#include <string>

#include "objects/address_table.h"

namespace weft::rdm {
namespace {

Address at_port(uint16_t port) {
  return Address::loopback(AF_INET, port);
}

// The interface of AddressVectorCore without receive contexts.
class Vector {
 public:
  fi_addr_t insert(const Address& address, fi_addr_t user_id = FI_ADDR_NOTAVAIL) {
    const fi_addr_t handle = table_.reserve(1).front();
    table_.fill(handle, address, user_id);
    return handle;
  }
  void remove(fi_addr_t handle) { EXPECT_TRUE(table_.remove(handle)); }
  void rename(fi_addr_t handle, fi_addr_t user_id) { EXPECT_TRUE(table_.set_user_id(handle, user_id)); }

  const Address* find(fi_addr_t handle) const {
    ++lookups;
    return table_.find(handle);
  }
  fi_addr_t source_of(const Address& address) const {
    ++lookups;
    return table_.source(address);
  }
  fi_addr_t without_context(fi_addr_t handle) const { return handle; }
  uint64_t version() const { return table_.version(); }
  mutable int lookups = 0;

 private:
  AddressTable<Address> table_;
};

struct PeerTableTest : testing::Test {
  Vector vector;
  PeerTable<PeerBase> peers;
  PeerBase* find(fi_addr_t handle) { return peers.find(vector, handle); }
  // `serves`: the request may be about a peer that is known by another address.
  template <class P>
  P* request(PeerTable<P>& table, const Address& from, bool everywhere = false, bool serves = true) {
    return table.requester(vector, from, everywhere, [&](const P&) { return serves; });
  }
};

TEST_F(PeerTableTest, LooksAHandleUpOncePerChangeOfTheVector) {
  const fi_addr_t handle = vector.insert(at_port(1));
  PeerBase* const peer = find(handle);
  ASSERT_NE(peer, nullptr);
  EXPECT_EQ(peers.name_of(vector, *peer), handle);
  vector.lookups = 0;
  EXPECT_EQ(find(handle), peer);
  EXPECT_EQ(peers.name_of(vector, *peer), handle);
  EXPECT_EQ(vector.lookups, 0);
  vector.insert(at_port(2));
  EXPECT_EQ(find(handle), peer);
  EXPECT_EQ(peers.name_of(vector, *peer), handle);
  EXPECT_EQ(vector.lookups, 2);
}

TEST_F(PeerTableTest, FollowsAHandleToItsNextAddress) {
  const fi_addr_t handle = vector.insert(at_port(1));
  PeerBase* const first = find(handle);
  vector.remove(handle);
  EXPECT_EQ(find(handle), nullptr);
  EXPECT_EQ(peers.name_of(vector, *first), FI_ADDR_NOTAVAIL);
  ASSERT_EQ(vector.insert(at_port(2)), handle);
  PeerBase* const second = find(handle);
  ASSERT_NE(second, nullptr);
  EXPECT_NE(second, first);
  EXPECT_EQ(second->address, at_port(2));
  EXPECT_EQ(peers.name_of(vector, *first), FI_ADDR_NOTAVAIL);
  EXPECT_EQ(peers.name_of(vector, *second), handle);
}

TEST_F(PeerTableTest, HandleThatWasNeverInsertedHasNoPeer) {
  EXPECT_EQ(find(0), nullptr);
  vector.insert(at_port(1));
  EXPECT_NE(find(0), nullptr);
  EXPECT_EQ(find(1), nullptr);
  EXPECT_EQ(find(FI_ADDR_UNSPEC), nullptr);
}

TEST_F(PeerTableTest, PeerGetsANameWhenItsAddressIsInserted) {
  PeerBase* const peer = peers.at(at_port(1));
  EXPECT_EQ(peers.name_of(vector, *peer), FI_ADDR_NOTAVAIL);
  const fi_addr_t handle = vector.insert(at_port(1));
  EXPECT_EQ(peers.name_of(vector, *peer), handle);
  EXPECT_EQ(find(handle), peer);
}

TEST_F(PeerTableTest, CompletionsNameAPeerByItsUserId) {
  const fi_addr_t handle = vector.insert(at_port(1), 70);
  PeerBase* const peer = find(handle);
  EXPECT_EQ(peers.name_of(vector, *peer), 70u);
  vector.rename(handle, 71);
  EXPECT_EQ(peers.name_of(vector, *peer), 71u);
}

TEST_F(PeerTableTest, CachedHandlesOfAnotherVectorAreDropped) {
  Vector other;
  const fi_addr_t handle = vector.insert(at_port(1));
  ASSERT_EQ(other.insert(at_port(2)), handle);
  ASSERT_EQ(other.version(), vector.version());
  PeerBase* const peer = find(handle);
  peers.forget_handles();
  PeerBase* const another = peers.find(other, handle);
  ASSERT_NE(another, nullptr);
  EXPECT_NE(another, peer);
  EXPECT_EQ(another->address, at_port(2));
}

// ---- Peers that are gone ----

struct ForgottenPeersTest : PeerTableTest {
  struct Peer : PeerBase {
    bool busy = false;
    bool in_use() const { return busy; }
    static inline int alive = 0;
    Peer() { ++alive; }
    ~Peer() { --alive; }
  };
  PeerTable<Peer> table;
  static constexpr int kMany = 50'000;
  static constexpr int kMostStrangers = 1024;

  ForgottenPeersTest() { Peer::alive = 0; }
  static Address client(int number) {
    const in_addr host{htonl(0x0a00'0000u + static_cast<uint32_t>(number))};
    Address address = Address::of_host(AF_INET, &host, 0);
    address.set_port(1);
    return address;
  }
  void let_strangers_come_and_go() {
    for (int i = 0; i < kMany; ++i) ASSERT_NE(request(table, client(i)), nullptr);
  }
};

TEST_F(ForgottenPeersTest, StrangersAreForgotten) {
  let_strangers_come_and_go();
  EXPECT_LE(Peer::alive, kMostStrangers);
}

TEST_F(ForgottenPeersTest, ClientsThatTheProgramInsertedAndRemovedAreForgotten) {
  for (int i = 0; i < kMany; ++i) {
    const fi_addr_t handle = vector.insert(client(i));
    ASSERT_NE(table.find(vector, handle), nullptr);
    vector.remove(handle);
  }
  EXPECT_LE(Peer::alive, kMostStrangers);
}

TEST_F(ForgottenPeersTest, PeersOfTheVectorAndThoseInUseStay) {
  const fi_addr_t handle = vector.insert(client(-1));
  Peer* const inserted = table.find(vector, handle);
  Peer* const busy = request(table, client(-2));
  busy->busy = true;
  let_strangers_come_and_go();
  EXPECT_EQ(table.find(vector, handle), inserted);
  EXPECT_EQ(table.at(client(-1)), inserted);
  EXPECT_EQ(table.at(client(-2)), busy);
}

TEST_F(ForgottenPeersTest, NumbersAreNeverUsedTwice) {
  Peer* const stays = request(table, client(-1));
  stays->busy = true;
  uint64_t last = stays->id;
  for (int i = 0; i < kMany; ++i) {
    const Peer* const next = request(table, client(i));
    ASSERT_GT(next->id, last);
    last = next->id;
  }
}

TEST_F(ForgottenPeersTest, SharedNumbersAreForgottenWithTheLastPeer) {
  PeerTable<Peer> numbered, also_numbered;
  PeerTable<PeerBase> numbers;
  numbered.share_numbers_of(&numbers);
  also_numbered.share_numbers_of(&numbers);
  Peer* const busy = request(also_numbered, client(0));
  busy->busy = true;
  const uint64_t id = busy->id;
  for (int i = 0; i < kMany; ++i) ASSERT_NE(request(numbered, client(i)), nullptr);
  EXPECT_EQ(numbers.at(client(0))->id, id);
  int kept = 0;
  numbers.for_each([&](PeerBase&) { ++kept; });
  EXPECT_LE(kept, 2 * kMostStrangers);
  also_numbered.share_numbers_of(nullptr);
  numbered.share_numbers_of(nullptr);
  numbers.for_each([&](PeerBase& each) { EXPECT_FALSE(each.in_use()); });
}

TEST_F(ForgottenPeersTest, PeersAtTheWildcardAddressLeaveNothing) {
  const Address from = at_port(7);
  PeerBase* const first = request(table, from, true);
  const uint64_t id = first->id;
  let_strangers_come_and_go();
  EXPECT_NE(table.at(*Address::parse("127.0.0.2:7"))->id, id);
}

TEST_F(ForgottenPeersTest, APeerWithAnotherAddressInTheVectorStays) {
  const fi_addr_t handle = vector.insert(*Address::parse("127.0.0.2:7"));
  Peer* const peer = request(table, at_port(7), true);
  ASSERT_EQ(table.find(vector, handle), peer);
  let_strangers_come_and_go();
  EXPECT_EQ(table.find(vector, handle), peer);
}

TEST_F(ForgottenPeersTest, ClientsOfThisHostThatWereInsertedAndRemovedAreForgotten) {
  for (int i = 0; i < kMany / 10; ++i) {
    const auto port = static_cast<uint16_t>(i + 1);
    Peer* const client = request(table, at_port(port), true);
    client->busy = true;
    Address name = *Address::parse("127.0.0.2:1");
    name.set_port(port);
    const fi_addr_t handle = vector.insert(name);
    ASSERT_EQ(table.find(vector, handle), client);
    client->busy = false;
    vector.remove(handle);
  }
  EXPECT_LE(Peer::alive, kMostStrangers);
}

// ---- Peers at the wildcard address ----

struct WildcardPeerTest : PeerTableTest {
  static Address at(const char* host) { return *Address::parse(std::string(host) + ":1"); }
  const Address from = at("127.0.0.1");   // where requests come from
  const Address other = at("127.0.0.2");  // in the vector
};

TEST_F(WildcardPeerTest, IsThatOfAnInsertedAddressOfThisHost) {
  const fi_addr_t handle = vector.insert(other);
  PeerBase* const peer = request(peers, from, true);
  ASSERT_NE(peer, nullptr);
  EXPECT_EQ(find(handle), peer);
  EXPECT_EQ(peers.at(from), peer);
  EXPECT_EQ(peer->address, from);
}

TEST_F(WildcardPeerTest, IsThatOfAnAddressThatWasUsedBefore) {
  const auto names = same_port_on_this_host(from);
  if (names.front() == from) GTEST_SKIP() << "this host has the loopback interface only";
  PeerBase* const peer = find(vector.insert(names.front()));
  EXPECT_EQ(request(peers, from, true), peer);
  EXPECT_EQ(peers.at(from), peer);
  EXPECT_EQ(peer->address, names.front());
}

TEST_F(WildcardPeerTest, HasTheNameThatWasInserted) {
  const auto names = same_port_on_this_host(from);
  PeerBase* const peer = request(peers, from, true);
  EXPECT_EQ(peers.name_of(vector, *peer), FI_ADDR_NOTAVAIL);
  const fi_addr_t handle = vector.insert(names.front());
  EXPECT_EQ(peers.name_of(vector, *peer), handle);
  if (names.front() == from) return;
  const fi_addr_t exact = vector.insert(from);
  EXPECT_EQ(peers.name_of(vector, *peer), exact) << "the address of its requests comes first";
}

TEST_F(WildcardPeerTest, HasOnePortOnThisHost) {
  PeerBase* const peer = request(peers, from, true);
  Address another_port = other;
  another_port.set_port(2);
  EXPECT_NE(peers.at(another_port), peer);
  EXPECT_NE(peers.at(at("192.0.2.1")), peer) << "an address of another host";
}

TEST_F(WildcardPeerTest, PeersAtOneAddressStayApart) {
  const fi_addr_t handle = vector.insert(other);
  PeerBase* const peer = request(peers, from, false);
  EXPECT_NE(find(handle), peer);
  EXPECT_EQ(peers.name_of(vector, *peer), FI_ADDR_NOTAVAIL);
  PeerBase* const remote = request(peers, at("192.0.2.1"), true);
  EXPECT_NE(peers.at(at("192.0.2.2")), remote) << "its host is another one";
}

TEST_F(WildcardPeerTest, HasANameAtOnceAlthoughItWasUnknownBefore) {
  const auto names = same_port_on_this_host(from);
  if (names.front() == from) GTEST_SKIP() << "this host has the loopback interface only";
  const fi_addr_t handle = vector.insert(names.front());
  PeerBase* const peer = request(peers, from);
  EXPECT_EQ(peers.name_of(vector, *peer), FI_ADDR_NOTAVAIL);
  ASSERT_EQ(request(peers, from, true), peer);
  EXPECT_EQ(peers.name_of(vector, *peer), handle);
}

TEST_F(WildcardPeerTest, IsRequestedAtTheInsertedAddress) {
  PeerBase* const peer = request(peers, from, true);
  peer->use_inserted_address();
  EXPECT_EQ(peer->address, from);
  const fi_addr_t handle = vector.insert(other);
  ASSERT_EQ(find(handle), peer);
  EXPECT_EQ(peer->address, from) << "a connection may be open";
  EXPECT_EQ(peers.name_of(vector, *peer), handle);
  peer->use_inserted_address();
  EXPECT_EQ(peer->address, other);
  EXPECT_EQ(find(handle), peer);
  EXPECT_EQ(request(peers, from, true), peer);
}

TEST_F(WildcardPeerTest, HasOneNumberIfItsRequestNeedsAnotherRecord) {
  PeerBase* const peer = request(peers, from, true);
  const fi_addr_t handle = vector.insert(other);
  PeerBase* const second = request(peers, other, true, false);
  EXPECT_NE(second, peer);
  EXPECT_EQ(second->id, peer->id);
  EXPECT_EQ(find(handle), second);
  EXPECT_EQ(peers.name_of(vector, *second), handle);
}

TEST_F(WildcardPeerTest, GivesWayToAPeerAtOneAddress) {
  PeerBase* const peer = request(peers, from, true);
  const fi_addr_t handle = vector.insert(other);
  ASSERT_EQ(find(handle), peer);
  PeerBase* const another = request(peers, other);
  EXPECT_NE(another->id, peer->id);
  vector.insert(at_port(9));
  EXPECT_EQ(find(handle), another);
}

TEST_F(WildcardPeerTest, HasOneNumberInAllTablesThatShareNumbers) {
  PeerTable<PeerBase> second;
  PeerTable<PeerBase> numbers;
  peers.share_numbers_of(&numbers);
  second.share_numbers_of(&numbers);
  const fi_addr_t handle = vector.insert(other);
  const PeerBase* const peer = request(peers, from, true);
  EXPECT_EQ(numbers.find(vector, handle)->id, peer->id);
  EXPECT_EQ(second.find(vector, handle)->id, peer->id);
  EXPECT_EQ(request(second, from, true)->id, peer->id);
}

}  // namespace
}  // namespace weft::rdm
