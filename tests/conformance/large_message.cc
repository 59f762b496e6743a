// SPDX-License-Identifier: BSD-2-Clause
// Messages and RMA beyond 2 GiB, where signed 32-bit lengths and single socket calls fail. Skipped without enough
// memory.
#include <rdma/fi_rma.h>

#include <fstream>

#include "fixture/node.h"

namespace large_message {

CONFORMANCE_TOPIC(LargeMessage);

namespace {

constexpr size_t kSize = (size_t{2} << 30) + 4097;
const HintsEditor kRma = [](fi_info& hints) { hints.caps = FI_MSG | FI_RMA; };

bool memory_suffices() {
  std::ifstream meminfo("/proc/meminfo");
  std::string word;
  size_t kib = 0;
  while (meminfo >> word)
    if (word == "MemAvailable:" && meminfo >> kib) break;
  return kib * 1024 > 3 * kSize;
}

Completion patient(CompletionQueue& cq) {
  return cq.wait(after(std::chrono::seconds(60)));
}

}  // namespace

TEST_P(LargeMessage, MoreThanTwoGibibytesArriveWhole) {
  if (!memory_suffices()) GTEST_SKIP() << "less than 6 GiB of memory are available";
  if (Fabric(target()).info()->ep_attr->max_msg_size < kSize) GTEST_SKIP() << "beyond max_msg_size";
  Fabric fabric(target());
  Pair pair(fabric);
  Buffer out(fabric, kSize), in(fabric, kSize);
  out.fill_pattern(1);
  Context sent, received;
  ASSERT_EQ(pair.b().recv(in, kSize, &received), 0);
  ASSERT_EQ(pair.a().send(out, kSize, &sent), 0);
  const Completion completion = patient(pair.b().rx());
  ASSERT_TRUE(completion.ok()) << completion;
  EXPECT_EQ(completion.entry.len, kSize);
  EXPECT_TRUE(patient(pair.a().tx()).ok());
  EXPECT_TRUE(in.holds_pattern(1, kSize));
  expect_exchange(pair);
}

TEST_P(LargeMessage, MoreThanTwoGibibytesAreWrittenAndRead) {
  if (!memory_suffices()) GTEST_SKIP() << "less than 6 GiB of memory are available";
  NEEDS(kRma, "FI_RMA");
  Fabric fabric(target(), kRma);
  if (fabric.info()->ep_attr->max_msg_size < kSize) GTEST_SKIP() << "beyond max_msg_size";
  Pair pair(fabric);
  Buffer local(fabric, kSize, 0, FI_READ | FI_WRITE), remote(fabric, kSize, 0, FI_REMOTE_READ | FI_REMOTE_WRITE);
  local.fill_pattern(2);
  Context context;
  fid_ep* ep = pair.a().ep();
  ASSERT_EQ(
      fi_write(ep, local.data(), kSize, local.desc(), pair.a().peer, remote.remote_address(), remote.key(), &context),
      0);
  ASSERT_TRUE(patient(pair.a().tx()).ok());
  std::memset(local.data(), 0, kSize);
  ASSERT_EQ(
      fi_read(ep, local.data(), kSize, local.desc(), pair.a().peer, remote.remote_address(), remote.key(), &context),
      0);
  ASSERT_TRUE(patient(pair.a().tx()).ok());
  EXPECT_TRUE(local.holds_pattern(2, kSize));
}

}  // namespace large_message
