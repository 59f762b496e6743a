// SPDX-License-Identifier: BSD-2-Clause
// The calls that only API 1.1 has, or has otherwise. A program of its own: the generations share names.
#define KFI_API 0x10001
#include <cstring>
#include <functional>

#include "connected.h"

namespace {

// Runs the call while another thread makes its event after a while.
void with_delay(const std::function<void()>& waits, const std::function<void()>& event) {
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    event();
  });
  waits();
  later.join();
}

TEST(TimeOut, ZeroAndNegativeWaitForEver) {
  Connected pair({}, KFI_MSG);
  kfi_eq_attr attr{};
  attr.flags = KFI_WRITE;
  kfid_eq* eq = nullptr;
  ASSERT_EQ(kfi_eq_open(pair.both.fabric, &attr, &eq, nullptr), 0);
  const kfi_eq_entry entry{};
  char byte = 0;
  for (int timeout : {0, -1}) {
    uint32_t event = 99;
    kfi_eq_entry read{};
    with_delay([&] { EXPECT_GT(kfi_eq_sread(eq, &event, &read, sizeof read, timeout, 0), 0); },
               [&] { EXPECT_GT(kfi_eq_write(eq, KFI_NOTIFY, &entry, sizeof entry, 0), 0); });
    kfi_cq_tagged_entry completion;
    ASSERT_EQ(kfi_recv(pair.ep(1), &byte, 1, nullptr, 0, nullptr), 0);
    with_delay([&] { EXPECT_EQ(kfi_cq_sread(pair.cq(1), &completion, 1, nullptr, timeout), 1); },
               [&] { EXPECT_EQ(kfi_inject(pair.ep(0), &byte, 1, 0), 0); });
  }
  EXPECT_EQ(kfi_close(&eq->fid), 0);
}

// Looks for a message, which stays; nothing has another tag.
TEST(Calls, SearchFindsATaggedMessage) {
  Connected pair({}, KFI_MSG | KFI_TAGGED);
  char sent[8] = "message", received[8] = "";
  ASSERT_EQ(kfi_tinject(pair.ep(0), sent, sizeof sent, 0, 7), 0);
  uint64_t tag = 7;
  size_t len = 0;
  kfi_cq_tagged_entry entry{};
  EXPECT_TRUE(becomes([&] {
    if (entry.len == sizeof sent) return true;
    EXPECT_EQ(kfi_tsearch(pair.ep(1), &tag, 0, 0, nullptr, &len, &tag), 0);
    if (next_completion(pair.cq(1), &entry) == 1) return entry.len == sizeof sent;
    kfi_cq_err_entry error{};
    EXPECT_EQ(kfi_cq_readerr(pair.cq(1), &error, 0), static_cast<ssize_t>(sizeof error));
    EXPECT_EQ(error.err, KFI_ENOMSG);
    return false;
  }));
  EXPECT_EQ(entry.op_context, &tag);
  EXPECT_EQ(entry.tag, 7u);
  ASSERT_EQ(kfi_trecv(pair.ep(1), received, sizeof received, nullptr, 0, 7, 0, nullptr), 0);
  next(pair.cq(1));
  EXPECT_STREQ(received, sent);
}

TEST(Calls, WhatLaterGenerationsLack) {
  Connected pair({}, KFI_MSG);
  EXPECT_EQ(kfi_cq_write(pair.cq(0), nullptr, 0), -KFI_ENOSYS);
  EXPECT_EQ(kfi_cq_writeerr(pair.cq(0), nullptr, 0, 0), -KFI_ENOSYS);
  for (auto left : {kfi_rx_size_left, kfi_tx_size_left}) {
    const ssize_t size = left(pair.ep(0));
    EXPECT_TRUE(size > 0 || size == -KFI_ENOSYS) << size;
  }
  kfi_info* hints = hints_for("tcp");
  hints->caps |= KFI_CANCEL | KFI_BUFFERED_RECV;
  kfi_deallocinfo(find(hints));
  kfi_deallocinfo(hints);
  kfid_mr* mr = nullptr;
  uint64_t address = 1;
  char memory[8];
  EXPECT_EQ(kfi_mr_reg(pair.both.domain, memory, 8, KFI_SEND, 0, 1, KFI_MR_PHYS_MEM, &mr, nullptr, &address),
            -KFI_EBADFLAGS);
  EXPECT_EQ(kfi_mr_reg(pair.both.domain, memory, 8, KFI_SEND, 0, 1, KFI_MR_DMA_ADDR, &mr, nullptr, &address),
            -KFI_EBADFLAGS);
}

// The event queue of a domain, with the bit of this generation.
TEST(Calls, RegistrationsHaveEvents) {
  Connected pair({}, KFI_MSG);
  kfid_domain* domain = nullptr;
  ASSERT_EQ(kfi_domain(pair.both.fabric, pair.both.info, &domain, nullptr), 0);
  kfid_eq* eq = open_eq(pair.both.fabric);
  ASSERT_EQ(kfi_domain_bind(domain, &eq->fid, KFI_REG_MR), 0);
  kfid_mr* mr = nullptr;
  uint64_t address = 1;
  char memory[8];
  ASSERT_EQ(kfi_mr_reg(domain, memory, 8, KFI_SEND, 0, 1, 0, &mr, &pair, &address), 0);
  uint32_t event = 99;
  kfi_eq_entry entry{};
  EXPECT_GT(kfi_eq_sread(eq, &event, &entry, sizeof entry, 20000, 0), 0);
  EXPECT_EQ(event, static_cast<uint32_t>(KFI_MR_COMPLETE));
  EXPECT_EQ(entry.fid, &mr->fid);
  EXPECT_EQ(entry.context, &pair);
  for (kfid* object : {&mr->fid, &domain->fid, &eq->fid}) EXPECT_EQ(kfi_close(object), 0);
}

}  // namespace
