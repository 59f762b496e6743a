// SPDX-License-Identifier: BSD-2-Clause
// The calls of kfabric that the other programs do not make, once each, on reliable datagrams that go to their sender:
// each reaches the provider beneath with its arguments.
#include "calls.h"

namespace {

TEST_F(Calls, MessagesInEachForm) {
  const Halves from(sent), to(received);
  POSTED(kfi_recvsgl(ep, to.sgl, nullptr, 2, self, nullptr));
  POSTED(kfi_sendbv(ep, from.bvec, nullptr, 2, self, nullptr));
  expect_message(KFI_MSG);
  POSTED(kfi_recvbv(ep, to.bvec, nullptr, 2, self, nullptr));
  POSTED(kfi_sendsgl(ep, from.sgl, nullptr, 2, self, nullptr));
  expect_message(KFI_MSG);
  POSTED(kfi_recv(ep, received, sizeof received, nullptr, self, nullptr));
  POSTED(kfi_inject(ep, sent, sizeof sent, self));
  expect_message(KFI_MSG, 0, false);
  POSTED(kfi_recv(ep, received, sizeof received, nullptr, self, nullptr));
  POSTED(kfi_injectdata(ep, sent, sizeof sent, 77, self));
  expect_message(KFI_MSG, 77, false);
}

TEST_F(Calls, TaggedMessagesInEachForm) {
  const Halves from(sent), to(received);
  const auto expect_next = [&](uint64_t data = 0, bool has_send = true) { expect_message(KFI_TAGGED, data, has_send); };
  POSTED(kfi_trecv(ep, received, sizeof received, nullptr, self, 3, 0, nullptr));
  POSTED(kfi_tsend(ep, sent, sizeof sent, nullptr, self, 3, nullptr));
  expect_next();
  POSTED(kfi_trecvv(ep, to.vec, nullptr, 2, self, 1, 2, nullptr));
  POSTED(kfi_tsendv(ep, from.vec, nullptr, 2, self, 3, nullptr));
  expect_next();
  POSTED(kfi_trecvbv(ep, to.bvec, nullptr, 2, self, 3, 0, nullptr));
  POSTED(kfi_tsendbv(ep, from.bvec, nullptr, 2, self, 3, nullptr));
  expect_next();
  POSTED(kfi_trecvsgl(ep, to.sgl, nullptr, 2, self, 3, 0, nullptr));
  POSTED(kfi_tsendsgl(ep, from.sgl, nullptr, 2, self, 3, nullptr));
  expect_next();
  POSTED(kfi_trecv(ep, received, sizeof received, nullptr, self, 3, 0, nullptr));
  POSTED(kfi_tinject(ep, sent, sizeof sent, self, 3));
  expect_next(0, false);
  POSTED(kfi_trecv(ep, received, sizeof received, nullptr, self, 3, 0, nullptr));
  POSTED(kfi_tsenddata(ep, sent, sizeof sent, nullptr, 78, self, 3, nullptr));
  expect_next(78);
  POSTED(kfi_trecv(ep, received, sizeof received, nullptr, self, 3, 0, nullptr));
  POSTED(kfi_tinjectdata(ep, sent, sizeof sent, 79, self, 3));
  expect_next(79, false);
  kfi_msg_tagged message{};
  message.type = KFI_BVEC;
  message.msg_biov = from.bvec;
  message.iov_count = 2;
  message.addr = self;
  message.tag = 3;
  message.data = 80;
  POSTED(kfi_trecv(ep, received, sizeof received, nullptr, self, 3, 0, nullptr));
  POSTED(kfi_tsendmsg(ep, &message, KFI_REMOTE_CQ_DATA));
  expect_next(80);
}

TEST_F(Calls, RemoteAccessInEachForm) {
  const Halves from(sent), to(received);
  kfi_rma_iov remote{at, sizeof target, key};
  kfi_msg_rma message{};
  message.type = KFI_SGL;
  message.msg_sgl = from.sgl;
  message.iov_count = 2;
  message.rma_iov = &remote;
  message.rma_iov_count = 1;
  message.addr = self;
  const auto expect_there = [&] {
    EXPECT_TRUE(becomes([&] {
      POSTED(kfi_read(ep, received, sizeof received, nullptr, self, at, key, nullptr));
      expect_access(KFI_RMA | KFI_READ);
      return memcmp(sent, received, sizeof sent) == 0;
    }));
    for (char& byte : sent) byte++;
  };
  POSTED(kfi_writemsg(ep, &message, KFI_COMPLETION | KFI_DELIVERY_COMPLETE));
  expect_access(KFI_RMA | KFI_WRITE);
  expect_there();
  POSTED(kfi_writesgl(ep, from.sgl, nullptr, 2, self, at, key, nullptr));
  expect_access(KFI_RMA | KFI_WRITE);
  expect_there();
  POSTED(kfi_inject_write(ep, sent, sizeof sent, self, at, key));
  expect_there();
  POSTED(kfi_inject_writedata(ep, sent, sizeof sent, 81, self, at, key));
  const kfi_cq_tagged_entry entry = next(cq);
  EXPECT_TRUE(entry.flags & KFI_REMOTE_CQ_DATA);
  EXPECT_EQ(entry.data, 81u);
  expect_there();
  message.msg_sgl = to.sgl;
  const auto expect_read = [&] {
    expect_access(KFI_RMA | KFI_READ);
    EXPECT_EQ(memcmp(received, target, sizeof received), 0);
    memset(received, 0, sizeof received);
  };
  POSTED(kfi_readmsg(ep, &message, KFI_COMPLETION));
  expect_read();
  POSTED(kfi_readbv(ep, to.bvec, nullptr, 2, self, at, key, nullptr));
  expect_read();
  POSTED(kfi_readsgl(ep, to.sgl, nullptr, 2, self, at, key, nullptr));
  expect_read();
}

// Adds 2 to the target, or swaps it for the operand.
class Atomics : public Calls {
 protected:
  Atomics() {
    message.msg_iov = &operands;
    message.iov_count = 1;
    message.addr = self;
    message.rma_iov = &remote;
    message.rma_iov_count = 1;
    message.datatype = KFI_UINT64;
    message.op = KFI_SUM;
    remote = {at, 1, key};
  }
  void expect_added(bool completes = true) {
    if (completes) expect_access(KFI_ATOMIC | KFI_WRITE);
    expected += operand;
    EXPECT_TRUE(becomes([&] {
      uint64_t value = 0;
      POSTED(kfi_fetch_atomic(ep, nullptr, 1, nullptr, &value, nullptr, self, at, key, KFI_UINT64, KFI_ATOMIC_READ,
                              nullptr));
      expect_access(KFI_ATOMIC | KFI_READ);
      return value == expected;
    }));
  }
  void expect_fetched_and_added() {
    expect_access(KFI_ATOMIC | KFI_READ);
    EXPECT_EQ(result, expected);
    expected += operand;
  }
  void expect_swapped() {
    expect_access(KFI_ATOMIC | KFI_READ);
    EXPECT_EQ(result, compare);
    EXPECT_EQ(target[0], operand);
    compare = operand++;
  }

