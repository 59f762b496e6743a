// SPDX-License-Identifier: BSD-2-Clause
// The calls of kfabric that the other programs do not make, once each, on reliable datagrams that go to their sender:
// each reaches the provider beneath with its arguments.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include "connected.h"

namespace {

// An endpoint whose peer is itself, and a region of memory that it may access.
class Calls : public testing::Test {
 protected:
  Calls() {
    kfi_info* hints = hints_for("tcp");
    hints->ep_attr->type = KFI_EP_RDM;
    hints->caps = KFI_MSG | KFI_TAGGED | KFI_RMA | KFI_ATOMIC | KFI_SOURCE;
    hints->src_addr = address_of("127.0.0.1", "0");
    hints->src_addrlen = sizeof(sockaddr_in);
    info = find(hints);
    kfi_freeinfo(hints);
    OK(kfi_fabric(info->fabric_attr, &fabric, nullptr));
    OK(kfi_domain(fabric, info, &domain, nullptr));
    kfi_av_attr av_attr{};
    av_attr.type = KFI_AV_TABLE;
    OK(kfi_av_open(domain, &av_attr, &av, nullptr));
    kfi_cq_attr cq_attr{};
    cq_attr.format = KFI_CQ_FORMAT_TAGGED;
    cq = open_cq(domain, &cq_attr);
    kfi_cntr_attr cntr_attr{};
    OK(kfi_cntr_open(domain, &cntr_attr, &counter, nullptr));
    OK(kfi_endpoint(domain, info, &ep, nullptr));
    OK(kfi_ep_bind(ep, &av->fid, 0));
    OK(kfi_ep_bind(ep, &cq->fid, KFI_SEND | KFI_RECV));
    OK(kfi_ep_bind(ep, &counter->fid, KFI_RECV));
    OK(kfi_enable(ep));
    size_t size = sizeof name;
    OK(kfi_getname(&ep->fid, &name, &size));
    EXPECT_EQ(kfi_av_insert(av, &name, 1, &self, 0, nullptr), 1);
    OK(kfi_mr_reg(domain, &target, sizeof target, KFI_REMOTE_READ | KFI_REMOTE_WRITE, 0, 5, 0, &region, nullptr));
    at = region->iova;
    key = kfi_mr_key(region);
  }
  ~Calls() override {
    for (kfid* object : {&region->fid, &ep->fid, &counter->fid, &cq->fid, &av->fid, &domain->fid, &fabric->fid}) {
      EXPECT_EQ(kfi_close(object), 0);
    }
    kfi_freeinfo(info);
  }
  // The completions of a message from `sent` to `received`.
  void expect_message(uint64_t kind, uint64_t data = 0, bool has_send = true) {
    uint64_t flags = 0, wanted = kind | KFI_RECV | (has_send ? KFI_SEND : 0) | (data ? KFI_REMOTE_CQ_DATA : 0);
    for (int i = 0; i < (has_send ? 2 : 1); i++) {
      const kfi_cq_tagged_entry entry = next(cq);
      flags |= entry.flags;
      if (entry.flags & KFI_RECV) {
        EXPECT_EQ(entry.data, data);
        EXPECT_EQ(entry.len, sizeof sent);
        EXPECT_EQ(entry.tag, kind == KFI_TAGGED ? 3u : 0u);
      }
    }
    EXPECT_EQ(flags, wanted);
    EXPECT_EQ(memcmp(sent, received, sizeof sent), 0);
    memset(received, 0, sizeof received);
    for (char& byte : sent) byte++;
  }
  // The completion of a remote access, if it has one.
  void expect_access(uint64_t flags) { EXPECT_EQ(next(cq).flags, flags); }

  kfi_info* info = nullptr;
  kfid_fabric* fabric = nullptr;
  kfid_domain* domain = nullptr;
  kfid_av* av = nullptr;
  kfid_cq* cq = nullptr;
  kfid_cntr* counter = nullptr;
  kfid_ep* ep = nullptr;
  kfid_mr* region = nullptr;
  sockaddr_in name{};
  kfi_addr_t self = KFI_ADDR_NOTAVAIL;
  uint64_t at = 0, key = 0;
  alignas(8) char sent[32] = "thirty-one letters in a message";
  alignas(8) char received[32] = {};
  uint64_t target[4] = {};
};

// Both halves of a buffer in each of the forms.
struct Halves {
  kvec vec[2];
  bio_vec bvec[2];
  scatterlist sgl[2];

