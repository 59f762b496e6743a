// SPDX-License-Identifier: BSD-2-Clause
// Registration, keys, access rights and their enforcement; fi_mr(3).
#include <rdma/fi_rma.h>

#include "fixture/driver.h"
#include "fixture/node.h"

namespace memory_regions {

CONFORMANCE_TOPIC(MemoryRegions);

namespace {

const HintsEditor kRma = [](fi_info& hints) { hints.caps = FI_MSG | FI_RMA; };
constexpr size_t kSize = 4096;
constexpr uint64_t kRemote = FI_REMOTE_READ | FI_REMOTE_WRITE;

// A pair that an offender uses wrongly, another one that must not be affected, and a region with `access`.
struct Scene {
  Scene(const Target& target, uint64_t access, const HintsEditor& edit = kRma)
      : fabric(target, edit),
        bystanders(fabric),
        offenders(fabric),
        local(fabric, 2 * kSize, 'l', FI_READ | FI_WRITE),
        remote(fabric, kSize, 'r', access) {}

  Completion write(size_t length, uint64_t address, uint64_t key) {
    Node& a = offenders.a();
    const ssize_t rc =
        retry([&] { return fi_write(a.ep(), local.data(), length, local.desc(), a.peer, address, key, &context); });
    EXPECT_EQ(rc, 0) << "only the target can know";
    return rc ? Completion{} : a.tx().wait();
  }
  Completion read(size_t length, uint64_t address, uint64_t key) {
    Node& a = offenders.a();
    const ssize_t rc =
        retry([&] { return fi_read(a.ep(), local.data(), length, local.desc(), a.peer, address, key, &context); });
    EXPECT_EQ(rc, 0) << "only the target can know";
    return rc ? Completion{} : a.tx().wait();
  }
  // The forbidden access changed nothing, its endpoint pair reports it, and no other is affected.
  void expect_refused(const Completion& completion, bool is_read) {
    if (is_read) {
      EXPECT_NE(completion.err(), 0) << completion;
    }
    for (char byte : remote.text(kSize)) ASSERT_EQ(byte, 'r') << "memory was changed";
    for (char byte : local.text(2 * kSize)) ASSERT_EQ(byte, 'l') << "memory was read";
    offenders.a().eq().expect(FI_SHUTDOWN, offenders.a().fid());
    expect_exchange(bystanders);
  }

