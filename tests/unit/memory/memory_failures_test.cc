// SPDX-License-Identifier: BSD-2-Clause
// Every allocation of a conversation fails once, over every provider; fi_errno(3). Each call works or returns
// -FI_ENOMEM, each operation completes or fails, everything can be closed, nothing is leaked, and nothing hangs.
// WEFT_MEMORY_STRIDE in the environment: only every so many allocations (1).
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <string>
#include <utility>

#include "conversation.h"

namespace memory_failures {

// ---- The tests ----

class MemoryFailures : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (!FailingAllocation::supported()) GTEST_SKIP() << "a sanitizer has its own allocator";
    setenv("FI_PROVIDER_PATH", "/nonexistent", 1);
    setenv("FI_TCP_START_TIMEOUT", "0", 1);
    setenv("FI_OFI_RXM_START_TIMEOUT", "0", 1);
  }
  struct Outcome {
    std::string complaints;
    bool failed;
    long kept;  // blocks
  };
  static Outcome run(Part part, size_t nth, size_t count) {
    const SparedAllocations spared;
    const long before = weft::test::live_allocations();
    Conversation conversation(GetParam(), part, nth, count);
    std::string complaints = conversation.run();
    return {std::move(complaints), conversation.failed(), weft::test::live_allocations() - before};
  }

  void expect_survival(size_t count) {
    for (const Part part : {Part::kTransfers, Part::kRest}) expect_survival(part, count);
  }
  void expect_survival(Part part, size_t count) {
    for (int i = 0; i < 3; ++i) ASSERT_EQ(run(part, 0, 0).complaints, "") << "without a failure";
    size_t nth = 1;
    std::set<std::string> seen;
    const char* const stride = std::getenv("WEFT_MEMORY_STRIDE");
    const size_t step = stride != nullptr ? std::strtoul(stride, nullptr, 10) : 1;
    for (bool failed = true; failed; nth += step) {
      Outcome outcome = run(part, nth, count);
      failed = outcome.failed;
      if (!outcome.complaints.empty() && seen.insert(outcome.complaints).second)
        ADD_FAILURE() << (part == Part::kRest ? "rest, " : "") << "allocation " << nth << ": " << outcome.complaints;
      // A block that the library keeps for later use is kept once; one that is lost is lost each time.
      for (int i = 0; i < 2 && outcome.kept != 0; ++i) outcome = run(part, nth, count);
      EXPECT_EQ(outcome.kept, 0) << "blocks are lost when allocation " << nth << " fails";
    }
    ASSERT_GT(nth, 20u) << "something was allocated";
    EXPECT_EQ(run(part, 0, 0).complaints, "") << "with memory again";
  }
};

TEST_P(MemoryFailures, EachAllocationFailsOnce) {
  expect_survival(1);
}

TEST_P(MemoryFailures, BurstsOfAllocationsFail) {
  if (!FailingAllocation::complete()) GTEST_SKIP() << "slow with a sanitizer";
  for (const size_t count : {3, 20}) expect_survival(count);
}

TEST_P(MemoryFailures, AllAllocationsFailForAWhile) {
  expect_survival(FailingAllocation::kAll);
}

#ifdef WEFT_ON_FAKES
INSTANTIATE_TEST_SUITE_P(, MemoryFailures,
                         testing::Values(Kind{"verbs_msg", "verbs", FI_EP_MSG},
                                         Kind{"verbs_dgram", "verbs", FI_EP_DGRAM},
                                         Kind{"rxm", "verbs;ofi_rxm", FI_EP_RDM}),
                         [](const auto& kind) { return std::string(kind.param.name); });
#else
INSTANTIATE_TEST_SUITE_P(, MemoryFailures,
                         testing::Values(Kind{"tcp_msg", "tcp", FI_EP_MSG}, Kind{"udp", "udp", FI_EP_DGRAM},
                                         Kind{"tcp_rdm", "tcp", FI_EP_RDM}, Kind{"rxm", "tcp;ofi_rxm", FI_EP_RDM}),
                         [](const auto& kind) { return std::string(kind.param.name); });
#endif

}  // namespace memory_failures
