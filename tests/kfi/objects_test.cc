// SPDX-License-Identifier: BSD-2-Clause
// The calls of address vectors, counters, sets, regions, groups and contexts that the other programs do not make: each
// reaches the provider beneath with its arguments, and events name the client's objects.
#include <atomic>
#include <vector>

#include "calls.h"

namespace {

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
  EXPECT_EQ(kfi_rx_addr(5, 2, 4), 5ull | 2ull << 60);
  EXPECT_EQ(kfi_rx_addr(5, 0, 0), 5u);
  kfid_mc* group = nullptr;
  EXPECT_LT(kfi_join(ep, &name, 0, &group, nullptr), 0) << "tcp has no groups";
}

TEST_F(Calls, NamesThatCannotBeHad) {
  EXPECT_LT(kfi_setname(&ep->fid, &name, sizeof name), 0) << "an enabled endpoint keeps its name";
  EXPECT_EQ(kfi_av_remove(av, &self, 1, 0), 0);
  sockaddr_in looked_up{};
  size_t size = sizeof looked_up;
  EXPECT_NE(kfi_av_lookup(av, self, &looked_up, &size), 0);
}

// A vector whose insertions are events, which name it.
TEST_F(Calls, InsertionsOfABoundVectorAreEvents) {
  kfid_eq* eq = open_eq(fabric);
  kfi_av_attr attr{};
  attr.type = KFI_AV_TABLE;
  attr.flags = KFI_EVENT;
  kfid_av* bound = nullptr;
  ASSERT_EQ(kfi_av_open(domain, &attr, &bound, this), 0);
  EXPECT_NE(kfi_av_bind(bound, &cq->fid, 0), 0);
  ASSERT_EQ(kfi_av_bind(bound, &eq->fid, 0), 0);
  EXPECT_EQ(kfi_close(&eq->fid), -KFI_EBUSY);
  kfi_addr_t added = KFI_ADDR_NOTAVAIL;
  EXPECT_EQ(kfi_av_insert(bound, &name, 1, &added, 0, &added), 0);
  uint32_t event = 99;
  kfi_eq_entry entry{};
  ASSERT_EQ(kfi_eq_sread(eq, &event, &entry, sizeof entry, 20000, 0), static_cast<ssize_t>(sizeof entry));
  EXPECT_EQ(event, static_cast<uint32_t>(KFI_AV_COMPLETE));
  EXPECT_EQ(entry.fid, &bound->fid);
  EXPECT_EQ(entry.fid->context, this);
  EXPECT_EQ(entry.context, &added);
  EXPECT_EQ(entry.data, 1u);
  sockaddr_in looked_up{};
  size_t size = sizeof looked_up;
  EXPECT_EQ(kfi_av_lookup(bound, added, &looked_up, &size), 0);
  EXPECT_EQ(looked_up.sin_port, name.sin_port);
  for (kfid* object : {&bound->fid, &eq->fid}) EXPECT_EQ(kfi_close(object), 0);
}

// ---- Groups ---------------------------------------------------------------------------------------------------------

// An endpoint of datagrams that joined the group 239.1.2.3, where it does not receive its own messages.
struct Member {
  kfid_av* av = nullptr;
  kfid_cq* cq = nullptr;
  kfid_eq* eq = nullptr;
  kfid_ep* ep = nullptr;
  kfid_mc* group = nullptr;

  Member(kfid_fabric* fabric, kfid_domain* domain, kfi_info* info) : eq(open_eq(fabric)) {
    open_vector_and_queue(domain, &av, &cq);
    OK(kfi_endpoint(domain, info, &ep, nullptr));
    for (kfid* object : {&av->fid, &eq->fid}) OK(kfi_ep_bind(ep, object, 0));
    OK(kfi_ep_bind(ep, &cq->fid, KFI_SEND | KFI_RECV));
    OK(kfi_enable(ep));
    void* address = address_of("239.1.2.3", "4718");
    OK(kfi_join(ep, address, 0, &group, this));
    free(address);
  }
  ~Member() {
    for (kfid* object : {&group->fid, &ep->fid, &av->fid, &cq->fid, &eq->fid}) EXPECT_EQ(kfi_close(object), 0);
  }
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;
  void expect_joined() {
    uint32_t event = 99;
    kfi_eq_entry entry{};
    ASSERT_EQ(kfi_eq_sread(eq, &event, &entry, sizeof entry, 20000, 0), static_cast<ssize_t>(sizeof entry));
    EXPECT_EQ(event, static_cast<uint32_t>(KFI_JOIN_COMPLETE));
    EXPECT_EQ(entry.fid, &group->fid);
    EXPECT_EQ(entry.context, this);
    EXPECT_EQ(group->fid.context, this);
  }
};

