// SPDX-License-Identifier: BSD-2-Clause
// Programs that call in a wrong order, with flags and values that do not exist, or with lists that end early: each call
// answers, and the objects stay usable. Handlers that use, open and close other objects.
#include <kfi_trigger.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <vector>

#include "connected.h"

namespace {

// A listener with one request, which a client of the pair's domain made.
class Request : public testing::Test {
 protected:
  Request() {
    kfi_info* hints = hints_for("tcp");
    hints->src_addr = address_of("127.0.0.1", "0");
    hints->src_addrlen = sizeof(sockaddr_in);
    kfi_info* info = find(hints);
    OK(kfi_passive_ep(pair.both.fabric, info, &pep, nullptr));
    OK(kfi_pep_bind(pep, &listening->fid, 0));
    OK(kfi_listen(pep));
    size_t size = sizeof name;
    OK(kfi_getname(&pep->fid, &name, &size));
    kfi_freeinfo(info);
    kfi_freeinfo(hints);
    OK(kfi_endpoint(pair.both.domain, pair.both.info, &client, nullptr));
    OK(kfi_ep_bind(client, &eq->fid, 0));
    OK(kfi_ep_bind(client, &pair.cq(0)->fid, KFI_SEND | KFI_RECV));
    OK(kfi_enable(client));
    OK(kfi_connect(client, &name, "hello", 6));
  }
  ~Request() override {
    if (pep != nullptr) close_listener();
    for (kfid* object : {&client->fid, &eq->fid, &listening->fid}) EXPECT_EQ(kfi_close(object), 0);
  }
  void close_listener() {
    EXPECT_EQ(kfi_close(&pep->fid), 0);
    pep = nullptr;
  }
  // The next event, while the client makes progress.
  ssize_t read(uint64_t flags) {
    ssize_t size = -KFI_EAGAIN;
    becomes([&] {
      char other[256];
      uint32_t other_id;
      kfi_eq_read(eq, &other_id, other, sizeof other, KFI_PEEK);
      if (size < 0) size = kfi_eq_read(listening, &event_id, room, sizeof room, flags);
      return size != -KFI_EAGAIN;
    });
    return size;
  }

  kfi_eq_cm_entry& entry() { return *reinterpret_cast<kfi_eq_cm_entry*>(room); }

