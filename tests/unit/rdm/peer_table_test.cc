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

// ---- Peers at the wildcard address ----

struct WildcardPeerTest : PeerTableTest {
  static Address at(const char* host) { return *Address::parse(std::string(host) + ":1"); }
  const Address from = at("127.0.0.1");   // of the requests
  const Address other = at("127.0.0.2");  // in the vector
};

TEST_F(WildcardPeerTest, IsThatOfAnInsertedAddressOfThisHost) {
  const fi_addr_t handle = vector.insert(other);
  PeerBase* const peer = peers.requester(from, true);
  ASSERT_NE(peer, nullptr);
  EXPECT_EQ(find(handle), peer);
  EXPECT_EQ(peers.at(from), peer);
  EXPECT_EQ(peer->address, from);
}

TEST_F(WildcardPeerTest, IsThatOfAnAddressThatWasUsedBefore) {
  const auto names = same_port_on_this_host(from);
  if (names.front() == from) GTEST_SKIP() << "this host has the loopback interface only";
  PeerBase* const peer = find(vector.insert(names.front()));
  EXPECT_EQ(peers.requester(from, true), peer);
  EXPECT_EQ(peers.at(from), peer);
  EXPECT_EQ(peer->address, names.front());
}

TEST_F(WildcardPeerTest, HasTheNameThatWasInserted) {
  const auto names = same_port_on_this_host(from);
  PeerBase* const peer = peers.requester(from, true);
  EXPECT_EQ(peers.name_of(vector, *peer), FI_ADDR_NOTAVAIL);
  const fi_addr_t handle = vector.insert(names.front());
  EXPECT_EQ(peers.name_of(vector, *peer), handle);
  const fi_addr_t exact = vector.insert(from);
  EXPECT_EQ(peers.name_of(vector, *peer), names.front() == from ? handle : exact)
      << "the request's address comes first";
}

TEST_F(WildcardPeerTest, HasOnePortOnThisHost) {
  PeerBase* const peer = peers.requester(from, true);
  Address another_port = other;
  another_port.set_port(2);
  EXPECT_NE(peers.at(another_port), peer);
  EXPECT_NE(peers.at(at("192.0.2.1")), peer) << "an address of another host";
}

TEST_F(WildcardPeerTest, PeersAtOneAddressStayApart) {
  const fi_addr_t handle = vector.insert(other);
  PeerBase* const peer = peers.requester(from, false);
  EXPECT_NE(find(handle), peer);
  EXPECT_EQ(peers.name_of(vector, *peer), FI_ADDR_NOTAVAIL);
  PeerBase* const remote = peers.requester(at("192.0.2.1"), true);
  EXPECT_NE(peers.at(at("192.0.2.2")), remote) << "its host is another one";
}

TEST_F(WildcardPeerTest, HasOneNumberInAllTablesThatShareNumbers) {
  PeerTable<PeerBase> second;
  PeerTable<PeerBase> numbers;
  peers.share_numbers_of(numbers);
  second.share_numbers_of(numbers);
  const fi_addr_t handle = vector.insert(other);
  const PeerBase* const peer = peers.requester(from, true);
  EXPECT_EQ(numbers.find(vector, handle)->id, peer->id);
  EXPECT_EQ(second.find(vector, handle)->id, peer->id);
  EXPECT_EQ(second.requester(from, true)->id, peer->id);
}

}  // namespace
}  // namespace weft::rdm