TEST(Group, MessagesToItsAddressArrive) {
  kfi_info* hints = hints_for("udp");
  hints->ep_attr->type = KFI_EP_DGRAM;
  hints->caps = KFI_MSG | KFI_MULTICAST;
  hints->src_addr = address_of("127.0.0.1", "0");
  hints->src_addrlen = sizeof(sockaddr_in);
  kfi_info* info = find(hints);
  kfid_fabric* fabric = nullptr;
  kfid_domain* domain = nullptr;
  OK(kfi_fabric(info->fabric_attr, &fabric, nullptr));
  OK(kfi_domain(fabric, info, &domain, nullptr));
  {
    Member sender(fabric, domain, info), receiver(fabric, domain, info);
    for (Member* member : {&sender, &receiver}) member->expect_joined();
    char sent[] = "hello, group", received[100] = "";
    OK(kfi_recv(receiver.ep, received, sizeof received, nullptr, KFI_ADDR_UNSPEC, received));
    const kvec piece{sent, sizeof sent};
    kfi_msg message{};
    message.type = KFI_KVEC;
    message.msg_iov = &piece;
    message.iov_count = 1;
    message.addr = kfi_mc_addr(sender.group);
    ASSERT_EQ(kfi_sendmsg(sender.ep, &message, KFI_MULTICAST | KFI_COMPLETION), 0);
    next(sender.cq);
    EXPECT_EQ(next(receiver.cq).len, sizeof sent);
    EXPECT_STREQ(received, sent);
  }
  for (kfid* object : {&domain->fid, &fabric->fid}) EXPECT_EQ(kfi_close(object), 0);
  kfi_freeinfo(info);
  kfi_freeinfo(hints);
}

// ---- Counters, sets, regions, contexts ------------------------------------------------------------------------------

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
  POSTED(kfi_recv(ep, received, sizeof received, nullptr, self, nullptr));
  POSTED(kfi_inject(ep, sent, sizeof sent, self));
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
    POSTED(kfi_recv(ep, received, sizeof received, nullptr, self, nullptr));
    POSTED(kfi_inject(ep, sent, sizeof sent, self));
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
  EXPECT_LT(kfi_mr_bind(mr, &cq->fid, KFI_SEND), 0) << "counters only";
  EXPECT_EQ(kfi_close(&mr->fid), 0);
}

// A region that is bound to its endpoint and enabled keeps its key, and peers reach it.
TEST_F(Calls, RegionsAreBoundAndEnabled) {
  ASSERT_EQ(kfi_mr_bind(region, &ep->fid, 0), 0);
  EXPECT_EQ(kfi_mr_enable(region), 0);
  EXPECT_EQ(kfi_mr_key(region), key);
  const kvec changed{target, sizeof target};
  EXPECT_EQ(kfi_mr_refresh(region, &changed, 1, 0), 0);
  POSTED(kfi_inject_write(ep, sent, sizeof sent, self, at, key));
  POSTED(kfi_read(ep, received, sizeof received, nullptr, self, at, key, nullptr));
  expect_access(KFI_RMA | KFI_READ);
  EXPECT_EQ(memcmp(sent, received, sizeof sent), 0);
}