  Fabric fabric;
  Pair bystanders, offenders;
  Buffer local, remote;
  Context context;
};

}  // namespace

TEST_P(MemoryRegions, WrongKeyIsRefused) {
  NEEDS(kRma, "FI_RMA");
  CONNECTED_ONLY();
  for (bool is_read : {false, true}) {
    Scene scene(target(), kRemote);
    const uint64_t key = scene.remote.key() + 12345;
    const uint64_t at = scene.remote.remote_address();
    scene.expect_refused(is_read ? scene.read(64, at, key) : scene.write(64, at, key), is_read);
  }
}

TEST_P(MemoryRegions, RangeBeyondTheRegionIsRefused) {
  NEEDS(kRma, "FI_RMA");
  CONNECTED_ONLY();
  struct Range {
    size_t length;
    uint64_t offset;
  };
  for (const Range& range :
       {Range{64, kSize - 63}, Range{kSize + 1, 0}, Range{1, kSize}, Range{64, ~0ull - 31}, Range{64, 1ull << 40}}) {
    for (bool is_read : {false, true}) {
      Scene scene(target(), kRemote);
      const uint64_t at = scene.remote.remote_address() + range.offset;
      const uint64_t key = scene.remote.key();
      scene.expect_refused(is_read ? scene.read(range.length, at, key) : scene.write(range.length, at, key), is_read);
      if (HasFailure()) FAIL() << "length " << range.length << ", offset " << range.offset << ", read " << is_read;
    }
  }
}

TEST_P(MemoryRegions, AccessRightsAreEnforced) {
  NEEDS(kRma, "FI_RMA");
  CONNECTED_ONLY();
  {
    Scene scene(target(), FI_REMOTE_READ);
    scene.expect_refused(scene.write(64, scene.remote.remote_address(), scene.remote.key()), false);
  }
  Scene scene(target(), FI_REMOTE_WRITE);
  scene.expect_refused(scene.read(64, scene.remote.remote_address(), scene.remote.key()), true);
}

TEST_P(MemoryRegions, ClosedRegionIsNoLongerReachable) {
  NEEDS(kRma, "FI_RMA");
  CONNECTED_ONLY();
  Scene scene(target(), kRemote);
  uint64_t key, at;
  {
    Buffer gone(scene.fabric, kSize, 'g', kRemote);
    key = gone.key();
    at = gone.remote_address();
  }
  scene.expect_refused(scene.read(64, at, key), true);
}

TEST_P(MemoryRegions, RequestedKeyIsTheKeyUnlessTheProviderChooses) {
  NEEDS(kRma, "FI_RMA");
  Fabric fabric(target(), kRma);
  if (fabric.has(FI_MR_PROV_KEY)) GTEST_SKIP() << "the provider chooses the keys";
  char bytes[64];
  const auto mr = opened<fid_mr>("fi_mr_reg", [&](fid_mr** m) {
    return fi_mr_reg(fabric.domain(), bytes, sizeof bytes, kRemote, 0, 0xabcdef12, 0, m, nullptr);
  });
  EXPECT_EQ(fi_mr_key(mr.get()), 0xabcdef12u);
}

TEST_P(MemoryRegions, KeyInUseIsRefused) {
  NEEDS(kRma, "FI_RMA");
  Fabric fabric(target(), kRma);
  if (fabric.has(FI_MR_PROV_KEY)) GTEST_SKIP() << "the provider chooses the keys";
  char bytes[64];
  const auto reg = [&](fid_mr** m) {
    return fi_mr_reg(fabric.domain(), bytes, sizeof bytes, kRemote, 0, 77, 0, m, nullptr);
  };
  auto first = opened<fid_mr>("fi_mr_reg", reg);
  fid_mr* second = nullptr;
  EXPECT_EQ(reg(&second), -FI_ENOKEY);
  EXPECT_EQ(second, nullptr);
  first.reset();
  EXPECT_TRUE(opened<fid_mr>("fi_mr_reg", reg)) << "free again after the close";
}

TEST_P(MemoryRegions, KeysOfTwoRegionsDiffer) {
  NEEDS(kRma, "FI_RMA");
  Fabric fabric(target(), kRma);
  Buffer first(fabric, 64, 0, kRemote), second(fabric, 64, 0, kRemote);
  EXPECT_NE(first.key(), second.key());
}

TEST_P(MemoryRegions, OffsetAndFlagsAreReserved) {
  NEEDS(kRma, "FI_RMA");
  Fabric fabric(target(), kRma);
  char bytes[64];
  fid_mr* mr = nullptr;
  EXPECT_LT(fi_mr_reg(fabric.domain(), bytes, sizeof bytes, kRemote, 8, 1, 0, &mr, nullptr), 0) << "offset must be 0";
  EXPECT_EQ(mr, nullptr);
}

TEST_P(MemoryRegions, VectorAndAttributeFormsRegisterAsWell) {
  NEEDS(kRma, "FI_RMA");
  Fabric fabric(target(), kRma);
  char bytes[64];
  const iovec iov{bytes, sizeof bytes};
  const auto v = opened<fid_mr>(
      "fi_mr_regv", [&](fid_mr** m) { return fi_mr_regv(fabric.domain(), &iov, 1, kRemote, 0, 501, 0, m, &fabric); });
  EXPECT_EQ(v->fid.context, &fabric);
  fi_mr_attr attr{};
  attr.mr_iov = &iov;
  attr.iov_count = 1;
  attr.access = kRemote;
  attr.requested_key = 502;
  attr.context = bytes;
  const auto a =
      opened<fid_mr>("fi_mr_regattr", [&](fid_mr** m) { return fi_mr_regattr(fabric.domain(), &attr, 0, m); });
  EXPECT_EQ(a->fid.context, bytes);
  EXPECT_NE(fi_mr_key(v.get()), fi_mr_key(a.get()));
}

TEST_P(MemoryRegions, DomainWithRegionsIsBusy) {
  NEEDS(kRma, "FI_RMA");
  Fabric fabric(target(), kRma);
  Buffer buffer(fabric, 64, 0, kRemote);
  EXPECT_EQ(fi_close(&fabric.domain()->fid), -FI_EBUSY);
}

TEST_P(MemoryRegions, RawKeyIsTheKey) {
  NEEDS(kRma, "FI_RMA");
  Fabric fabric(target(), kRma);
  Buffer buffer(fabric, 64, 0, kRemote);
  uint64_t base = 1, raw = 0;
  size_t size = sizeof raw;
  ASSERT_EQ(fi_mr_raw_attr(buffer.mr(), &base, reinterpret_cast<uint8_t*>(&raw), &size, 0), 0);
  EXPECT_EQ(size, fabric.info()->domain_attr->mr_key_size);
  EXPECT_EQ(raw, buffer.key());
  size = 1;
  EXPECT_EQ(fi_mr_raw_attr(buffer.mr(), &base, reinterpret_cast<uint8_t*>(&raw), &size, 0), -FI_ETOOSMALL);
}

TEST_P(MemoryRegions, BasicModeAddressesRegionsByVirtualAddress) {
  const HintsEditor basic = [](fi_info& hints) {
    hints.caps = FI_MSG | FI_RMA;
    hints.mode |= FI_LOCAL_MR;
    hints.domain_attr->mr_mode = FI_MR_BASIC;
  };
  NEEDS(basic, "FI_MR_BASIC");
  Fabric fabric(target(), basic);
  EXPECT_EQ(fabric.info()->domain_attr->mr_mode, static_cast<int>(FI_MR_BASIC)) << "not cleared by the provider";
  Scene scene(target(), kRemote, basic);
  scene.local.fill_pattern(1);
  const auto address = reinterpret_cast<uintptr_t>(scene.remote.data());
  ASSERT_TRUE(scene.write(64, address + 100, scene.remote.key()).ok());
  ASSERT_TRUE(scene.read(64, address + 100, scene.remote.key()).ok());
  EXPECT_EQ(std::memcmp(scene.remote.data() + 100, scene.local.data(), 64), 0);
}

TEST_P(MemoryRegions, ScalableModeAddressesRegionsByOffsetAndRequestedKey) {
  const HintsEditor scalable = [](fi_info& hints) {
    hints.caps = FI_MSG | FI_RMA;
    hints.domain_attr->mr_mode = FI_MR_SCALABLE;
  };
  NEEDS(scalable, "FI_MR_SCALABLE");
  Scene scene(target(), kRemote, scalable);
  EXPECT_FALSE(scene.fabric.has(FI_MR_VIRT_ADDR));
  scene.local.fill_pattern(2);
  ASSERT_TRUE(scene.write(64, 100, scene.remote.key()).ok());
  ASSERT_TRUE(scene.read(64, 100, scene.remote.key()).ok());
  EXPECT_EQ(std::memcmp(scene.remote.data() + 100, scene.local.data(), 64), 0);
}

}  // namespace memory_regions
