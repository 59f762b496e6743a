// SPDX-License-Identifier: BSD-2-Clause
// The peers of an endpoint, and the cached answers of its address vector.
#include "rdm/peer_table.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace weft::rdm