// A region that counts the accesses of peers.
TEST_F(Calls, BoundCountersCountAccesses) {
  kfid_mr* mr = nullptr;
  kfid_cntr* accesses = nullptr;
  kfi_cntr_attr attr{};
  ASSERT_EQ(kfi_cntr_open(domain, &attr, &accesses, nullptr), 0);
  ASSERT_EQ(kfi_mr_reg(domain, target, sizeof target, KFI_REMOTE_WRITE, 0, 16, 0, &mr, nullptr), 0);
  ASSERT_EQ(kfi_mr_bind(mr, &accesses->fid, KFI_REMOTE_WRITE), 0);
  EXPECT_EQ(kfi_close(&accesses->fid), -KFI_EBUSY);
  for (uint64_t i = 1; i <= 3; i++) {
    POSTED(kfi_inject_write(ep, sent, sizeof sent, self, mr->iova, kfi_mr_key(mr)));
    EXPECT_EQ(kfi_cntr_wait(accesses, i, 20000), 0);
  }
  EXPECT_EQ(memcmp(sent, target, sizeof sent), 0);
  for (kfid* object : {&mr->fid, &accesses->fid}) EXPECT_EQ(kfi_close(object), 0);
}

TEST_F(Calls, RawKeys) {
  kfid_mr* const mr = region;
  uint64_t base = 0;
  uint8_t raw[64];
  size_t size = sizeof raw;
  EXPECT_EQ(kfi_mr_raw_attr(mr, &base, raw, &size, 0), 0);
  uint64_t mapped = 0;
  EXPECT_EQ(kfi_mr_map_raw(domain, base, raw, size, &mapped, 0), 0);
  EXPECT_EQ(mapped, kfi_mr_key(mr));
  EXPECT_EQ(kfi_mr_unmap_key(domain, mapped), 0);
}

// The contexts of a scalable endpoint are bound without flags.
TEST_F(Calls, ScalableEndpoints) {
  kfid_ep *sep = nullptr, *transmit = nullptr, *receive = nullptr;
  ASSERT_EQ(kfi_scalable_ep(domain, info, &sep, nullptr), 0);
  EXPECT_EQ(kfi_scalable_ep_bind(sep, &av->fid, 0), 0);
  ASSERT_EQ(kfi_tx_context(sep, 0, nullptr, &transmit, nullptr), 0);
  ASSERT_EQ(kfi_rx_context(sep, 0, nullptr, &receive, nullptr), 0);
  for (kfid_ep* context : {transmit, receive}) EXPECT_EQ(kfi_ep_bind(context, &cq->fid, 0), 0);
  for (kfid_ep* context : {sep, transmit, receive}) EXPECT_EQ(kfi_enable(context), 0);
  POSTED(kfi_recv(receive, received, sizeof received, nullptr, KFI_ADDR_UNSPEC, nullptr));
  sockaddr_in own{};
  size_t size = sizeof own;
  EXPECT_EQ(kfi_getname(&sep->fid, &own, &size), 0);
  kfi_addr_t peer = KFI_ADDR_NOTAVAIL;
  EXPECT_EQ(kfi_av_insert(av, &own, 1, &peer, 0, nullptr), 1);
  POSTED(kfi_send(transmit, sent, sizeof sent, nullptr, peer, nullptr));
  expect_message(KFI_MSG);
  for (kfid_ep* context : {transmit, receive, sep}) EXPECT_EQ(kfi_close(&context->fid), 0);
}

// A binding without a direction has the one of the context.
TEST_F(Calls, ContextsSelectTheirCompletions) {
  kfid_ep *sep = nullptr, *transmit = nullptr;
  if (kfi_scalable_ep(domain, info, &sep, nullptr) != 0) GTEST_SKIP() << "the provider has no scalable endpoints";
  EXPECT_EQ(kfi_scalable_ep_bind(sep, &av->fid, 0), 0);
  ASSERT_EQ(kfi_tx_context(sep, 0, nullptr, &transmit, nullptr), 0);
  EXPECT_EQ(kfi_ep_bind(transmit, &cq->fid, KFI_SELECTIVE_COMPLETION), 0);
  for (kfid_ep* context : {sep, transmit}) EXPECT_EQ(kfi_enable(context), 0);
  const kvec piece{sent, sizeof sent};
  kfi_msg message{};
  message.type = KFI_KVEC;
  message.msg_iov = &piece;
  message.iov_count = 1;
  message.addr = self;
  for (const uint64_t flags : {0ull, KFI_COMPLETION}) {
    POSTED(kfi_recv(ep, received, sizeof received, nullptr, KFI_ADDR_UNSPEC, nullptr));
    POSTED(kfi_sendmsg(transmit, &message, flags));
    expect_message(KFI_MSG, 0, flags == KFI_COMPLETION);
  }
  for (kfid_ep* context : {transmit, sep}) EXPECT_EQ(kfi_close(&context->fid), 0);
}

