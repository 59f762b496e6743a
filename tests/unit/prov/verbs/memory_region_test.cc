// SPDX-License-Identifier: BSD-2-Clause
// Registrations grant exactly the requested rights.
#include "verbs/transfer/memory_region.h"

#include <gtest/gtest.h>
#include <rdma/fi_endpoint.h>

namespace weft::verbs {
namespace {

TEST(AccessOf, GrantsExactlyWhatEachRightNeeds) {
  const AccessRules plain{};
  EXPECT_EQ(access_of(0, plain), 0);
  EXPECT_EQ(access_of(FI_SEND, plain), 0) << "the device may always read";
  EXPECT_EQ(access_of(FI_WRITE, plain), 0);
  EXPECT_EQ(access_of(FI_RECV, plain), IBV_ACCESS_LOCAL_WRITE);
  EXPECT_EQ(access_of(FI_READ, plain), IBV_ACCESS_LOCAL_WRITE);
  EXPECT_EQ(access_of(FI_REMOTE_READ, plain), IBV_ACCESS_REMOTE_READ);
  EXPECT_EQ(access_of(FI_REMOTE_WRITE, plain), IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE)
      << "ibv_reg_mr(3): remote write needs local write";
  EXPECT_EQ(access_of(FI_SEND | FI_REMOTE_READ, plain), IBV_ACCESS_REMOTE_READ);
}

TEST(AccessOf, AtomicsAreGrantedWithWritingIfTheDeviceHasThem) {
  const AccessRules atomics{.atomics = true, .iwarp = false};
  EXPECT_EQ(access_of(FI_REMOTE_WRITE, atomics),
            IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
  EXPECT_EQ(access_of(FI_REMOTE_READ, atomics), IBV_ACCESS_REMOTE_READ);
  EXPECT_EQ(access_of(FI_RECV, atomics), IBV_ACCESS_LOCAL_WRITE);
}

TEST(AccessOf, IwarpReadsAreWrittenByThePeer) {
  const AccessRules iwarp{.atomics = false, .iwarp = true};
  EXPECT_EQ(access_of(FI_READ, iwarp), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  EXPECT_EQ(access_of(FI_RECV, iwarp), IBV_ACCESS_LOCAL_WRITE);
}

TEST(LkeyOf, IsTheDescriptor) {
  EXPECT_EQ(lkey_of(nullptr), 0u);
  EXPECT_EQ(lkey_of(reinterpret_cast<void*>(uintptr_t{0x12345678})), 0x12345678u);
}

}  // namespace
}  // namespace weft::verbs
