// SPDX-License-Identifier: BSD-2-Clause
// The calls that only API 1.1 has, or has otherwise. A program of its own: the generations share names.
#define KFI_API 0x10001
#include <cstring>
#include <functional>
#include <string>

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

TEST(TimeOut, EveryWaitObjectWaits) {
  Connected pair({}, KFI_MSG);
  for (const kfi_wait_obj object : {KFI_WAIT_NONE, KFI_WAIT_UNSPEC, KFI_WAIT_FD, KFI_WAIT_MUTEX_COND}) {
    char room[64];
    uint32_t event;
    kfi_eq_attr eq_attr{};
    eq_attr.wait_obj = object;
    kfid_eq* eq = nullptr;
    ASSERT_EQ(kfi_eq_open(pair.both.fabric, &eq_attr, &eq, nullptr), 0) << object;
    EXPECT_EQ(kfi_eq_sread(eq, &event, room, sizeof room, 5, 0), -KFI_ETIMEDOUT) << object;
    EXPECT_EQ(kfi_eq_sread(eq, &event, room, sizeof room, 5, KFI_TIME_US), -KFI_ETIMEDOUT) << object;
    EXPECT_EQ(kfi_close(&eq->fid), 0);
    for (const uint64_t unit : {0ull, KFI_TIME_US}) {
      kfi_cq_attr cq_attr{};
      cq_attr.wait_obj = object;
      cq_attr.flags = unit;
      kfid_cq* cq = nullptr;
      ASSERT_EQ(kfi_cq_open(pair.both.domain, &cq_attr, &cq, nullptr), 0) << object;
      EXPECT_EQ(kfi_cq_sread(cq, room, 1, nullptr, 5), -KFI_ETIMEDOUT) << object;
      EXPECT_EQ(kfi_close(&cq->fid), 0);
    }
  }
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

// ---- Structures -----------------------------------------------------------------------------------------------------

TEST(Structures, AttributesAreWhereThisGenerationHasThem) {
  Connected pair({}, KFI_MSG | KFI_RMA);
  const kfi_info& info = *pair.both.info;
  EXPECT_STREQ(info.fabric_attr->prov_name, "tcp");
  EXPECT_GT(info.rx_attr->size, 0u);
  EXPECT_GT(info.rx_attr->iov_limit, 0u);
  EXPECT_LT(info.rx_attr->iov_limit, 64u);
  EXPECT_EQ(info.rx_attr->iov_limit, info.tx_attr->iov_limit);
  EXPECT_GT(info.ep_attr->max_msg_size, 1u << 20);
  EXPECT_GT(info.domain_attr->max_ep_rx_ctx, 0u);
  EXPECT_EQ(info.domain_attr->mr_mode, KFI_MR_SCALABLE);
  EXPECT_EQ((info.tx_attr->msg_order | info.rx_attr->msg_order) & ~(KFI_ORDER_STRICT | KFI_ORDER_DATA), 0u);
  kfi_info* copy = kfi_dupinfo(&info);
  ASSERT_NE(copy, nullptr);
  EXPECT_NE(copy->domain_attr->name, info.domain_attr->name);
  EXPECT_STREQ(copy->domain_attr->name, info.domain_attr->name);
  EXPECT_EQ(copy->rx_attr->iov_limit, info.rx_attr->iov_limit);
  EXPECT_EQ(copy->handle, nullptr);
  kfi_freeinfo(copy);
  const std::string text = kfi_tostr(&info, KFI_TYPE_INFO);
  EXPECT_NE(text.find("prov_name: tcp"), std::string::npos) << text;
  const uint32_t protocol = KFI_PROTO_SOCK_TCP;
  EXPECT_STREQ(kfi_tostr(&protocol, KFI_TYPE_PROTOCOL), "FI_PROTO_SOCK_TCP");
  const std::string receive = kfi_tostr(info.rx_attr, KFI_TYPE_RX_ATTR);
  EXPECT_NE(receive.find("iov_limit: " + std::to_string(info.rx_attr->iov_limit)), std::string::npos) << receive;
}

TEST(Structures, VersionsAndFormatsOfLaterGenerationsAreUnknown) {
  kfi_info *hints = hints_for("tcp"), *info = nullptr;
  EXPECT_EQ(kfi_getinfo(KFI_VERSION(1, 2), hints, &info), -KFI_ENOSYS);
  EXPECT_EQ(kfi_getinfo(KFI_VERSION(KFI_MAJOR_VERSION, KFI_MINOR_VERSION), hints, &info), 0);
  kfi_freeinfo(info);
  hints->addr_format = KFI_ADDR_OPA1;
  EXPECT_EQ(kfi_getinfo(0, hints, &info), -KFI_ENODATA);
  hints->addr_format = KFI_ADDR_GNI + 1;
  EXPECT_EQ(kfi_getinfo(0, hints, &info), -KFI_ENODATA);
  for (uint32_t format : {KFI_ADDR_PSMX, KFI_ADDR_GNI}) {
    const char* const name = format == KFI_ADDR_PSMX ? "FI_ADDR_PSMX" : "FI_ADDR_GNI";
    EXPECT_STREQ(kfi_tostr(&format, KFI_TYPE_ADDR_FORMAT), name);
  }
  kfi_freeinfo(hints);
}

// An entry with bytes behind it that are not the library's.
template <class Entry>
struct Guarded {
  Entry entry{};
  char behind[16];

  Guarded() { memset(behind, 0x5A, sizeof behind); }
  void expect_whole() const {
    EXPECT_EQ(std::string(behind, sizeof behind), std::string(sizeof behind, 0x5A)) << "written behind the entry";
  }
};

TEST(Structures, ErrorOfACompletionEndsWithItsEntry) {
  Connected pair({}, KFI_MSG);
  char byte = 0;
  ASSERT_EQ(kfi_recv(pair.ep(1), &byte, 1, nullptr, 0, &byte), 0);
  ASSERT_EQ(kfi_cancel(&pair.ep(1)->fid, &byte), 0);
  kfi_cq_tagged_entry entry;
  ASSERT_EQ(next_completion(pair.cq(1), &entry), -KFI_EAVAIL);
  Guarded<kfi_cq_err_entry> error;
  ASSERT_EQ(kfi_cq_readerr(pair.cq(1), &error.entry, 0), static_cast<ssize_t>(sizeof error.entry));
  EXPECT_EQ(error.entry.err, KFI_ECANCELED);
  EXPECT_EQ(error.entry.op_context, &byte);
  error.expect_whole();
}

// The handle has two names, and the error entry of the peer has no size of its data.
TEST(Structures, RequestIsRejectedByEitherHandle) {
  Connected pair({}, KFI_MSG);
  kfid_eq *listening = open_eq(pair.both.fabric), *eq = open_eq(pair.both.fabric);
  kfi_info* hints = hints_for("tcp");
  hints->src_addr = address_of("127.0.0.1", "0");
  hints->src_addrlen = sizeof(sockaddr_in);
  kfi_info* info = find(hints);
  kfid_pep* pep = nullptr;
  sockaddr_in name{};
  size_t size = sizeof name;
  OK(kfi_passive_ep(pair.both.fabric, info, &pep, nullptr));
  OK(kfi_pep_bind(pep, &listening->fid, 0));
  OK(kfi_listen(pep));
  OK(kfi_getname(&pep->fid, &name, &size));
  for (const bool older : {true, false}) {
    kfid_ep* ep = nullptr;
    OK(kfi_endpoint(pair.both.domain, pair.both.info, &ep, nullptr));
    OK(kfi_ep_bind(ep, &eq->fid, 0));
    OK(kfi_ep_bind(ep, &pair.cq(0)->fid, KFI_SEND | KFI_RECV));
    OK(kfi_enable(ep));
    OK(kfi_connect(ep, &name, nullptr, 0));
    uint32_t event_id = 99;
    union event event;
    ASSERT_GT(next_event(listening, &event_id, &event, eq), 0);
    ASSERT_NE(event.entry.info->handle, nullptr);
    EXPECT_EQ(event.entry.info->connreq, event.entry.info->handle);
    EXPECT_EQ(kfi_reject(pep, older ? event.entry.info->connreq : event.entry.info->handle, "no", 3), 0);
    kfi_freeinfo(event.entry.info);
    EXPECT_EQ(next_event(eq, &event_id, &event, listening), -KFI_EAVAIL);
    Guarded<kfi_eq_err_entry> error;
    ASSERT_EQ(kfi_eq_readerr(eq, &error.entry, 0), static_cast<ssize_t>(sizeof error.entry));
    EXPECT_EQ(error.entry.fid, &ep->fid);
    EXPECT_EQ(error.entry.err, KFI_ECONNREFUSED);
    EXPECT_STREQ(static_cast<char*>(error.entry.err_data), "no");
    error.expect_whole();
    OK(kfi_close(&ep->fid));
  }
  for (kfid* object : {&pep->fid, &listening->fid, &eq->fid}) EXPECT_EQ(kfi_close(object), 0);
  kfi_freeinfo(info);
  kfi_freeinfo(hints);
}

TEST(Structures, RegionsOfSeveralPiecesByTheirSlots) {
  Connected pair({}, KFI_MSG | KFI_RMA);
  kfid_domain* const domain = pair.both.domain;
  char memory[64] = {};
  const kvec pieces[2] = {{memory, 16}, {memory + 16, 16}};
  kfid_mr* mr = nullptr;
  ASSERT_EQ(domain->mr->regv(&domain->fid, pieces, 2, KFI_SEND, 0, 31, 0, &mr, nullptr), 0);
  EXPECT_EQ(kfi_close(&mr->fid), 0);
  kfi_mr_attr attr{};
  attr.mr_iov = pieces;
  attr.iov_count = 1;
  attr.access = KFI_REMOTE_READ | KFI_REMOTE_WRITE;
  attr.requested_key = 32;
  attr.context = &attr;
  ASSERT_EQ(domain->mr->regattr(&domain->fid, &attr, 0, &mr), 0);
  EXPECT_EQ(kfi_mr_key(mr), 32u);
  EXPECT_EQ(mr->fid.context, &attr);
  EXPECT_EQ(kfi_close(&mr->fid), 0);
}

// ---- Queues that are closed before the objects bound to them
// ---------------------------------------------------------

TEST(Handler, ClosesAnObjectWhileItsClosedQueueEnds) {
  Connected pair({}, KFI_MSG | KFI_RMA);
  struct Running {
    kfid_mr* mr = nullptr;
    std::atomic<bool> inside{false};
    std::atomic<int> result{-1};
  } running;
  char memory[8];
  uint64_t address = 0;
  ASSERT_EQ(kfi_mr_reg(pair.both.domain, memory, 8, KFI_SEND, 0, 34, 0, &running.mr, nullptr, &address), 0);
  kfi_eq_attr attr{};
  attr.flags = KFI_WRITE;
  kfid_eq* eq = nullptr;
  const kfi_event_handler handler = [](kfid_eq*, void* context) {
    auto* self = static_cast<Running*>(context);
    self->inside = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    self->result = kfi_close(&self->mr->fid);
  };
  ASSERT_EQ(pair.both.fabric->ops->eq_open(pair.both.fabric, &attr, &eq, handler, &running), 0);
  kfid_pep* pep = nullptr;
  ASSERT_EQ(kfi_passive_ep(pair.both.fabric, pair.both.info, &pep, nullptr), 0);
  ASSERT_EQ(kfi_pep_bind(pep, &eq->fid, 0), 0);
  const kfi_eq_entry entry{};
  ASSERT_EQ(kfi_eq_write(eq, KFI_NOTIFY, &entry, sizeof entry, 0), static_cast<ssize_t>(sizeof entry));
  EXPECT_EQ(kfi_close(&eq->fid), 0) << "it ends with the passive endpoint";
  ASSERT_TRUE(becomes([&] { return running.inside.load(); }));
  EXPECT_EQ(kfi_close(&pep->fid), 0);
  EXPECT_EQ(running.result, 0);
}

// ---- Flags that only this generation has ----------------------------------------------------------------------------

TEST(Flags, OffsetAndKeyOfARegionCountAnyway) {
  Connected pair({}, KFI_MSG | KFI_RMA);
  char memory[8];
  kfid_mr* mr = nullptr;
  uint64_t address = 1;
  ASSERT_EQ(kfi_mr_reg(pair.both.domain, memory, 8, KFI_REMOTE_WRITE, 0, 33, KFI_MR_OFFSET | KFI_MR_KEY, &mr, nullptr,
                       &address),
            0);
  EXPECT_EQ(kfi_mr_key(mr), 33u);
  EXPECT_EQ(address, 0u);
  EXPECT_EQ(kfi_close(&mr->fid), 0);
}

TEST(Flags, QueueThatCanWait) {
  Connected pair({}, KFI_MSG);
  kfi_cq_attr attr{};
  attr.flags = KFI_CQ_CAN_WAIT;
  kfid_cq* cq = nullptr;
  ASSERT_EQ(kfi_cq_open(pair.both.domain, &attr, &cq, nullptr), 0);
  EXPECT_EQ(kfi_close(&cq->fid), 0);
}

// A message that was found is the finder's, until it takes or drops it.
TEST(Flags, FoundMessagesAreClaimedOrDiscarded) {
  Connected pair({}, KFI_MSG | KFI_TAGGED);
  char sent[8] = "message", received[8] = "";
  for (const uint64_t what : {KFI_CLAIM, KFI_DISCARD}) {
    ASSERT_EQ(kfi_tinject(pair.ep(0), sent, sizeof sent, 0, 7), 0);
    uint64_t tag = 7;
    size_t len = 0;
    kfi_cq_tagged_entry entry{};
    ASSERT_TRUE(becomes([&] {
      if (entry.len == sizeof sent) return true;
      EXPECT_EQ(kfi_tsearch(pair.ep(1), &tag, 0, KFI_CLAIM, nullptr, &len, &tag), 0);
      if (next_completion(pair.cq(1), &entry) == 1) return true;
      kfi_cq_err_entry error{};
      kfi_cq_readerr(pair.cq(1), &error, 0);
      return false;
    }));
    const kvec piece{received, sizeof received};
    kfi_msg_tagged message{};
    message.msg_iov = &piece;
    message.iov_count = what == KFI_CLAIM ? 1 : 0;
    message.tag = 7;
    message.context = &tag;
    ASSERT_EQ(kfi_trecvmsg(pair.ep(1), &message, what == KFI_CLAIM ? KFI_CLAIM : KFI_CLAIM | KFI_DISCARD), 0);
    EXPECT_EQ(next(pair.cq(1)).op_context, &tag);
    if (what == KFI_CLAIM) {
      EXPECT_STREQ(received, sent);
    }
  }
}

}  // namespace