TEST_F(Calls, SharedContexts) {
  kfid_ep* srx = nullptr;
  kfid_stx* stx = nullptr;
  if (kfi_srx_context(domain, info->rx_attr, &srx, nullptr) == 0) {
    std::vector<kvec> pieces;
    for (size_t i = 0; i <= info->rx_attr->iov_limit; i++) pieces.push_back({&received[2 * i], 1});
    EXPECT_EQ(kfi_recvv(srx, pieces.data(), nullptr, pieces.size(), KFI_ADDR_UNSPEC, nullptr), -KFI_ENOSYS);
    EXPECT_EQ(kfi_close(&srx->fid), 0);
  }
  if (kfi_stx_context(domain, info->tx_attr, &stx, nullptr) == 0) {
    EXPECT_EQ(kfi_close(&stx->fid), 0);
  }
}

// More pieces than the provider takes go through a buffer, whose end is a completion.
TEST_F(Calls, EndpointWithoutACompletionQueueHasShortLists) {
  kfid_ep* counted = nullptr;
  ASSERT_EQ(kfi_endpoint(domain, info, &counted, nullptr), 0);
  EXPECT_EQ(kfi_ep_bind(counted, &av->fid, 0), 0);
  EXPECT_EQ(kfi_ep_bind(counted, &counter->fid, KFI_SEND | KFI_RECV), 0);
  if (kfi_enable(counted) == 0) {
    const size_t limit = info->tx_attr->iov_limit;
    std::vector<kvec> pieces;
    for (size_t i = 0; i <= limit; i++) pieces.push_back({&sent[2 * i], 1});
    EXPECT_EQ(kfi_sendv(counted, pieces.data(), nullptr, limit + 1, self, nullptr), -KFI_ENOSYS);
    EXPECT_EQ(kfi_recvv(counted, pieces.data(), nullptr, limit + 1, self, nullptr), -KFI_ENOSYS);
    POSTED(kfi_recv(ep, received, sizeof received, nullptr, KFI_ADDR_UNSPEC, nullptr));
    POSTED(kfi_sendv(counted, pieces.data(), nullptr, limit, self, nullptr));
    EXPECT_EQ(next(cq).len, limit);
  }
  EXPECT_EQ(kfi_close(&counted->fid), 0);
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
  ASSERT_GT(next_event(listening, &event_id, &event, eq), 0);
  ASSERT_EQ(event_id, static_cast<uint32_t>(KFI_CONNREQ));
  EXPECT_EQ(kfi_reject(pep, nullptr, "no", 3), -KFI_EINVAL);
  EXPECT_EQ(kfi_reject(pep, event.entry.info->handle, "no", 3), 0);
  kfi_freeinfo(event.entry.info);
  EXPECT_EQ(next_event(eq, &event_id, &event, listening), -KFI_EAVAIL);
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

// ---- Calls without an object ----------------------------------------------------------------------------------------

TEST(Library, ParametersAreTheProviders) {
  kfi_param* params = nullptr;
  int count = 0;
  ASSERT_EQ(kfi_getparams(&params, &count), 0);
  ASSERT_GT(count, 0);
  for (int i = 0; i < count; i++) {
    EXPECT_NE(params[i].name, nullptr);
    EXPECT_NE(params[i].help_string, nullptr);
  }
  kfi_freeparams(params);
}

TEST(Library, VersionIsTheNewest) {
  EXPECT_EQ(kfi_version(), KFI_VERSION(1, 7));
  EXPECT_EQ(kfi_version(), KFI_VERSION(KFI_MAJOR_VERSION, KFI_MINOR_VERSION));
}

TEST(Library, ErrorsHaveTexts) {
  EXPECT_STREQ(kfi_strerror(KFI_ETIMEDOUT), strerror(ETIMEDOUT));
  for (int error : {KFI_EOTHER, KFI_ETRUNC, KFI_ENOAV, KFI_EOVERRUN}) {
    EXPECT_NE(kfi_strerror(error), nullptr);
    EXPECT_STRNE(kfi_strerror(error), kfi_strerror(0)) << error;
  }
}

// libfabric's text of the same thing: most numbers differ between the two.
TEST(Library, EachTypeHasItsText) {
  kfi_info* hints = hints_for("tcp");
  kfi_info* info = find(hints);
  const auto has = [](const void* data, kfi_type type, const char* part) {
    const char* const text = kfi_tostr(data, type);
    EXPECT_NE(text, nullptr) << part;
    EXPECT_NE(text == nullptr ? nullptr : strstr(text, part), nullptr) << text << " has no " << part;
  };
  const auto value_has = [&](auto value, kfi_type type, const char* part) { has(&value, type, part); };
  has(info, KFI_TYPE_INFO, "prov_name: tcp");
  has(info->tx_attr, KFI_TYPE_TX_ATTR, "inject_size");
  has(info->rx_attr, KFI_TYPE_RX_ATTR, "iov_limit");
  has(info->ep_attr, KFI_TYPE_EP_ATTR, "FI_EP_MSG");
  has(info->domain_attr, KFI_TYPE_DOMAIN_ATTR, "mr_key_size");
  has(info->fabric_attr, KFI_TYPE_FABRIC_ATTR, "prov_name: tcp");
  value_has(uint64_t{KFI_TAGGED_MULTI_RECV | KFI_MSG}, KFI_TYPE_CAPS, "FI_MSG");
  value_has(uint32_t{KFI_ADDR_CXI}, KFI_TYPE_ADDR_FORMAT, "FI_ADDR_CXI");
  value_has(uint32_t{KFI_PROTO_IB_RDM}, KFI_TYPE_PROTOCOL, "FI_PROTO_IB_RDM");
  value_has(int{KFI_MR_PROV_KEY | KFI_MR_ENDPOINT}, KFI_TYPE_MR_MODE, "FI_MR_PROV_KEY");
  value_has(int{KFI_MR_PROV_KEY | KFI_MR_ENDPOINT}, KFI_TYPE_MR_MODE, "FI_MR_ENDPOINT");
  value_has(KFI_EP_RDM, KFI_TYPE_EP_TYPE, "FI_EP_RDM");
  value_has(KFI_THREAD_SAFE, KFI_TYPE_THREADING, "FI_THREAD_SAFE");
  value_has(KFI_PROGRESS_AUTO, KFI_TYPE_PROGRESS, "FI_PROGRESS_AUTO");
  value_has(uint64_t{KFI_ORDER_SAS}, KFI_TYPE_MSG_ORDER, "FI_ORDER_SAS");
  value_has(uint64_t{KFI_DELIVERY_COMPLETE}, KFI_TYPE_OP_FLAGS, "FI_DELIVERY_COMPLETE");
  value_has(KFI_AV_TABLE, KFI_TYPE_AV_TYPE, "FI_AV_TABLE");
  value_has(KFI_UINT64, KFI_TYPE_ATOMIC_TYPE, "FI_UINT64");
  value_has(KFI_CSWAP, KFI_TYPE_ATOMIC_OP, "FI_CSWAP");
  value_has(uint32_t{KFI_CONNREQ}, KFI_TYPE_EQ_EVENT, "FI_CONNREQ");
  value_has(uint64_t{KFI_RECV | KFI_TAGGED}, KFI_TYPE_CQ_EVENT_FLAGS, "FI_TAGGED");
  value_has(uint64_t{KFI_CONTEXT}, KFI_TYPE_MODE, "FI_CONTEXT");
  kfi_freeinfo(info);
  kfi_freeinfo(hints);
}

}  // namespace
