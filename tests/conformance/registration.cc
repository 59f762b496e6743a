// SPDX-License-Identifier: BSD-2-Clause
// Impossible registrations: a specific error, nothing left behind, out-parameters untouched; fi_mr(3).
#include <rdma/fi_rma.h>
#include <sys/mman.h>

#include <algorithm>

#include "fixture/node.h"

namespace registration {

CONFORMANCE_TOPIC(Registration);

namespace {

const HintsEditor kRma = [](fi_info& hints) { hints.caps = FI_MSG | FI_RMA; };

// Pages of the test's own, released at the end.
struct Pages {
  explicit Pages(int protection)
      : size(4 * 4096), memory(::mmap(nullptr, size, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    require(memory != MAP_FAILED, "mmap");
  }
  ~Pages() { ::munmap(memory, size); }
  size_t size;
  void* memory;
};

struct Scene {
  explicit Scene(const Target& target) : fabric(target, kRma) {}
  int reg(const void* buf, size_t len, uint64_t access, uint64_t flags = 0) {
    fid_mr* mr = nullptr;
    const int rc = fi_mr_reg(fabric.domain(), buf, len, access, 0, next_key++, flags, &mr, nullptr);
    EXPECT_EQ(rc == 0, mr != nullptr);
    if (mr != nullptr) {
      EXPECT_EQ(fi_close(&mr->fid), 0);
    }
    return rc;
  }
  // The kernel checks the memory, because the device accesses it.
  bool pins() const { return fabric.has(FI_MR_ALLOCATED); }

