// SPDX-License-Identifier: BSD-2-Clause
// libkfabric's own promises: time-outs, handlers, lists of memory, objects that are in use. kfi_cm(3), kfi_eq(3).
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "connected.h"

namespace {

// Never shorter than `expected` seconds, and within 5 ms of it in one of many attempts: another program may have the
// processor in the others.
bool lasts(double expected, const std::function<void()>& call) {
  for (int i = 0; i < 50; i++) {
    const double seconds = seconds_of(call);
    EXPECT_GE(seconds, expected - 0.001);
    if (seconds < expected + 0.005) return true;
  }
  return false;
}

// ---- Time-outs ------------------------------------------------------------------------------------------------------

TEST(TimeOut, UnitIsAFlagOfTheCall) {
  Connected pair;
  uint32_t event;
  char room[64];
  const auto wait = [&](int timeout, uint64_t flags) {
    return kfi_eq_sread(pair.eq(0), &event, room, sizeof room, timeout, flags);
  };
  EXPECT_TRUE(lasts(0.02, [&] { EXPECT_EQ(wait(20000, KFI_TIME_US), -KFI_ETIMEDOUT); }));
  EXPECT_TRUE(lasts(0.02, [&] { EXPECT_EQ(wait(20, KFI_TIME_MS), -KFI_ETIMEDOUT); }));
  EXPECT_TRUE(lasts(0.02, [&] { EXPECT_EQ(wait(20, 0), -KFI_ETIMEDOUT); }));
  EXPECT_TRUE(lasts(0, [&] { EXPECT_EQ(wait(0, 0), -KFI_ETIMEDOUT); }));
  EXPECT_EQ(wait(20, KFI_TIME_US | KFI_TIME_MS), -KFI_EBADFLAGS);
  EXPECT_EQ(kfi_eq_read(pair.eq(0), &event, room, sizeof room, 0), -KFI_EAGAIN);
}

TEST(TimeOut, UnitOfACompletionQueueIsAFlagOfItsAttributes) {
  for (uint64_t unit : std::initializer_list<uint64_t>{0, KFI_TIME_MS, KFI_TIME_US}) {
    struct pair wanted {};
    wanted.cq_attr.flags = unit;
    Connected pair(wanted);
    kfi_cq_tagged_entry entry;
    const int timeout = unit == KFI_TIME_US ? 20000 : 20;
    EXPECT_TRUE(lasts(0.02, [&] { EXPECT_EQ(kfi_cq_sread(pair.cq(0), &entry, 1, nullptr, timeout), -KFI_ETIMEDOUT); }));
    EXPECT_EQ(kfi_cq_sread(pair.cq(0), &entry, 1, nullptr, 0), -KFI_ETIMEDOUT);
    EXPECT_EQ(kfi_cq_read(pair.cq(0), &entry, 1), -KFI_EAGAIN);
    // An entry ends the wait.
    char byte = 0;
    ASSERT_EQ(kfi_recv(pair.ep(0), &byte, 1, nullptr, 0, &byte), 0);
    std::thread sender([&] { EXPECT_EQ(kfi_send(pair.ep(1), &byte, 1, nullptr, 0, nullptr), 0); });
    EXPECT_EQ(kfi_cq_sread(pair.cq(0), &entry, 1, nullptr, -1), 1);
    sender.join();
  }
  Connected pair;
  kfi_cq_attr attr{};
  attr.flags = KFI_TIME_US | KFI_TIME_MS;
  kfid_cq* cq = nullptr;
  EXPECT_EQ(kfi_cq_open(pair.both.domain, &attr, &cq, nullptr, nullptr), -KFI_EBADFLAGS);
}

// libfabric's own clock may end a wait a little early.
TEST(TimeOut, NoWaitEndsWithoutAReason) {
  Connected pair;
  kfi_cq_tagged_entry entry;
  for (int i = 0; i < 500; i++) ASSERT_EQ(kfi_cq_sread(pair.cq(0), &entry, 1, nullptr, 1), -KFI_ETIMEDOUT) << i;
}

// ---- Handlers -------------------------------------------------------------------------------------------------------

struct Called {
  std::atomic<int> calls{0};
  std::atomic<int> inside{0};
  std::atomic<bool> overlapped{false};
  std::atomic<int> entries{0};
  std::atomic<bool> drains{true};
  std::atomic<int> close_result{1};
  bool close_inside = false;
};

void count_calls(kfid_cq* cq, void* context) {
  auto* called = static_cast<Called*>(context);
  if (called->inside++ != 0) called->overlapped = true;
  if (called->close_inside) called->close_result = kfi_close(&cq->fid);
  kfi_cq_tagged_entry entry;
  while (called->drains && kfi_cq_read(cq, &entry, 1) == 1) called->entries++;
  called->inside--;
  called->calls++;  // last: the test may read the queue from here on
}

// A pair whose completion queues have that handler.
struct pair counting(Called& called) {
  struct pair wanted {};
  wanted.handler = count_calls;
  wanted.handler_context = &called;
  return wanted;
}

TEST(Handler, NoCallUntilAReadFoundTheQueueEmpty) {
  Called called;
  called.drains = false;
  Connected pair(counting(called));
  char byte = 0;
  // The sender's own completion calls first: that queue stays full, so it is silent from then on.
  ASSERT_EQ(kfi_recv(pair.ep(1), &byte, 1, nullptr, 0, nullptr), 0);
  ASSERT_EQ(kfi_recv(pair.ep(1), &byte, 1, nullptr, 0, nullptr), 0);
  ASSERT_EQ(kfi_send(pair.ep(0), &byte, 1, nullptr, 0, nullptr), 0);
  ASSERT_TRUE(becomes([&] { return called.calls == 2; }));  // one for each queue
  ASSERT_EQ(kfi_send(pair.ep(0), &byte, 1, nullptr, 0, nullptr), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(called.calls, 2) << "the queues were not read";
  kfi_cq_tagged_entry entry;
  for (int i : {0, 1}) {
    while (kfi_cq_read(pair.cq(i), &entry, 1) == 1) called.entries++;
  }
  EXPECT_TRUE(becomes([&] {
    for (int i : {0, 1}) {
      if (kfi_cq_read(pair.cq(i), &entry, 1) == 1) called.entries++;
    }
    return called.entries == 4;
  }));
  called.drains = true;
  const int before = called.calls;
  ASSERT_EQ(kfi_recv(pair.ep(1), &byte, 1, nullptr, 0, nullptr), 0);
  ASSERT_EQ(kfi_send(pair.ep(0), &byte, 1, nullptr, 0, nullptr), 0);
  EXPECT_TRUE(becomes([&] { return called.calls > before && called.entries == 6; }));
}

TEST(Handler, NoEntryIsLeftWithoutACall) {
  Called called;
  Connected pair(counting(called));
  constexpr int kRounds = 3200;
  std::vector<char> bytes(kRounds);
  char byte = 1;
  for (int i = 0; i < kRounds; i++) {
    ASSERT_EQ(kfi_recv(pair.ep(1), &bytes[i], 1, nullptr, 0, nullptr), 0);
    ASSERT_EQ(kfi_send(pair.ep(0), &byte, 1, nullptr, 0, nullptr), 0);
    if (i % 64 == 63) {
      ASSERT_TRUE(becomes([&] { return called.entries == 2 * (i + 1); })) << i;
    }
  }
  EXPECT_TRUE(becomes([&] { return called.entries == 2 * kRounds; })) << called.entries;
  EXPECT_FALSE(called.overlapped);
}

TEST(Handler, QueueWithHandlerHasNoSread) {
  Called called;
  Connected pair(counting(called));
  kfi_cq_tagged_entry entry;
  EXPECT_EQ(kfi_cq_sread(pair.cq(0), &entry, 1, nullptr, 0), -KFI_ENOSYS);
}

TEST(Handler, CloseWaitsForARunningCall) {
  Connected pair;
  struct Running {
    std::atomic<bool> inside{false}, leaves{false}, left{false};
  } running;
  kfi_eq_attr attr{};
  attr.flags = KFI_WRITE;
  kfid_eq* eq = nullptr;
  const kfi_event_handler handler = [](kfid_eq*, void* context) {
    auto* self = static_cast<Running*>(context);
    self->inside = true;
    while (!self->leaves) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    self->left = true;
  };
  ASSERT_EQ(kfi_eq_open(pair.both.fabric, &attr, &eq, handler, &running), 0);
  const kfi_eq_entry entry{&pair.ep(0)->fid, nullptr, 1};
  ASSERT_EQ(kfi_eq_write(eq, KFI_NOTIFY, &entry, sizeof entry, 0), static_cast<ssize_t>(sizeof entry));
  ASSERT_TRUE(becomes([&] { return running.inside.load(); }));
  running.leaves = true;
  EXPECT_EQ(kfi_close(&eq->fid), 0);
  EXPECT_TRUE(running.left) << "the call was still running";
}

TEST(Handler, CloseFromInsideIsBusy) {
  Called called;
  called.close_inside = true;
  Connected pair(counting(called));
  char byte = 0;
  ASSERT_EQ(kfi_recv(pair.ep(1), &byte, 1, nullptr, 0, nullptr), 0);
  ASSERT_EQ(kfi_send(pair.ep(0), &byte, 1, nullptr, 0, nullptr), 0);
  EXPECT_TRUE(becomes([&] { return called.entries == 2; }));
  EXPECT_EQ(called.close_result, -KFI_EBUSY);
}

TEST(Handler, EventQueuesHaveThemToo) {
  Connected pair;
  std::atomic<int> calls{0};
  kfid_eq* eq = nullptr;
  kfi_eq_attr attr{};
  attr.flags = KFI_WRITE;
  const kfi_event_handler handler = [](kfid_eq* queue, void* context) {
    uint32_t event;
    kfi_eq_entry entry;
    while (kfi_eq_read(queue, &event, &entry, sizeof entry, 0) > 0)
      static_cast<std::atomic<int>*>(context)->fetch_add(1);
  };
  ASSERT_EQ(kfi_eq_open(pair.both.fabric, &attr, &eq, handler, &calls), 0);
  kfi_eq_entry entry{&pair.ep(0)->fid, &pair, 5};
  for (int i = 0; i < 100; i++) {
    ASSERT_EQ(kfi_eq_write(eq, KFI_NOTIFY, &entry, sizeof entry, 0), static_cast<ssize_t>(sizeof entry));
  }
  EXPECT_TRUE(becomes([&] { return calls == 100; }));
  EXPECT_EQ(kfi_close(&eq->fid), 0);
}

// ---- Lists of memory ------------------------------------------------------------------------------------------------

std::vector<char> numbered(size_t size) {
  std::vector<char> bytes(size);
  std::iota(bytes.begin(), bytes.end(), 0);
  return bytes;
}

// Pieces of every second range, in an order of their own, so that no two are neighbours.
struct Scattered {
  std::vector<char> memory;
  std::vector<kvec> pieces;
  size_t bytes = 0;

  Scattered(size_t count, std::mt19937& random) : memory(count * 200) {
    std::vector<size_t> order(count);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    for (size_t i : order) {
      pieces.push_back({&memory[i * 200] + random() % 50, 1 + random() % 100});
      bytes += pieces.back().iov_len;
    }
  }
  void set(const std::vector<char>& from) {
    size_t at = 0;
    for (const kvec& piece : pieces) {
      memcpy(piece.iov_base, from.data() + at, piece.iov_len);
      at += piece.iov_len;
    }
  }
  std::vector<char> get() const {
    std::vector<char> result;
    for (const kvec& piece : pieces) {
      result.insert(result.end(), static_cast<char*>(piece.iov_base),
                    static_cast<char*>(piece.iov_base) + piece.iov_len);
    }
    return result;
  }
  std::vector<bio_vec> as_bvec() const {
    std::vector<bio_vec> result;
    for (const kvec& piece : pieces) {
      const auto address = reinterpret_cast<uintptr_t>(piece.iov_base);
      result.push_back({reinterpret_cast<page*>(address & ~4095ul), static_cast<unsigned>(piece.iov_len),
                        static_cast<unsigned>(address & 4095)});
    }
    return result;
  }
  // Mapped, in two arrays with a link.
  std::vector<std::vector<scatterlist>> as_sgl() const {
    std::vector<std::vector<scatterlist>> result(2);
    for (size_t i = 0; i < pieces.size(); i++) {
      auto& half = result[i < pieces.size() / 2 ? 0 : 1];
      const auto length = static_cast<unsigned>(pieces[i].iov_len);
      half.push_back({0, 0, length, reinterpret_cast<uintptr_t>(pieces[i].iov_base), length});
    }
    result[1].back().page_link |= 2;
    if (!result[0].empty()) result[0].push_back({reinterpret_cast<uintptr_t>(result[1].data()) | 1, 0, 0, 0, 0});
    return result;
  }
};

TEST(Lists, AnyNumberOfPiecesInEveryFormArrivesInOrder) {
  Connected pair({}, KFI_MSG | KFI_TAGGED);
  std::mt19937 random(1);
  for (size_t count : {1, 2, 4, 5, 17, 255, 256}) {
    for (int form = 0; form < 3; form++) {
      Scattered from(count, random), to(count, random);
      const std::vector<char> data = numbered(from.bytes);
      from.set(data);
      std::vector<char> whole(std::max(from.bytes, to.bytes));
      const auto from_bvec = from.as_bvec(), to_bvec = to.as_bvec();
      const auto from_sgl = from.as_sgl(), to_sgl = to.as_sgl();
      const scatterlist* from_list = from_sgl[from_sgl[0].empty() ? 1 : 0].data();
      const scatterlist* to_list = to_sgl[to_sgl[0].empty() ? 1 : 0].data();
      // Gathered into one buffer.
      ASSERT_EQ(kfi_recv(pair.ep(1), whole.data(), whole.size(), nullptr, 0, &whole), 0);
      const ssize_t posted = form == 0   ? kfi_sendv(pair.ep(0), from.pieces.data(), nullptr, count, 0, &from)
                             : form == 1 ? kfi_sendbv(pair.ep(0), from_bvec.data(), nullptr, count, 0, &from)
                                         : kfi_sendsgl(pair.ep(0), from_list, nullptr, count, 0, &from);
      ASSERT_EQ(posted, 0);
      EXPECT_EQ(next(pair.cq(0)).op_context, &from);
      kfi_cq_tagged_entry entry = next(pair.cq(1));
      EXPECT_EQ(entry.op_context, &whole);
      EXPECT_EQ(entry.len, from.bytes);
      EXPECT_EQ(memcmp(whole.data(), data.data(), data.size()), 0) << count << " pieces, form " << form;
      // Scattered, by a message that is shorter than the pieces.
      const size_t sent = to.bytes - to.bytes / 3;
      const std::vector<char> message = numbered(sent);
      kfi_msg_tagged receive{};
      receive.type = static_cast<kfi_iov_type>(form + 1);
      if (form == 0) receive.msg_iov = to.pieces.data();
      if (form == 1) receive.msg_biov = to_bvec.data();
      if (form == 2) receive.msg_sgl = to_list;
      receive.iov_count = count;
      receive.tag = 9;
      receive.context = &to;
      ASSERT_EQ(kfi_trecvmsg(pair.ep(1), &receive, KFI_COMPLETION), 0);
      ASSERT_EQ(kfi_tsend(pair.ep(0), message.data(), sent, nullptr, 0, 9, nullptr), 0);
      next(pair.cq(0));
      entry = next(pair.cq(1));
      EXPECT_EQ(entry.op_context, &to);
      EXPECT_EQ(entry.len, sent);
      EXPECT_EQ(entry.flags, KFI_TAGGED | KFI_RECV);
      const std::vector<char> received = to.get();
      EXPECT_EQ(memcmp(received.data(), message.data(), sent), 0) << count << " pieces, form " << form;
      EXPECT_EQ(std::count(received.begin() + sent, received.end(), 0), static_cast<long>(received.size() - sent));
    }
  }
}

TEST(Lists, RemoteAccessGathersAndScatters) {
  Connected pair;
  std::mt19937 random(2);
  Scattered from(100, random), to(100, random);
  const std::vector<char> data = numbered(from.bytes);
  from.set(data);
  std::vector<char> target(std::max(from.bytes, to.bytes));
  kfid_mr* region = nullptr;
  ASSERT_EQ(kfi_mr_reg(pair.both.domain, target.data(), target.size(), KFI_REMOTE_READ | KFI_REMOTE_WRITE, 0, 3, 0,
                       &region, nullptr),
            0);
  const auto list = from.as_bvec();
  ASSERT_EQ(kfi_writebv(pair.ep(0), list.data(), nullptr, list.size(), 0, region->iova, kfi_mr_key(region), &from), 0);
  kfi_cq_tagged_entry entry = next(pair.cq(0));
  EXPECT_EQ(entry.op_context, &from);
  EXPECT_EQ(entry.flags, KFI_RMA | KFI_WRITE);
  ASSERT_EQ(kfi_readv(pair.ep(0), to.pieces.data(), nullptr, 100, 0, region->iova, kfi_mr_key(region), &to), 0);
  entry = next(pair.cq(0));
  EXPECT_EQ(entry.op_context, &to);
  EXPECT_EQ(entry.flags, KFI_RMA | KFI_READ);
  EXPECT_EQ(memcmp(target.data(), data.data(), data.size()), 0);
  EXPECT_EQ(memcmp(to.get().data(), target.data(), to.bytes), 0);
  EXPECT_EQ(kfi_close(&region->fid), 0);
}

TEST(Lists, BadOnesAreRefused) {
  Connected pair;
  alignas(4) char byte = 0;
  scatterlist unmapped{reinterpret_cast<uintptr_t>(&byte), 0, 1, 0, 0};
  EXPECT_EQ(kfi_sendsgl(pair.ep(0), &unmapped, nullptr, 1, 0, nullptr), -KFI_EINVAL);
  const bio_vec nowhere{nullptr, 1, 0};
  EXPECT_EQ(kfi_recvbv(pair.ep(0), &nowhere, nullptr, 1, 0, nullptr), -KFI_EINVAL);
  const kvec piece{&byte, 1};
  kfi_msg message{};
  message.msg_iov = &piece;
  message.iov_count = 1;
  EXPECT_EQ(kfi_sendmsg(pair.ep(0), &message, 0), -KFI_EINVAL) << "type 0";
  const std::vector<kvec> many(257, piece);
  EXPECT_EQ(kfi_sendv(pair.ep(0), many.data(), nullptr, many.size(), 0, nullptr), -KFI_EINVAL);
}

// A list for a buffer, between ends that report completions on request only.
struct SilentSender {
  explicit SilentSender(unsigned seed) : random(seed) {
    message.type = KFI_KVEC;
    message.msg_iov = from.pieces.data();
    message.iov_count = from.pieces.size();
  }
  static struct pair selective() {
    struct pair wanted {};
    wanted.cq_bind_flags = KFI_SELECTIVE_COMPLETION;
    return wanted;
  }

  Connected ends{selective()};
  std::mt19937 random;
  Scattered from{50, random};
  std::vector<char> whole = std::vector<char>(from.bytes);
  kfi_msg message{};
};

TEST(Lists, OperationsWithoutACompletionStaySilent) {
  SilentSender scene(3);
  Connected& pair = scene.ends;
  std::vector<char>& whole = scene.whole;
  kfi_msg& message = scene.message;
  for (int i = 0; i < 2; i++) {
    const kvec one{whole.data(), whole.size()};
    kfi_msg receive{};
    receive.type = KFI_KVEC;
    receive.msg_iov = &one;
    receive.iov_count = 1;
    ASSERT_EQ(kfi_recvmsg(pair.ep(1), &receive, KFI_COMPLETION), 0);
    message.context = i == 0 ? nullptr : &message;
    ASSERT_EQ(kfi_sendmsg(pair.ep(0), &message, i == 0 ? 0 : KFI_COMPLETION), 0);
    next(pair.cq(1));
  }
  EXPECT_EQ(next(pair.cq(0)).op_context, &message);
  kfi_cq_tagged_entry entry;
  EXPECT_EQ(kfi_cq_read(pair.cq(0), &entry, 1), -KFI_EAGAIN);
}

TEST(Lists, SilentOperationsDoNotProlongAWait) {
  SilentSender scene(5);
  Connected& pair = scene.ends;
  std::vector<char>& whole = scene.whole;
  kfi_msg& message = scene.message;
  std::atomic<bool> ends{false};
  std::thread sender([&] {
    for (int i = 0; i < 1000 && !ends; i++) {
      ASSERT_EQ(kfi_recv(pair.ep(1), whole.data(), whole.size(), nullptr, 0, nullptr), 0);
      ASSERT_EQ(kfi_sendmsg(pair.ep(0), &message, 0), 0);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
  kfi_cq_tagged_entry entry;
  const auto wait = [&] { EXPECT_EQ(kfi_cq_sread(pair.cq(0), &entry, 1, nullptr, 50), -KFI_ETIMEDOUT); };
  EXPECT_LT(seconds_of(wait), 5) << "as long as operations complete";
  ends = true;
  sender.join();
}

// Three messages of each size at once, three times: also over verbs, which requires registered memory.
TEST(Lists, MessagesOfAllSizesShareBuffers) {
  Connected pair;
  constexpr size_t kPieces = 100, kOutstanding = 3;
  for (size_t len : {1, 50, 10000, 20000}) {  // bytes of a piece
    std::vector<char> from(kOutstanding * kPieces * (len + 1)), to(from.size());
    const auto pieces = [&](std::vector<char>& memory, size_t message) {
      std::vector<kvec> result;
      for (size_t i = 0; i < kPieces; i++) result.push_back({&memory[(message * kPieces + i) * (len + 1)], len});
      return result;
    };
    for (char round : {1, 2, 3}) {
      for (size_t i = 0; i < kOutstanding; i++) {
        for (const kvec& piece : pieces(from, i)) memset(piece.iov_base, round * 10 + static_cast<char>(i), len);
        ASSERT_EQ(kfi_recvv(pair.ep(1), pieces(to, i).data(), nullptr, kPieces, 0, nullptr), 0);
      }
      for (size_t i = 0; i < kOutstanding; i++) {
        ASSERT_EQ(kfi_sendv(pair.ep(0), pieces(from, i).data(), nullptr, kPieces, 0, nullptr), 0);
      }
      for (size_t i = 0; i < kOutstanding; i++) {
        next(pair.cq(0));
        EXPECT_EQ(next(pair.cq(1)).len, kPieces * len);
      }
      EXPECT_TRUE(from == to) << len << " bytes, round " << static_cast<int>(round);
    }
  }
}

TEST(Lists, CancelFindsAnOperationThroughABuffer) {
  Connected pair;
  std::mt19937 random(4);
  Scattered to(50, random);
  ASSERT_EQ(kfi_recvv(pair.ep(1), to.pieces.data(), nullptr, 50, 0, &to), 0);
  ASSERT_EQ(kfi_cancel(&pair.ep(1)->fid, &to), 0);
  kfi_cq_tagged_entry entry;
  ASSERT_EQ(next_completion(pair.cq(1), &entry), -KFI_EAVAIL);
  kfi_cq_err_entry error{};
  ASSERT_EQ(kfi_cq_readerr(pair.cq(1), &error, 0), 1);
  EXPECT_EQ(error.err, KFI_ECANCELED);
  EXPECT_EQ(error.op_context, &to);
}

// ---- Objects --------------------------------------------------------------------------------------------------------

TEST(Objects, BoundQueuesStayOpen) {
  Connected pair;
  EXPECT_EQ(kfi_close(&pair.eq(0)->fid), -KFI_EBUSY);
  EXPECT_EQ(kfi_close(&pair.cq(0)->fid), -KFI_EBUSY);
}

TEST(Objects, EventsThatAClientWritesComeBackAsTheyAre) {
  Connected pair;
  kfid_eq* eq = nullptr;
  kfi_eq_attr attr{};
  attr.flags = KFI_WRITE;
  ASSERT_EQ(kfi_eq_open(pair.both.fabric, &attr, &eq, nullptr, nullptr), 0);
  const kfi_eq_entry entry{&pair.ep(0)->fid, &pair, 5};
  ASSERT_EQ(kfi_eq_write(eq, KFI_NOTIFY, &entry, sizeof entry, 0), static_cast<ssize_t>(sizeof entry));
  kfi_eq_entry read{};
  uint32_t event = 99;
  ASSERT_EQ(kfi_eq_read(eq, &event, &read, sizeof read, 0), static_cast<ssize_t>(sizeof read));
  EXPECT_EQ(event, KFI_NOTIFY);
  EXPECT_EQ(memcmp(&read, &entry, sizeof read), 0);
  EXPECT_EQ(kfi_close(&eq->fid), 0);
}

TEST(Objects, InfosAreCopiedWhole) {
  kfi_info* hints = hints_for("tcp");
  kfi_info* info = find(hints);
  info->ep_attr->auth_key = static_cast<uint8_t*>(calloc(1, 4));
  info->ep_attr->auth_key_size = 4;
  kfi_info* copy = kfi_dupinfo(info);
  ASSERT_NE(copy, nullptr);
  EXPECT_STREQ(copy->fabric_attr->prov_name, "tcp");
  EXPECT_NE(copy->fabric_attr->prov_name, info->fabric_attr->prov_name);
  EXPECT_NE(copy->ep_attr->auth_key, info->ep_attr->auth_key);
  EXPECT_EQ(copy->fabric_attr->api_version, KFI_VERSION(1, 7));
  EXPECT_EQ(copy->domain_attr->mr_mode & ~(KFI_MR_LOCAL | KFI_MR_VIRT_ADDR | KFI_MR_PROV_KEY), 0);
  EXPECT_NE(strstr(kfi_tostr(copy, KFI_TYPE_INFO), "tcp"), nullptr);
  kfi_freeinfo(copy);
  kfi_freeinfo(info);
  hints->caps |= KFI_TAGGED_RMA;
  EXPECT_EQ(kfi_getinfo(0, nullptr, nullptr, 0, hints, &info), -KFI_ENODATA);
  EXPECT_EQ(info, nullptr);
  EXPECT_EQ(kfi_getinfo(KFI_VERSION(1, 8), nullptr, nullptr, 0, hints, &info), -KFI_ENOSYS);
  kfi_freeinfo(hints);
  EXPECT_EQ(kfi_fabric(nullptr, nullptr, nullptr), -KFI_EINVAL);
}

TEST(Objects, WhatCannotBeHadIsRefused) {
  Connected pair;
  kfid_ep* ep = nullptr;
  ASSERT_EQ(kfi_endpoint(pair.both.domain, pair.both.info, &ep, nullptr), 0);
  EXPECT_EQ(kfi_ep_bind(ep, &pair.cq(0)->fid, 0), -KFI_EINVAL) << "no direction";
  EXPECT_EQ(kfi_connect(ep, nullptr, nullptr, 0), -KFI_EINVAL) << "no address";
  EXPECT_EQ(kfi_close(&ep->fid), 0);
  kfid_mr* mr = nullptr;
  char bytes[2 * 256] = {};
  const bio_vec nowhere{nullptr, 1, 0};
  EXPECT_EQ(kfi_mr_regbv(pair.both.domain, &nowhere, 1, KFI_SEND, 0, 2, 0, &mr, nullptr), -KFI_EINVAL);
  std::vector<kvec> pieces;
  for (size_t i = 0; i < 256; i++) pieces.push_back({&bytes[2 * i], 1});
  // The distribution's library takes any number.
  const int listed = kfi_mr_regv(pair.both.domain, pieces.data(), 256, KFI_SEND, 0, 2, 0, &mr, nullptr);
  EXPECT_EQ(listed, listed == 0 ? kfi_close(&mr->fid) : -KFI_EOPNOTSUPP);
  kfi_msg_rma message{};
  message.type = KFI_KVEC;
  for (uint64_t capability : {KFI_TAGGED_RMA, KFI_TAGGED_MULTI_RECV}) {
    EXPECT_EQ(kfi_readmsg(pair.ep(0), &message, capability), -KFI_EBADFLAGS) << "libfabric's flag with this bit";
  }
  kfi_info *hints = hints_for("tcp"), *info = nullptr;
  hints->caps = 1ull << 40;
  EXPECT_EQ(kfi_getinfo(0, nullptr, nullptr, 0, hints, &info), -KFI_ENODATA);
  kfi_freeinfo(hints);
  kfi_fabric_attr attr{};
  char nobody[] = "nobody";
  attr.name = attr.prov_name = nobody;
  kfid_fabric* fabric = nullptr;
  EXPECT_EQ(kfi_fabric(&attr, &fabric, nullptr), -KFI_ENODEV);
  uint64_t count = 0;
  EXPECT_EQ(kfi_control(&pair.ep(0)->fid, 9999, &count), -KFI_ENOSYS);
  EXPECT_EQ(fabric, nullptr);
}

TEST(Objects, ExtensionsOfAnotherProviderAreRefused) {
  Connected pair;
  void* table = nullptr;
  EXPECT_EQ(kfi_open_ops(&pair.both.domain->fid, "cxi_dom_ops_v1", 0, &table, nullptr), -KFI_ENOSYS);
  EXPECT_EQ(kfi_control(&pair.ep(0)->fid, KFI_QUEUE_WORK, nullptr), -KFI_ENOSYS);
  kfid_ep* context = nullptr;
  EXPECT_NE(kfi_rx_context(pair.ep(0), 0, nullptr, &context, nullptr), 0);
}

}  // namespace
