// SPDX-License-Identifier: BSD-2-Clause
// FI_XPU of release 2.7, which no provider offers: every call answers, nothing is granted, and the structures that grew
// are read only as far as a caller of an earlier release allocates them. fi_xpu(3), fi_cq(3), fi_cntr(3), fi_av(3).
#include <rdma/fi_xpu.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "fixture/node.h"

namespace accelerators {

CONFORMANCE_TOPIC(Accelerators);

namespace {

// The first `size` bytes of an object, in front of a page without access.
class FrontOf {
 public:
  FrontOf(const void* object, std::size_t size) {
    EXPECT_NE(pages_, MAP_FAILED);
    EXPECT_EQ(::mprotect(static_cast<char*>(pages_) + page_, page_, PROT_NONE), 0);
    start_ = static_cast<char*>(pages_) + page_ - size;
    std::memcpy(start_, object, size);
  }
  ~FrontOf() { ::munmap(pages_, 2 * page_); }
  FrontOf(const FrontOf&) = delete;
  FrontOf& operator=(const FrontOf&) = delete;
  template <class T>
  T* as() const {
    return static_cast<T*>(start_);
  }

 private:
  const std::size_t page_ = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* pages_ = ::mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void* start_ = nullptr;
};

}  // namespace

TEST_P(Accelerators, NoneIsOffered) {
  Fabric fabric(target());
  fi_xpu_attr attr{};
  fid_xpu_ctx* context = nullptr;
  EXPECT_EQ(fi_xpu_ctx(fabric.domain(), &attr, &context, nullptr), -FI_ENOSYS);
  EXPECT_EQ(context, nullptr);
  EXPECT_FALSE(Fabric::offers(target(), [](fi_info& hints) { hints.caps |= FI_XPU; }));
}

TEST_P(Accelerators, NothingIsExported) {
  Fabric fabric(target());
  Node node(fabric);
  fid_xpu_ep endpoint{};
  EXPECT_EQ(fi_ep_export_xpu(node.ep(), 0, &endpoint), -FI_ENOSYS);
  CompletionQueue queue(fabric);
  fid_xpu_cq exported_queue{};
  EXPECT_EQ(fi_cq_export_xpu(queue.get(), 0, &exported_queue), -FI_ENOSYS);
  fid_cntr* counter = nullptr;
  fi_cntr_attr attr{};
  ASSERT_EQ(fi_cntr_open(fabric.domain(), &attr, &counter, nullptr), 0);
  fid_xpu_cntr exported_counter{};
  EXPECT_EQ(fi_cntr_export_xpu(counter, 0, &exported_counter), -FI_ENOSYS);
  EXPECT_EQ(fi_close(&counter->fid), 0);
}

TEST_P(Accelerators, RegionsHaveNoDescriptorForThem) {
  Fabric fabric(target());
  char memory[64] = {};
  fid_mr* region = nullptr;
  ASSERT_EQ(fi_mr_reg(fabric.domain(), memory, sizeof memory, FI_SEND | FI_RECV, 0, 1, 0, &region, nullptr), 0);
  EXPECT_EQ(fi_mr_get_xpu_desc(region, memory, sizeof memory, FI_XPU, nullptr), -FI_ENOSYS);
  EXPECT_EQ(fi_close(&region->fid), 0);
}

TEST_P(Accelerators, QueuesAndCountersForThemAreRefused) {
  Fabric fabric(target());
  fi_cq_attr queue_attr{};
  queue_attr.flags = FI_XPU;
  fid_cq* queue = nullptr;
  EXPECT_LT(fi_cq_open(fabric.domain(), &queue_attr, &queue, nullptr), 0);
  fi_cntr_attr counter_attr{};
  counter_attr.flags = FI_XPU;
  fid_cntr* counter = nullptr;
  EXPECT_LT(fi_cntr_open(fabric.domain(), &counter_attr, &counter, nullptr), 0);
}

TEST_P(Accelerators, AttributesOfEarlierReleasesAreReadToTheirEnd) {
  Fabric fabric(target());
  fi_cq_attr queue_attr{};
  queue_attr.format = FI_CQ_FORMAT_DATA;
  const FrontOf queue_front(&queue_attr, 40);
  fid_cq* queue = nullptr;
  ASSERT_EQ(fi_cq_open(fabric.domain(), queue_front.as<fi_cq_attr>(), &queue, nullptr), 0);
  EXPECT_EQ(fi_close(&queue->fid), 0);
  fi_cntr_attr counter_attr{};
  const FrontOf counter_front(&counter_attr, 24);
  fid_cntr* counter = nullptr;
  ASSERT_EQ(fi_cntr_open(fabric.domain(), counter_front.as<fi_cntr_attr>(), &counter, nullptr), 0);
  EXPECT_EQ(fi_close(&counter->fid), 0);
}

}  // namespace accelerators