  Fabric fabric;
  uint64_t next_key = 900;
};

}  // namespace

#define REGISTRATION_SCENE() \
  NEEDS(kRma, "FI_RMA");     \
  Scene scene(target())

TEST_P(Registration, EmptyRangesAreRegistered) {
  REGISTRATION_SCENE();
  char byte;
  EXPECT_EQ(scene.reg(&byte, 0, FI_REMOTE_READ | FI_REMOTE_WRITE), 0);
  EXPECT_EQ(scene.reg(nullptr, 0, FI_SEND | FI_RECV), 0);
}

TEST_P(Registration, OversizedRangesAreRefused) {
  REGISTRATION_SCENE();
  char byte;
  EXPECT_EQ(scene.reg(&byte, SIZE_MAX, FI_SEND), -FI_EINVAL) << "wraps around";
  EXPECT_LT(scene.reg(&byte, 1, uint64_t{1} << 50), 0) << "no such right";
  EXPECT_LT(scene.reg(&byte, 1, FI_SEND, uint64_t{1} << 63), 0) << "no such flag";
  EXPECT_EQ(scene.reg(&byte, 1, FI_SEND), 0);
}

TEST_P(Registration, CapabilitiesMayStandAmongTheRights) {
  REGISTRATION_SCENE();
  char byte;
  for (const uint64_t capability : {FI_MSG, FI_TAGGED, FI_RMA, FI_ATOMIC}) {
    EXPECT_EQ(scene.reg(&byte, 1, capability), 0);
    EXPECT_EQ(scene.reg(&byte, 1, FI_SEND | FI_RECV | capability), 0);
  }
}

TEST_P(Registration, UnmappedMemoryIsABadAddress) {
  REGISTRATION_SCENE();
  if (!scene.pins()) GTEST_SKIP() << "memory is looked at when it is used";
  void* gone;
  {
    Pages pages(PROT_READ | PROT_WRITE);
    gone = pages.memory;
  }
  const int rc = scene.reg(gone, 4096, FI_RECV);
  EXPECT_TRUE(rc == -FI_EFAULT || rc == -FI_ENOMEM) << rc;
}

TEST_P(Registration, ReadOnlyMemoryCanBeSentAndNotReceivedInto) {
  REGISTRATION_SCENE();
  if (!scene.pins()) GTEST_SKIP() << "memory is looked at when it is used";
  Pages pages(PROT_READ);
  EXPECT_EQ(scene.reg(pages.memory, pages.size, FI_SEND), 0);
  EXPECT_EQ(scene.reg(pages.memory, pages.size, FI_SEND | FI_WRITE | FI_REMOTE_READ), 0);
  for (uint64_t access : {uint64_t{FI_RECV}, uint64_t{FI_READ}, uint64_t{FI_REMOTE_WRITE}}) {
    const int rc = scene.reg(pages.memory, pages.size, access);
    EXPECT_TRUE(rc == -FI_EFAULT || rc == -FI_EACCES || rc == -FI_EPERM) << rc << " for " << access;
  }
}

// Without FI_HMEM the processor would read the address.
TEST_P(Registration, MemoryOfAcceleratorsIsRefused) {
  Fabric fabric(target());
  char bytes[64] = {};
  const iovec memory{bytes, sizeof bytes};
  constexpr auto kOfALaterRelease = static_cast<fi_hmem_iface>(FI_HMEM_SYNAPSEAI + 1);
  for (const fi_hmem_iface iface :
       {FI_HMEM_CUDA, FI_HMEM_ROCR, FI_HMEM_ZE, FI_HMEM_NEURON, FI_HMEM_SYNAPSEAI, kOfALaterRelease}) {
    fi_mr_attr attr{};
    attr.mr_iov = &memory;
    attr.iov_count = 1;
    attr.access = FI_SEND | FI_RECV;
    attr.requested_key = 900;
    attr.iface = iface;
    fid_mr* region = nullptr;
    EXPECT_EQ(fi_mr_regattr(fabric.domain(), &attr, 0, &region), -FI_ENOSYS) << iface;
    EXPECT_EQ(region, nullptr);
  }
}

// fi_mr(3): the member has no meaning without FI_HMEM, so programs may leave anything there.
TEST_P(Registration, WithoutAcceleratorsTheInterfaceMayBeAnything) {
  REGISTRATION_SCENE();
  char bytes[4096];
  const iovec memory{bytes, sizeof bytes};
  fi_mr_attr attr{};
  attr.mr_iov = &memory;
  attr.iov_count = 1;
  attr.access = FI_SEND | FI_RECV;
  attr.requested_key = 898;
  std::memset(static_cast<void*>(&attr.iface), 0x5a, sizeof attr.iface);
  fid_mr* mr = nullptr;
  ASSERT_EQ(fi_mr_regattr(scene.fabric.domain(), &attr, 0, &mr), 0);
  EXPECT_EQ(fi_close(&mr->fid), 0);
}

TEST_P(Registration, InvalidDmaBufferIsRefused) {
  REGISTRATION_SCENE();
  char bytes[4096];
  const fi_mr_dmabuf buffer{-1, 0, sizeof bytes, bytes};
  fi_mr_attr attr{};
  attr.dmabuf = &buffer;
  attr.iov_count = 1;
  attr.access = FI_SEND;
  attr.requested_key = 899;
  fid_mr* mr = nullptr;
  EXPECT_LT(fi_mr_regattr(scene.fabric.domain(), &attr, FI_MR_DMABUF, &mr), 0);
  EXPECT_EQ(mr, nullptr);
}

TEST_P(Registration, TheSameMemoryMayBeRegisteredManyTimes) {
  REGISTRATION_SCENE();
  std::vector<char> bytes(8192, 'b');
  std::vector<Handle<fid_mr>> regions;
  for (int i = 0; i < 100; ++i)
    regions.push_back(opened<fid_mr>("fi_mr_reg", [&](fid_mr** mr) {
      return fi_mr_reg(scene.fabric.domain(), bytes.data() + i, bytes.size() - 200, FI_REMOTE_READ, 0, scene.next_key++,
                       0, mr, nullptr);
    }));
  std::vector<uint64_t> keys;
  for (const auto& mr : regions) keys.push_back(fi_mr_key(mr.get()));
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(std::unique(keys.begin(), keys.end()), keys.end()) << "each has a key of its own";
}

}  // namespace registration