  Connected pair;
  kfid_eq* listening = open_eq(pair.both.fabric);
  kfid_eq* eq = open_eq(pair.both.fabric);
  kfid_pep* pep = nullptr;
  kfid_ep* client = nullptr;
  sockaddr_in name{};
  uint32_t event_id = 99;
  alignas(8) char room[256];
};

TEST_F(Request, HandleOutlivesItsListener) {
  ASSERT_GT(read(0), 0);
  kfi_info* copy = kfi_dupinfo(entry().info);
  kfi_freeinfo(entry().info);
  close_listener();
  // The provider decides whether it still can be accepted.
  kfid_ep* ep = nullptr;
  if (kfi_endpoint(pair.both.domain, copy, &ep, nullptr) == 0) {
    EXPECT_EQ(kfi_close(&ep->fid), 0);
  }
  kfi_freeinfo(copy);
}

TEST_F(Request, PeekedOneGoesWithItsListener) {
  ASSERT_GT(read(KFI_PEEK), 0);
  EXPECT_NE(entry().info->handle, nullptr);
  close_listener();
  EXPECT_EQ(kfi_eq_read(listening, &event_id, room, sizeof room, 0), -KFI_EAGAIN);
}

TEST_F(Request, StaysWhenTheBufferIsTooSmall) {
  ASSERT_GT(read(KFI_PEEK), 0);
  char small[4];
  EXPECT_EQ(kfi_eq_read(listening, &event_id, small, sizeof small, 0), -KFI_ETOOSMALL);
  ASSERT_GT(read(0), static_cast<ssize_t>(sizeof entry()));
  EXPECT_EQ(entry().fid, &pep->fid);
  EXPECT_STREQ(reinterpret_cast<char*>(entry().data), "hello");
  kfi_freeinfo(entry().info);
}

TEST_F(Request, HandleIsNoObject) {
  ASSERT_GT(read(0), 0);
  kfid* const handle = entry().info->handle;
  void* table = nullptr;
  EXPECT_EQ(kfi_close(handle), -KFI_ENOSYS);
  EXPECT_EQ(kfi_control(handle, KFI_ENABLE, nullptr), -KFI_ENOSYS);
  EXPECT_EQ(kfi_open_ops(handle, "any", 0, &table, nullptr), -KFI_ENOSYS);
  EXPECT_EQ(kfi_ep_bind(client, handle, 0), -KFI_EINVAL);
  EXPECT_EQ(kfi_reject(pep, handle, nullptr, 0), 0);
  kfi_freeinfo(entry().info);
}

TEST_F(Request, InfoOfOneThatWasAnsweredIsRefused) {
  ASSERT_GT(read(0), 0);
  kfi_info* info = entry().info;
  kfid_ep *ep = nullptr, *second = nullptr;
  ASSERT_EQ(kfi_endpoint(pair.both.domain, info, &ep, nullptr), 0);
  EXPECT_NE(kfi_endpoint(pair.both.domain, info, &second, nullptr), 0);
  EXPECT_EQ(second, nullptr);
  EXPECT_EQ(kfi_reject(pep, info->handle, nullptr, 0), -KFI_EINVAL);
  EXPECT_NE(kfi_tostr(info, KFI_TYPE_INFO), nullptr);
  EXPECT_EQ(kfi_close(&ep->fid), 0);
  kfi_freeinfo(info);
}

TEST_F(Request, AnotherListenerCannotRejectIt) {
  ASSERT_GT(read(0), 0);
  kfi_info* info = entry().info;
  EXPECT_EQ(kfi_reject(pep, &pep->fid, nullptr, 0), -KFI_EINVAL);
  EXPECT_EQ(kfi_reject(pep, info->handle, nullptr, 0), 0);
  kfi_freeinfo(info);
}

// ---- Flags and values -----------------------------------------------------------------------------------------------

TEST(Unknown, FlagsOfReadsAreBad) {
  Connected pair;
  uint32_t event;
  char room[64];
  kfi_eq_err_entry error{};
  for (const uint64_t bad : {1ull << 0, KFI_READ, 1ull << 35, ~0ull}) {
    EXPECT_EQ(kfi_eq_sread(pair.eq(0), &event, room, sizeof room, 1, bad), -KFI_EBADFLAGS) << bad;
    EXPECT_EQ(kfi_eq_sread(pair.eq(0), &event, room, sizeof room, 1, bad | KFI_PEEK), -KFI_EBADFLAGS) << bad;
    EXPECT_EQ(kfi_eq_read(pair.eq(0), &event, room, sizeof room, bad), -KFI_EBADFLAGS) << bad;
    EXPECT_EQ(kfi_eq_readerr(pair.eq(0), &error, bad), -KFI_EBADFLAGS) << bad;
  }
  EXPECT_EQ(kfi_eq_read(pair.eq(0), &event, room, sizeof room, KFI_TIME_US), -KFI_EBADFLAGS) << "no time-out";
  for (const uint64_t good : {KFI_PEEK | KFI_TIME_US, KFI_PEEK | KFI_TIME_MS, KFI_PEEK}) {
    EXPECT_EQ(kfi_eq_sread(pair.eq(0), &event, room, sizeof room, 1, good), -KFI_ETIMEDOUT) << good;
  }
}

TEST(Unknown, RequestsAreNotWritten) {
  Connected pair;
  kfi_eq_attr attr{};
  attr.flags = KFI_WRITE;
  kfid_eq* eq = nullptr;
  ASSERT_EQ(kfi_eq_open(pair.both.fabric, &attr, &eq, nullptr, nullptr), 0);
  kfi_eq_cm_entry entry{};
  entry.info = pair.both.info;
  EXPECT_EQ(kfi_eq_write(eq, KFI_CONNREQ, &entry, sizeof entry, 0), -KFI_EINVAL);
  EXPECT_GT(kfi_eq_write(eq, KFI_SHUTDOWN, &entry, sizeof entry, 0), 0);
  uint32_t event = 99;
  kfi_eq_cm_entry read{};
  EXPECT_EQ(kfi_eq_read(eq, &event, &read, sizeof read, 0), static_cast<ssize_t>(sizeof read));
  EXPECT_EQ(read.info, pair.both.info);
  EXPECT_EQ(kfi_close(&eq->fid), 0);
}

// libfabric has more orders, modes and capabilities, with bits that mean nothing here: no info has them, and none of
// them can be requested.
TEST(Unknown, BitsOfInfosAreLibfabricsAlone) {
  constexpr uint64_t kOrders = KFI_ORDER_STRICT | KFI_ORDER_DATA;
  kfi_info* hints = hints_for("tcp");
  for (const kfi_ep_type type : {KFI_EP_MSG, KFI_EP_RDM}) {
    hints->ep_attr->type = type;
    kfi_info* const infos = find(hints);
    for (const kfi_info* info = infos; info != nullptr; info = info->next) {
      EXPECT_EQ((info->tx_attr->msg_order | info->rx_attr->msg_order) & ~kOrders, 0u);
      EXPECT_EQ((info->tx_attr->comp_order | info->rx_attr->comp_order) & ~kOrders, 0u);
      EXPECT_NE(info->tx_attr->msg_order & KFI_ORDER_SAS, 0u);
    }
    kfi_freeinfo(infos);
  }
  kfi_info* info = nullptr;
  const auto expect_none = [&](uint64_t& bits) {
    for (const uint64_t bit : {1ull << 32, 1ull << 39}) {
      bits = bit;
      EXPECT_EQ(kfi_getinfo(0, nullptr, nullptr, 0, hints, &info), -KFI_ENODATA) << bit;
    }
    bits = 0;
  };
  for (uint64_t* bits : {&hints->tx_attr->msg_order, &hints->tx_attr->comp_order, &hints->tx_attr->caps}) {
    expect_none(*bits);
  }
  for (uint64_t* bits : {&hints->rx_attr->msg_order, &hints->rx_attr->comp_order, &hints->rx_attr->caps}) {
    expect_none(*bits);
  }
  // A program that accepts every mode.
  hints->mode = hints->tx_attr->mode = hints->rx_attr->mode = hints->domain_attr->mode = ~0ull;
  info = find(hints);
  EXPECT_EQ(info->mode | info->tx_attr->mode | info->rx_attr->mode | info->domain_attr->mode, 0u);
  kfi_freeinfo(info);
  kfi_freeinfo(hints);
}

template <class T>
T number(int value) {
  T result;
  static_assert(sizeof result == sizeof value);
  memcpy(&result, &value, sizeof result);
  return result;
}

TEST(Unknown, EnumeratorsOfQueuesAreInvalid) {
  Connected pair;
  kfid_cq* cq = nullptr;
  for (const int format : {-1, 5, 1000}) {
    kfi_cq_attr attr{};
    attr.format = number<kfi_cq_format>(format);
    EXPECT_EQ(kfi_cq_open(pair.both.domain, &attr, &cq, nullptr, nullptr), -KFI_EINVAL) << format;
  }
  for (const int object : {-1, 2, 4, 1000}) {  // 2: a wait set, which is missing
    kfi_cq_attr cq_attr{};
    cq_attr.wait_obj = number<kfi_wait_obj>(object);
    EXPECT_EQ(kfi_cq_open(pair.both.domain, &cq_attr, &cq, nullptr, nullptr), -KFI_EINVAL) << object;
    kfi_eq_attr eq_attr{};
    eq_attr.wait_obj = cq_attr.wait_obj;
    kfid_eq* eq = nullptr;
    EXPECT_EQ(kfi_eq_open(pair.both.fabric, &eq_attr, &eq, nullptr, nullptr), -KFI_EINVAL) << object;
    kfi_cntr_attr counter_attr{};
    counter_attr.wait_obj = cq_attr.wait_obj;
    kfid_cntr* counter = nullptr;
    EXPECT_EQ(kfi_cntr_open(pair.both.domain, &counter_attr, &counter, nullptr), -KFI_EINVAL) << object;
    kfi_wait_attr wait_attr{};
    wait_attr.wait_obj = cq_attr.wait_obj;
    kfid_wait* set = nullptr;
    EXPECT_EQ(kfi_wait_open(pair.both.fabric, &wait_attr, &set), -KFI_EINVAL) << object;
  }
}

TEST(Unknown, AttributesOfAVectorAreRequired) {
  Connected pair;
  kfid_av* av = nullptr;
  EXPECT_EQ(kfi_av_open(pair.both.domain, nullptr, &av, nullptr), -KFI_EINVAL);
  EXPECT_EQ(av, nullptr);
}

// Its counter would be an object of kfabric's.
TEST(Unknown, TriggersAreRefused) {
  Connected pair;
  EXPECT_EQ(pair.both.info->caps & KFI_TRIGGER, 0u);
  kfid_cntr* counter = nullptr;
  ASSERT_EQ(kfi_cntr_open(pair.both.domain, nullptr, &counter, nullptr), 0);
  kfi_triggered_context context{};
  context.trigger.threshold.cntr = counter;
  context.trigger.threshold.threshold = 1;
  char byte = 0;
  const kvec piece{&byte, 1};
  kfi_msg message{};
  message.type = KFI_KVEC;
  message.msg_iov = &piece;
  message.iov_count = 1;
  message.context = &context;
  EXPECT_EQ(kfi_sendmsg(pair.ep(0), &message, KFI_TRIGGER), -KFI_EBADFLAGS);
  EXPECT_EQ(kfi_recvmsg(pair.ep(0), &message, KFI_TRIGGER | KFI_COMPLETION), -KFI_EBADFLAGS);
  EXPECT_EQ(kfi_close(&counter->fid), 0);
  kfi_info *hints = hints_for("tcp"), *info = nullptr;
  hints->caps |= KFI_TRIGGER;
  EXPECT_EQ(kfi_getinfo(0, nullptr, nullptr, 0, hints, &info), -KFI_ENODATA);
  kfi_freeinfo(hints);
}

// ---- Lists ----------------------------------------------------------------------------------------------------------

TEST(EarlyEnds, ScatterListsEndAtTheirMark) {
  Connected pair;
  alignas(4) char bytes[8] = "abcdefg";
  scatterlist list[3];
  for (int i = 0; i < 3; i++) list[i] = {0, 0, 2, reinterpret_cast<uintptr_t>(bytes + 2 * i), 2};
  list[1].page_link = 2;
  EXPECT_EQ(kfi_sendsgl(pair.ep(0), list, nullptr, 3, 0, nullptr), -KFI_EINVAL);
  char received[8] = "";
  ASSERT_EQ(kfi_recv(pair.ep(1), received, sizeof received, nullptr, 0, nullptr), 0);
  ASSERT_EQ(kfi_sendsgl(pair.ep(0), list, nullptr, 2, 0, nullptr), 0);
  EXPECT_EQ(next(pair.cq(1)).len, 4u);
  EXPECT_STREQ(received, "abcd");
}

TEST(EarlyEnds, EmptyPiecesAndEmptyLists) {
  Connected pair;
  char bytes[64] = "0123456789abcdefghij", received[64];
  std::vector<kvec> pieces;
  for (size_t count : {0, 3, 10}) {
    pieces.assign(count, kvec{nullptr, 0});
    ASSERT_EQ(kfi_recv(pair.ep(1), received, sizeof received, nullptr, 0, nullptr), 0);
    ASSERT_EQ(kfi_sendv(pair.ep(0), pieces.data(), nullptr, count, 0, nullptr), 0) << count;
    EXPECT_EQ(next(pair.cq(1)).len, 0u) << count;
  }
  ASSERT_EQ(kfi_recv(pair.ep(1), received, sizeof received, nullptr, 0, nullptr), 0);
  ASSERT_EQ(kfi_sendbv(pair.ep(0), nullptr, nullptr, 0, 0, nullptr), 0);
  EXPECT_EQ(next(pair.cq(1)).len, 0u);
  pieces.clear();
  for (int i = 0; i < 8; i++) {
    pieces.push_back({bytes + 2 * i, 1});
    pieces.push_back({nullptr, 0});
  }
  // The memory is free when the call returns.
  kfi_msg message{};
  message.type = KFI_KVEC;
  message.msg_iov = pieces.data();
  message.iov_count = pieces.size();
  ASSERT_EQ(kfi_recv(pair.ep(1), received, sizeof received, nullptr, 0, nullptr), 0);
  ASSERT_EQ(kfi_sendmsg(pair.ep(0), &message, KFI_INJECT | KFI_COMPLETION), 0);
  memset(bytes, 0, sizeof bytes);
  EXPECT_EQ(next(pair.cq(1)).len, 8u);
  EXPECT_EQ(memcmp(received, "02468ace", 8), 0);
}

// ---- Order of closing -----------------------------------------------------------------------------------------------

TEST(Order, ObjectsInUseStayUsable) {
  Connected pair;
  char sent[8] = "message", received[8] = "";
  kfid_mr* region = nullptr;
  ASSERT_EQ(kfi_mr_reg(pair.both.domain, sent, sizeof sent, KFI_SEND, 0, 9, 0, &region, nullptr), 0);
  for (int round = 0; round < 2; round++) {
    for (kfid* object : {&pair.both.fabric->fid, &pair.both.domain->fid, &pair.eq(0)->fid, &pair.cq(0)->fid}) {
      EXPECT_EQ(kfi_close(object), -KFI_EBUSY);
    }
    ASSERT_EQ(kfi_recv(pair.ep(1), received, sizeof received, nullptr, 0, nullptr), 0);
    ASSERT_EQ(kfi_send(pair.ep(0), sent, sizeof sent, kfi_mr_desc(region), 0, nullptr), 0);
    next(pair.cq(1));
    EXPECT_STREQ(received, sent);
    next(pair.cq(0));
  }
  EXPECT_EQ(kfi_close(&region->fid), 0);
}

TEST(Order, BindingThatFailedLeavesNothing) {
  Connected pair;
  kfid_cq* other = open_cq(pair.both.domain, &pair.both.cq_attr);
  kfid_eq* eq = open_eq(pair.both.fabric);
  EXPECT_NE(kfi_ep_bind(pair.ep(1), &other->fid, KFI_SEND | KFI_RECV), 0) << "it is enabled";
  EXPECT_NE(kfi_domain_bind(pair.both.domain, &other->fid, KFI_REG_MR), 0);
  for (kfid* queue : {&other->fid, &eq->fid}) EXPECT_EQ(kfi_close(queue), 0);
  // A list through a buffer, whose completion comes to the queue that is bound, and a cancel that finds it there.
  char bytes[64];
  std::vector<kvec> pieces;
  for (int i = 0; i < 20; i++) pieces.push_back({bytes + 2 * i, 1});
  ASSERT_EQ(kfi_recvv(pair.ep(1), pieces.data(), nullptr, pieces.size(), 0, &pieces), 0);
  ASSERT_EQ(kfi_cancel(&pair.ep(1)->fid, &pieces), 0);
  kfi_cq_tagged_entry entry;
  ASSERT_EQ(next_completion(pair.cq(1), &entry), -KFI_EAVAIL);
  kfi_cq_err_entry error{};
  ASSERT_EQ(kfi_cq_readerr(pair.cq(1), &error, 0), 1);
  EXPECT_EQ(error.op_context, &pieces);
}

// ---- Handlers -------------------------------------------------------------------------------------------------------

struct Bouncing {
  Connected* pair = nullptr;
  std::atomic<int> messages{0};
  char byte = 0;
};
constexpr int kBounces = 2000;

// Posts a receive and answers each message.
void answer(kfid_cq* cq, void* context) {
  auto* self = static_cast<Bouncing*>(context);
  kfi_cq_tagged_entry entry;
  while (kfi_cq_read(cq, &entry, 1) == 1) {
    if (!(entry.flags & KFI_RECV) || self->messages >= kBounces) continue;
    kfid_ep* const ep = self->pair->ep(entry.op_context == nullptr ? 0 : 1);
    EXPECT_EQ(kfi_recv(ep, &self->byte, 1, nullptr, 0, entry.op_context), 0);
    EXPECT_EQ(kfi_send(ep, &self->byte, 1, nullptr, 0, nullptr), 0);
    self->messages++;
  }
}

TEST(Handler, PostsFromInside) {
  Bouncing self;
  struct pair wanted {};
  wanted.handler = answer;
  wanted.handler_context = &self;
  Connected pair(wanted);
  self.pair = &pair;
  ASSERT_EQ(kfi_recv(pair.ep(0), &self.byte, 1, nullptr, 0, nullptr), 0);
  ASSERT_EQ(kfi_recv(pair.ep(1), &self.byte, 1, nullptr, 0, &self), 0);
  ASSERT_EQ(kfi_send(pair.ep(0), &self.byte, 1, nullptr, 0, nullptr), 0);
  EXPECT_TRUE(becomes([&] { return self.messages >= kBounces; })) << self.messages;
}

struct Closing {
  kfid_domain* domain;
  kfid_ep* ep = nullptr;
  kfid_cq* other = nullptr;
  std::atomic<int> results[3] = {1, 1, 1};
};

void close_others(kfid_cq* cq, void* context) {
  auto* self = static_cast<Closing*>(context);
  kfi_cq_err_entry error{};
  while (kfi_cq_readerr(cq, &error, 0) == 1) continue;
  kfi_cq_msg_entry entry;
  if (self->ep == nullptr) return;
  self->results[0] = kfi_close(&self->ep->fid);
  self->ep = nullptr;
  self->results[1] = kfi_close(&self->other->fid);
  kfid_cq* opened = nullptr;
  kfi_cq_attr attr{};
  int result = kfi_cq_open(self->domain, &attr, &opened, close_others, self);
  if (result == 0) result = kfi_close(&opened->fid);
  while (kfi_cq_read(cq, &entry, 1) == 1) continue;
  self->results[2] = result;
}

TEST(Handler, ClosesItsEndpointAndOtherQueues) {
  Connected pair;
  Closing self{pair.both.domain};
  kfi_cq_attr attr{};
  attr.format = KFI_CQ_FORMAT_MSG;
  kfid_cq* cq = nullptr;
  kfid_eq* eq = open_eq(pair.both.fabric);
  ASSERT_EQ(kfi_cq_open(self.domain, &attr, &self.other, close_others, &self), 0);
  ASSERT_EQ(kfi_cq_open(self.domain, &attr, &cq, close_others, &self), 0);
  kfid_ep* ep = nullptr;
  OK(kfi_endpoint(self.domain, pair.both.info, &ep, nullptr));
  OK(kfi_ep_bind(ep, &eq->fid, 0));
  OK(kfi_ep_bind(ep, &cq->fid, KFI_SEND | KFI_RECV));
  OK(kfi_enable(ep));
  char bytes[2];
  for (char& byte : bytes) ASSERT_EQ(kfi_recv(ep, &byte, 1, nullptr, 0, &byte), 0);
  self.ep = ep;
  OK(kfi_cancel(&ep->fid, bytes));
  EXPECT_TRUE(becomes([&] { return self.results[2] != 1; }));
  for (const auto& result : self.results) EXPECT_EQ(result, 0);
  EXPECT_EQ(kfi_close(&cq->fid), 0);
  EXPECT_EQ(kfi_close(&eq->fid), 0);
}

// Readers on other threads beside the handler: each entry is read once.
TEST(Handler, OtherThreadsReadToo) {
  Bouncing self;
  struct pair wanted {};
  wanted.handler_context = &self;
  wanted.handler = [](kfid_cq* cq, void* context) {
    kfi_cq_tagged_entry entry;
    while (kfi_cq_read(cq, &entry, 1) == 1) static_cast<Bouncing*>(context)->messages++;
  };
  Connected pair(wanted);
  constexpr int kMessages = 5000;
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  for (int i : {0, 1}) {
    readers.emplace_back([&, i] {
      kfi_cq_tagged_entry entry;
      while (!stop) {
        if (kfi_cq_read(pair.cq(i), &entry, 1) == 1) self.messages++;
        std::this_thread::yield();
      }
    });
  }
  const auto retry = [](const auto& call) {
    ssize_t result = 0;
    while ((result = call()) == -KFI_EAGAIN) std::this_thread::yield();
    return result;
  };
  for (int i = 0; i < kMessages; i++) {
    ASSERT_EQ(retry([&] { return kfi_recv(pair.ep(1), &self.byte, 1, nullptr, 0, nullptr); }), 0);
    ASSERT_EQ(retry([&] { return kfi_send(pair.ep(0), &self.byte, 1, nullptr, 0, nullptr); }), 0);
  }
  EXPECT_TRUE(becomes([&] { return self.messages == 2 * kMessages; })) << self.messages;
  stop = true;
  for (std::thread& reader : readers) reader.join();
}

size_t threads() {
  using Entries = std::filesystem::directory_iterator;
  return static_cast<size_t>(std::distance(Entries("/proc/self/task"), Entries()));
}

TEST(Handler, ThreadEndsWithTheLastQueueThatHasOne) {
  Connected pair;
  const size_t before = threads();
  // A joined thread is counted until the kernel has removed it.
  const auto has = [&](size_t more) { return becomes([&] { return threads() == before + more; }); };
  kfi_cq_attr attr{};
  for (int round = 0; round < 3; round++) {
    kfid_cq* queues[2];
    for (kfid_cq*& cq : queues) {
      ASSERT_EQ(kfi_cq_open(
                    pair.both.domain, &attr, &cq, [](kfid_cq*, void*) {}, nullptr),
                0);
    }
    EXPECT_TRUE(has(1)) << threads();
    EXPECT_EQ(kfi_close(&queues[0]->fid), 0);
    EXPECT_TRUE(has(1)) << threads();
    EXPECT_EQ(kfi_close(&queues[1]->fid), 0);
    EXPECT_TRUE(has(0)) << threads();
  }
}

// A program that keeps a signal for sigwait(3) may block it after it has opened its queues.
TEST(Handler, ThreadLeavesSignalsToTheProgram) {
  Connected pair;
  kfi_cq_attr attr{};
  kfid_cq* cq = nullptr;
  ASSERT_EQ(kfi_cq_open(
                pair.both.domain, &attr, &cq, [](kfid_cq*, void*) {}, nullptr),
            0);
  sigset_t kept, before;
  sigemptyset(&kept);
  sigaddset(&kept, SIGUSR1);
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &kept, &before), 0);
  ASSERT_EQ(kill(getpid(), SIGUSR1), 0);
  const timespec most{.tv_sec = 20, .tv_nsec = 0};
  EXPECT_EQ(sigtimedwait(&kept, nullptr, &most), SIGUSR1);
  EXPECT_EQ(pthread_sigmask(SIG_SETMASK, &before, nullptr), 0);
  EXPECT_EQ(kfi_close(&cq->fid), 0);
}

}  // namespace