  uint64_t operand = 2, compare = 0, result = 99, expected = 0;
  kfi_ioc operands{&operand, 1}, compares{&compare, 1}, results{&result, 1};
  kfi_rma_ioc remote{};
  kfi_msg_atomic message{};
};

TEST_F(Atomics, InEachForm) {
  POSTED(kfi_atomic(ep, &operand, 1, nullptr, self, at, key, KFI_UINT64, KFI_SUM, nullptr));
  expect_added();
  POSTED(kfi_atomicv(ep, &operands, nullptr, 1, self, at, key, KFI_UINT64, KFI_SUM, nullptr));
  expect_added();
  POSTED(kfi_atomicmsg(ep, &message, KFI_DELIVERY_COMPLETE | KFI_COMPLETION));
  expect_added();
  POSTED(kfi_inject_atomic(ep, &operand, 1, self, at, key, KFI_UINT64, KFI_SUM));
  expect_added(false);
  POSTED(kfi_fetch_atomic(ep, &operand, 1, nullptr, &result, nullptr, self, at, key, KFI_UINT64, KFI_SUM, nullptr));
  expect_fetched_and_added();
  POSTED(
      kfi_fetch_atomicv(ep, &operands, nullptr, 1, &results, nullptr, 1, self, at, key, KFI_UINT64, KFI_SUM, nullptr));
  expect_fetched_and_added();
  POSTED(kfi_fetch_atomicmsg(ep, &message, &results, nullptr, 1, KFI_COMPLETION));
  expect_fetched_and_added();
  compare = expected;
  POSTED(kfi_compare_atomic(ep, &operand, 1, nullptr, &compare, nullptr, &result, nullptr, self, at, key, KFI_UINT64,
                            KFI_CSWAP, nullptr));
  expect_swapped();
  POSTED(kfi_compare_atomicv(ep, &operands, nullptr, 1, &compares, nullptr, 1, &results, nullptr, 1, self, at, key,
                             KFI_UINT64, KFI_CSWAP, nullptr));
  expect_swapped();
  message.op = KFI_CSWAP;
  POSTED(kfi_compare_atomicmsg(ep, &message, &compares, nullptr, 1, &results, nullptr, 1, KFI_COMPLETION));
  expect_swapped();
}

TEST_F(Atomics, ProviderNamesWhatItCan) {
  for (auto valid : {kfi_atomicvalid, kfi_fetch_atomicvalid, kfi_compare_atomicvalid}) {
    size_t count = 0;
    EXPECT_EQ(valid(ep, KFI_UINT64, valid == kfi_compare_atomicvalid ? KFI_CSWAP : KFI_SUM, &count), 0);
    EXPECT_GT(count, 0u);
  }
  kfi_atomic_attr attr{};
  EXPECT_EQ(kfi_query_atomic(domain, KFI_UINT64, KFI_SUM, &attr, 0), 0);
  EXPECT_EQ(attr.size, sizeof(uint64_t));
}

}  // namespace