  explicit Halves(void* memory, unsigned len = 16) {
    for (unsigned i = 0; i < 2; i++) {
      char* const base = static_cast<char*>(memory) + i * len;
      const auto address = reinterpret_cast<uintptr_t>(base);
      vec[i] = {base, len};
      bvec[i] = {reinterpret_cast<page*>(address & ~4095ul), len, static_cast<unsigned>(address & 4095)};
      sgl[i] = {i == 1 ? 2ul : 0ul, 0, len, address, len};
    }
  }
};

TEST_F(Calls, MessagesInEachForm) {
  const Halves from(sent), to(received);
  OK(kfi_recvsgl(ep, to.sgl, nullptr, 2, self, nullptr));
  OK(kfi_sendbv(ep, from.bvec, nullptr, 2, self, nullptr));
  expect_message(KFI_MSG);
  OK(kfi_recvbv(ep, to.bvec, nullptr, 2, self, nullptr));
  OK(kfi_sendsgl(ep, from.sgl, nullptr, 2, self, nullptr));
  expect_message(KFI_MSG);
  OK(kfi_recv(ep, received, sizeof received, nullptr, self, nullptr));
  OK(kfi_inject(ep, sent, sizeof sent, self));
  expect_message(KFI_MSG, 0, false);
  OK(kfi_recv(ep, received, sizeof received, nullptr, self, nullptr));
  OK(kfi_injectdata(ep, sent, sizeof sent, 77, self));
  expect_message(KFI_MSG, 77, false);
}

TEST_F(Calls, TaggedMessagesInEachForm) {
  const Halves from(sent), to(received);
  const auto expect_next = [&](uint64_t data = 0, bool has_send = true) { expect_message(KFI_TAGGED, data, has_send); };
  OK(kfi_trecv(ep, received, sizeof received, nullptr, self, 3, 0, nullptr));
  OK(kfi_tsend(ep, sent, sizeof sent, nullptr, self, 3, nullptr));
  expect_next();
  OK(kfi_trecvv(ep, to.vec, nullptr, 2, self, 1, 2, nullptr));
  OK(kfi_tsendv(ep, from.vec, nullptr, 2, self, 3, nullptr));
  expect_next();
  OK(kfi_trecvbv(ep, to.bvec, nullptr, 2, self, 3, 0, nullptr));
  OK(kfi_tsendbv(ep, from.bvec, nullptr, 2, self, 3, nullptr));
  expect_next();
  OK(kfi_trecvsgl(ep, to.sgl, nullptr, 2, self, 3, 0, nullptr));
  OK(kfi_tsendsgl(ep, from.sgl, nullptr, 2, self, 3, nullptr));
  expect_next();
  OK(kfi_trecv(ep, received, sizeof received, nullptr, self, 3, 0, nullptr));
  OK(kfi_tinject(ep, sent, sizeof sent, self, 3));
  expect_next(0, false);
  OK(kfi_trecv(ep, received, sizeof received, nullptr, self, 3, 0, nullptr));
  OK(kfi_tsenddata(ep, sent, sizeof sent, nullptr, 78, self, 3, nullptr));
  expect_next(78);
  OK(kfi_trecv(ep, received, sizeof received, nullptr, self, 3, 0, nullptr));
  OK(kfi_tinjectdata(ep, sent, sizeof sent, 79, self, 3));
  expect_next(79, false);
  kfi_msg_tagged message{};
  message.type = KFI_BVEC;
  message.msg_biov = from.bvec;
  message.iov_count = 2;
  message.addr = self;
  message.tag = 3;
  message.data = 80;
  OK(kfi_trecv(ep, received, sizeof received, nullptr, self, 3, 0, nullptr));
  OK(kfi_tsendmsg(ep, &message, KFI_REMOTE_CQ_DATA));
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
      OK(kfi_read(ep, received, sizeof received, nullptr, self, at, key, nullptr));
      expect_access(KFI_RMA | KFI_READ);
      return memcmp(sent, received, sizeof sent) == 0;
    }));
    for (char& byte : sent) byte++;
  };
  OK(kfi_writemsg(ep, &message, KFI_COMPLETION | KFI_DELIVERY_COMPLETE));
  expect_access(KFI_RMA | KFI_WRITE);
  expect_there();
  OK(kfi_writesgl(ep, from.sgl, nullptr, 2, self, at, key, nullptr));
  expect_access(KFI_RMA | KFI_WRITE);
  expect_there();
  OK(kfi_inject_write(ep, sent, sizeof sent, self, at, key));
  expect_there();
  OK(kfi_inject_writedata(ep, sent, sizeof sent, 81, self, at, key));
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
  OK(kfi_readmsg(ep, &message, KFI_COMPLETION));
  expect_read();
  OK(kfi_readbv(ep, to.bvec, nullptr, 2, self, at, key, nullptr));
  expect_read();
  OK(kfi_readsgl(ep, to.sgl, nullptr, 2, self, at, key, nullptr));
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
      OK(kfi_fetch_atomic(ep, nullptr, 1, nullptr, &value, nullptr, self, at, key, KFI_UINT64, KFI_ATOMIC_READ,
                          nullptr));
      expect_access(KFI_ATOMIC | KFI_READ);
      return value == expected;
    }));
  }
  void expect_fetched_and_added(ssize_t posted) {
    EXPECT_EQ(posted, 0);
    expect_access(KFI_ATOMIC | KFI_READ);
    EXPECT_EQ(result, expected);
    expected += operand;
  }
  void expect_swapped(ssize_t posted) {
    EXPECT_EQ(posted, 0);
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
  OK(kfi_atomic(ep, &operand, 1, nullptr, self, at, key, KFI_UINT64, KFI_SUM, nullptr));
  expect_added();
  OK(kfi_atomicv(ep, &operands, nullptr, 1, self, at, key, KFI_UINT64, KFI_SUM, nullptr));
  expect_added();
  OK(kfi_atomicmsg(ep, &message, KFI_DELIVERY_COMPLETE | KFI_COMPLETION));
  expect_added();
  OK(kfi_inject_atomic(ep, &operand, 1, self, at, key, KFI_UINT64, KFI_SUM));
  expect_added(false);
  expect_fetched_and_added(
      kfi_fetch_atomic(ep, &operand, 1, nullptr, &result, nullptr, self, at, key, KFI_UINT64, KFI_SUM, nullptr));
  expect_fetched_and_added(
      kfi_fetch_atomicv(ep, &operands, nullptr, 1, &results, nullptr, 1, self, at, key, KFI_UINT64, KFI_SUM, nullptr));
  expect_fetched_and_added(kfi_fetch_atomicmsg(ep, &message, &results, nullptr, 1, KFI_COMPLETION));
  compare = expected;
  expect_swapped(kfi_compare_atomic(ep, &operand, 1, nullptr, &compare, nullptr, &result, nullptr, self, at, key,
                                    KFI_UINT64, KFI_CSWAP, nullptr));
  expect_swapped(kfi_compare_atomicv(ep, &operands, nullptr, 1, &compares, nullptr, 1, &results, nullptr, 1, self, at,
                                     key, KFI_UINT64, KFI_CSWAP, nullptr));
  message.op = KFI_CSWAP;
  expect_swapped(kfi_compare_atomicmsg(ep, &message, &compares, nullptr, 1, &results, nullptr, 1, KFI_COMPLETION));
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

TEST_F(Calls, AddressesOfAVector) {
  kfi_addr_t added[4] = {};
  EXPECT_EQ(kfi_av_insertsvc(av, "127.0.0.1", "4711", &added[0], 0, nullptr), 1);
  EXPECT_EQ(kfi_av_insertsym(av, "127.0.0.1", 1, "4712", 3, &added[1], 0, nullptr), 3);
  sockaddr_in looked_up{};
  size_t size = sizeof looked_up;
  ASSERT_EQ(kfi_av_lookup(av, added[3], &looked_up, &size), 0);
  EXPECT_EQ(ntohs(looked_up.sin_port), 4714);
  char text[64];
  size = sizeof text;
  EXPECT_NE(strstr(kfi_av_straddr(av, &looked_up, text, &size), "127.0.0.1:4714"), nullptr) << text;
  EXPECT_EQ(kfi_av_remove(av, &added[0], 4, 0), 0);
  EXPECT_NE(kfi_av_lookup(av, added[3], &looked_up, &size), 0);
  EXPECT_EQ(kfi_rx_addr(5, 2, 4), 5ull | 2ull << 60);
  EXPECT_EQ(kfi_rx_addr(5, 0, 0), 5u);
  kfid_mc* group = nullptr;
  EXPECT_LT(kfi_join(ep, &name, 0, &group, nullptr), 0) << "tcp has no groups";
  EXPECT_LT(kfi_setname(&ep->fid, &name, sizeof name), 0) << "an enabled endpoint keeps its name";
}

TEST_F(Calls, CountersCountAndWait) {
  EXPECT_EQ(kfi_cntr_set(counter, 5), 0);
  EXPECT_EQ(kfi_cntr_add(counter, 2), 0);
  EXPECT_TRUE(becomes([&] { return kfi_cntr_read(counter) == 7; }));
  EXPECT_EQ(kfi_cntr_wait(counter, 9, 5), -KFI_ETIMEDOUT);
  EXPECT_EQ(kfi_cntr_seterr(counter, 1), 0);
  EXPECT_EQ(kfi_cntr_adderr(counter, 2), 0);
  EXPECT_TRUE(becomes([&] { return kfi_cntr_readerr(counter) == 3; }));
  EXPECT_EQ(kfi_cntr_seterr(counter, 0), 0);
  EXPECT_EQ(kfi_cntr_set(counter, 0), 0);
  OK(kfi_recv(ep, received, sizeof received, nullptr, self, nullptr));
  OK(kfi_inject(ep, sent, sizeof sent, self));
  EXPECT_EQ(kfi_cntr_wait(counter, 1, 20000), 0);
  EXPECT_EQ(kfi_cntr_read(counter), 1u);
}

TEST_F(Calls, CountersAndWaitSetsHaveAUnitOfTime) {
  kfi_cntr_attr attr{};
  attr.flags = KFI_TIME_US;
  kfid_cntr* other = nullptr;
  ASSERT_EQ(kfi_cntr_open(domain, &attr, &other, nullptr), 0);
  const auto started = std::chrono::steady_clock::now();
  EXPECT_EQ(kfi_cntr_wait(other, 1, 20000), -KFI_ETIMEDOUT);
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - started;
  EXPECT_GE(waited.count(), 0.019);
  EXPECT_LT(waited.count(), 10) << "milliseconds";
  EXPECT_EQ(kfi_close(&other->fid), 0);
  attr.flags = KFI_TIME_US | KFI_TIME_MS;
  EXPECT_EQ(kfi_cntr_open(domain, &attr, &other, nullptr), -KFI_EBADFLAGS);
  kfi_wait_attr wait_attr{};
  wait_attr.flags = KFI_TIME_US | KFI_TIME_MS;
  kfid_wait* set = nullptr;
  EXPECT_EQ(kfi_wait_open(fabric, &wait_attr, &set), -KFI_EBADFLAGS);
}

TEST_F(Calls, SourcesSignalsAndTexts) {
  kfi_cq_tagged_entry entry{};
  for (const bool waits : {false, true}) {
    kfi_addr_t source = KFI_ADDR_NOTAVAIL;
    OK(kfi_recv(ep, received, sizeof received, nullptr, self, nullptr));
    OK(kfi_inject(ep, sent, sizeof sent, self));
    ssize_t count = 0;
    while (count != 1) {
      count =
          waits ? kfi_cq_sreadfrom(cq, &entry, 1, &source, nullptr, 20000) : kfi_cq_readfrom(cq, &entry, 1, &source);
      ASSERT_TRUE(count == 1 || count == -KFI_EAGAIN) << count;
    }
    EXPECT_EQ(source, self);
  }
  EXPECT_EQ(kfi_cq_readfrom(cq, &entry, 1, nullptr), -KFI_EINVAL);
  EXPECT_EQ(kfi_cq_signal(cq), 0);
  EXPECT_EQ(kfi_cq_sread(cq, &entry, 1, nullptr, 20000), -KFI_EAGAIN);
  char text[128] = "";
  EXPECT_NE(kfi_cq_strerror(cq, 0, nullptr, text, sizeof text), nullptr);
  kfid_eq* eq = open_eq(fabric);
  EXPECT_NE(kfi_eq_strerror(eq, 0, nullptr, text, sizeof text), nullptr);
  EXPECT_EQ(kfi_close(&eq->fid), 0);
  size_t bytes = 0, size = sizeof bytes;
  EXPECT_EQ(kfi_getopt(&ep->fid, KFI_OPT_ENDPOINT, KFI_OPT_MIN_MULTI_RECV, &bytes, &size), 0);
  bytes = 128;
  EXPECT_EQ(kfi_setopt(&ep->fid, KFI_OPT_ENDPOINT, KFI_OPT_MIN_MULTI_RECV, &bytes, sizeof bytes), 0);
  bytes = 0;
  EXPECT_EQ(kfi_getopt(&ep->fid, KFI_OPT_ENDPOINT, KFI_OPT_MIN_MULTI_RECV, &bytes, &size), 0);
  EXPECT_EQ(bytes, 128u);
  EXPECT_EQ(kfi_tc_dscp_get(kfi_tc_dscp_set(46)), 46);
}

TEST_F(Calls, WaitAndPollSets) {
  kfi_wait_attr wait_attr{};
  kfid_wait* set = nullptr;
  ASSERT_EQ(kfi_wait_open(fabric, &wait_attr, &set), 0);
  kfi_eq_attr attr{};
  attr.flags = KFI_WRITE;
  attr.wait_obj = KFI_WAIT_SET;
  attr.wait_set = set;
  kfid_eq* eq = nullptr;
  ASSERT_EQ(kfi_eq_open(fabric, &attr, &eq, nullptr, nullptr), 0);
  EXPECT_EQ(kfi_wait(set, 5), -KFI_ETIMEDOUT);
  const kfi_eq_entry entry{};
  EXPECT_GT(kfi_eq_write(eq, KFI_NOTIFY, &entry, sizeof entry, 0), 0);
  EXPECT_EQ(kfi_wait(set, 20000), 0);
  EXPECT_EQ(kfi_close(&eq->fid), 0);
  EXPECT_EQ(kfi_close(&set->kfid), 0);

  kfi_poll_attr poll_attr{};
  kfid_poll* poll = nullptr;
  ASSERT_EQ(kfi_poll_open(domain, &poll_attr, &poll), 0);
  EXPECT_EQ(kfi_poll_add(poll, &counter->fid, 0), 0);
  void* context = nullptr;
  EXPECT_GE(kfi_poll(poll, &context, 1), 0);
  EXPECT_EQ(kfi_poll_del(poll, &counter->fid, 0), 0);
  EXPECT_EQ(kfi_close(&poll->fid), 0);
}

TEST_F(Calls, RegionsOfEachForm) {
  char memory[32];
  const Halves pieces(memory);
  kfid_mr* mr = nullptr;
  constexpr uint64_t kAccess = KFI_SEND | KFI_RECV;
  ASSERT_EQ(kfi_mr_regv(domain, pieces.vec, 2, kAccess, 0, 11, 0, &mr, nullptr), 0);
  EXPECT_EQ(kfi_close(&mr->fid), 0);
  ASSERT_EQ(kfi_mr_regbv(domain, pieces.bvec, 2, kAccess, 0, 11, 0, &mr, nullptr), 0);
  EXPECT_EQ(kfi_close(&mr->fid), 0);
  ASSERT_EQ(kfi_mr_regsgl(domain, pieces.sgl, 2, kAccess, 0, 11, 0, &mr, this), 0);
  EXPECT_EQ(mr->fid.context, this);
  EXPECT_EQ(kfi_close(&mr->fid), 0);
  kfi_mr_attr attr{};
  attr.type = KFI_BVEC;
  attr.mr_biov = pieces.bvec;
  attr.iov_count = 2;
  attr.access = kAccess;
  attr.requested_key = 12;
  ASSERT_EQ(kfi_mr_regattr(domain, &attr, 0, &mr), 0);
  // The provider requires neither of these for a region, and says so.
  EXPECT_LT(kfi_mr_bind(mr, &cq->fid, KFI_SEND), 0);
  kfi_mr_enable(mr);
  kfi_mr_refresh(mr, pieces.vec, 1, 0);
  uint64_t base = 0;
  uint8_t raw[64];
  size_t size = sizeof raw;
  EXPECT_EQ(kfi_mr_raw_attr(mr, &base, raw, &size, 0), 0);
  uint64_t mapped = 0;
  EXPECT_EQ(kfi_mr_map_raw(domain, base, raw, size, &mapped, 0), 0);
  EXPECT_EQ(mapped, kfi_mr_key(mr));
  EXPECT_EQ(kfi_mr_unmap_key(domain, mapped), 0);
  EXPECT_EQ(kfi_close(&mr->fid), 0);
}

// The contexts of a scalable endpoint are bound without flags.
TEST_F(Calls, ScalableEndpointsAndSharedContexts) {
  kfid_ep *sep = nullptr, *transmit = nullptr, *receive = nullptr;
  ASSERT_EQ(kfi_scalable_ep(domain, info, &sep, nullptr), 0);
  EXPECT_EQ(kfi_scalable_ep_bind(sep, &av->fid, 0), 0);
  ASSERT_EQ(kfi_tx_context(sep, 0, nullptr, &transmit, nullptr), 0);
  ASSERT_EQ(kfi_rx_context(sep, 0, nullptr, &receive, nullptr), 0);
  for (kfid_ep* context : {transmit, receive}) EXPECT_EQ(kfi_ep_bind(context, &cq->fid, 0), 0);
  for (kfid_ep* context : {sep, transmit, receive}) EXPECT_EQ(kfi_enable(context), 0);
  OK(kfi_recv(receive, received, sizeof received, nullptr, KFI_ADDR_UNSPEC, nullptr));
  sockaddr_in own{};
  size_t size = sizeof own;
  EXPECT_EQ(kfi_getname(&sep->fid, &own, &size), 0);
  kfi_addr_t peer = KFI_ADDR_NOTAVAIL;
  EXPECT_EQ(kfi_av_insert(av, &own, 1, &peer, 0, nullptr), 1);
  OK(kfi_send(transmit, sent, sizeof sent, nullptr, peer, nullptr));
  expect_message(KFI_MSG);
  for (kfid_ep* context : {transmit, receive, sep}) EXPECT_EQ(kfi_close(&context->fid), 0);
  kfid_ep* srx = nullptr;
  kfid_stx* stx = nullptr;
  if (kfi_srx_context(domain, info->rx_attr, &srx, nullptr) == 0) {
    EXPECT_EQ(kfi_close(&srx->fid), 0);
  }
  if (kfi_stx_context(domain, info->tx_attr, &stx, nullptr) == 0) {
    EXPECT_EQ(kfi_close(&stx->fid), 0);
  }
}

// Also where a handler reads it before the call returns.
TEST(Registration, EventNamesTheRegionOfTheClient) {
  Connected pair;
  char memory[64];
  kfid_domain* reporting = nullptr;
  ASSERT_EQ(kfi_domain(pair.both.fabric, pair.both.info, &reporting, nullptr), 0);
  struct Seen {
    std::atomic<int> events{0};
    std::vector<kfi_eq_entry> entries = std::vector<kfi_eq_entry>(200);
  } seen;
  const kfi_event_handler handler = [](kfid_eq* queue, void* context) {
    auto* all = static_cast<Seen*>(context);
    uint32_t event = 99;
    while (kfi_eq_read(queue, &event, &all->entries[all->events], sizeof(kfi_eq_entry), 0) > 0) {
      EXPECT_EQ(event, static_cast<uint32_t>(KFI_MR_COMPLETE));
      all->events++;
    }
  };
  kfid_eq* eq = nullptr;
  ASSERT_EQ(kfi_eq_open(pair.both.fabric, nullptr, &eq, handler, &seen), 0);
  ASSERT_EQ(kfi_domain_bind(reporting, &eq->fid, KFI_REG_MR), 0);
  std::vector<kfid_mr*> regions(seen.entries.size() - 1);
  for (size_t i = 0; i < regions.size(); i++) {
    ASSERT_EQ(kfi_mr_reg(reporting, memory, sizeof memory, KFI_SEND, 0, i, 0, &regions[i], &regions[i]), 0);
  }
  EXPECT_TRUE(becomes([&] { return seen.events == static_cast<int>(regions.size()); })) << seen.events;
  for (size_t i = 0; i < regions.size(); i++) {
    EXPECT_EQ(seen.entries[i].fid, &regions[i]->fid);
    EXPECT_EQ(seen.entries[i].context, &regions[i]);
    EXPECT_EQ(kfi_close(&regions[i]->fid), 0);
  }
  EXPECT_EQ(kfi_close(&reporting->fid), 0);
  EXPECT_EQ(kfi_close(&eq->fid), 0);
}

// The listener's data arrives in an error entry.
TEST(Listener, RejectedPeerReadsTheData) {
  kfi_info* hints = hints_for("tcp");
  hints->src_addr = address_of("127.0.0.1", "0");
  hints->src_addrlen = sizeof(sockaddr_in);
  kfi_info* info = find(hints);
  kfid_fabric* fabric = nullptr;
  kfid_domain* domain = nullptr;
  kfid_pep* pep = nullptr;
  kfid_ep* ep = nullptr;
  OK(kfi_fabric(info->fabric_attr, &fabric, nullptr));
  OK(kfi_domain(fabric, info, &domain, nullptr));
  OK(kfi_passive_ep(fabric, info, &pep, nullptr));
  kfid_eq *listening = open_eq(fabric), *eq = open_eq(fabric);
  kfi_cq_attr attr{};
  kfid_cq* cq = open_cq(domain, &attr);
  OK(kfi_pep_bind(pep, &listening->fid, 0));
  OK(kfi_listen(pep));
  sockaddr_in name{};
  size_t size = sizeof name;
  OK(kfi_getname(&pep->fid, &name, &size));
  OK(kfi_endpoint(domain, info, &ep, nullptr));
  OK(kfi_ep_bind(ep, &eq->fid, 0));
  OK(kfi_ep_bind(ep, &cq->fid, KFI_SEND | KFI_RECV));
  OK(kfi_enable(ep));
  OK(kfi_connect(ep, &name, "hello", 6));
  uint32_t event_id = 99;
  union event event;
  ASSERT_GT(kfi_eq_sread(listening, &event_id, &event, sizeof event, 20000, 0), 0);
  ASSERT_EQ(event_id, static_cast<uint32_t>(KFI_CONNREQ));
  EXPECT_EQ(kfi_reject(pep, nullptr, "no", 3), -KFI_EINVAL);
  EXPECT_EQ(kfi_reject(pep, event.entry.info->handle, "no", 3), 0);
  kfi_freeinfo(event.entry.info);
  EXPECT_EQ(kfi_eq_sread(eq, &event_id, &event, sizeof event, 20000, 0), -KFI_EAVAIL);
  kfi_eq_err_entry error{};
  ASSERT_GT(kfi_eq_readerr(eq, &error, 0), 0);
  EXPECT_EQ(error.fid, &ep->fid);
  EXPECT_EQ(error.err, KFI_ECONNREFUSED);
  ASSERT_EQ(error.err_data_size, 3u);
  EXPECT_STREQ(static_cast<char*>(error.err_data), "no");
  for (kfid* object : {&ep->fid, &cq->fid, &eq->fid, &pep->fid, &listening->fid, &domain->fid, &fabric->fid}) {
    EXPECT_EQ(kfi_close(object), 0);
  }
  kfi_freeinfo(info);
  kfi_freeinfo(hints);
}

}  // namespace
