// SPDX-License-Identifier: BSD-2-Clause
// KFI_WAIT_QUEUE: callers sleep on the head of a wait queue, which kfi_control gives; kfi_eq(3).
#include <kfi/kernel/linux/wait.h>

#include <atomic>

#include "connected.h"

namespace {

// Both completion queues have wait queues.
struct pair with_wait_queues() {
  struct pair wanted {};
  wanted.cq_attr.wait_obj = KFI_WAIT_QUEUE;
  return wanted;
}

wait_queue_head_t* head_of(kfid* queue) {
  void* head = nullptr;
  EXPECT_EQ(kfi_control(queue, KFI_GETWAIT, &head), 0);
  return static_cast<wait_queue_head_t*>(head);
}

TEST(WaitQueue, EntryWakesTheSleepersOfItsQueue) {
  Connected pair(with_wait_queues());
  wait_queue_head_t* const head = head_of(&pair.cq(1)->fid);
  ASSERT_NE(head, nullptr);
  EXPECT_NE(head, head_of(&pair.cq(0)->fid));
  char bytes[2] = {};
  kfi_cq_tagged_entry entry{};
  EXPECT_EQ(wait_event_timeout(*head, kfi_cq_read(pair.cq(1), &entry, 1) != -KFI_EAGAIN, 20), 0);
  for (char& byte : bytes) ASSERT_EQ(kfi_recv(pair.ep(1), &byte, 1, nullptr, 0, &byte), 0);
  std::atomic<int> woken{0};
  std::thread sleepers[2];
  for (std::thread& sleeper : sleepers) {
    sleeper = std::thread([&] {
      kfi_cq_tagged_entry own{};
      wait_event(*head, kfi_cq_read(pair.cq(1), &own, 1) != -KFI_EAGAIN);
      EXPECT_EQ(own.flags, KFI_MSG | KFI_RECV);
      woken++;
    });
  }
  for (int i = 0; i < 2; i++) {
    ASSERT_EQ(kfi_send(pair.ep(0), bytes, 0, nullptr, 0, nullptr), 0);
    next(pair.cq(0));
    EXPECT_TRUE(becomes([&] { return woken == i + 1; })) << woken;
  }
  for (std::thread& sleeper : sleepers) sleeper.join();
}

TEST(WaitQueue, NoEntryIsLeftWithoutAWakeUp) {
  Connected pair(with_wait_queues());
  wait_queue_head_t* const head = head_of(&pair.cq(1)->fid);
  constexpr int kRounds = 3000;
  char byte = 1;
  std::thread sender([&] {
    for (int i = 0; i < kRounds; i++) {
      ASSERT_EQ(kfi_send(pair.ep(0), &byte, 1, nullptr, 0, nullptr), 0);
      next(pair.cq(0));
    }
  });
  char received = 0;
  for (int i = 0; i < 8; i++) ASSERT_EQ(kfi_recv(pair.ep(1), &received, 1, nullptr, 0, nullptr), 0);
  for (int i = 0; i < kRounds; i++) {
    kfi_cq_tagged_entry entry;
    ASSERT_GT(wait_event_timeout(*head, kfi_cq_read(pair.cq(1), &entry, 1) == 1, 20000), 0) << i;
    ASSERT_EQ(kfi_recv(pair.ep(1), &received, 1, nullptr, 0, nullptr), 0);
  }
  sender.join();
}

TEST(WaitQueue, ErrorEntryWakesAsWell) {
  Connected pair(with_wait_queues());
  char byte = 0;
  ASSERT_EQ(kfi_recv(pair.ep(1), &byte, 1, nullptr, 0, &byte), 0);
  std::thread canceller([&] { EXPECT_EQ(kfi_cancel(&pair.ep(1)->fid, &byte), 0); });
  kfi_cq_tagged_entry entry;
  ssize_t result = 0;
  wait_event(*head_of(&pair.cq(1)->fid), (result = kfi_cq_read(pair.cq(1), &entry, 1)) != -KFI_EAGAIN);
  canceller.join();
  EXPECT_EQ(result, -KFI_EAVAIL);
}

TEST(WaitQueue, EventQueuesHaveThemToo) {
  Connected pair;
  kfi_eq_attr attr{};
  attr.flags = KFI_WRITE;
  attr.wait_obj = KFI_WAIT_QUEUE;
  kfid_eq* eq = nullptr;
  ASSERT_EQ(kfi_eq_open(pair.both.fabric, &attr, &eq, nullptr, nullptr), 0);
  const kfi_eq_entry entry{&pair.ep(0)->fid, nullptr, 7};
  std::thread writer([&] { EXPECT_GT(kfi_eq_write(eq, KFI_NOTIFY, &entry, sizeof entry, 0), 0); });
  kfi_eq_entry read{};
  uint32_t event = 99;
  wait_event(*head_of(&eq->fid), kfi_eq_read(eq, &event, &read, sizeof read, 0) > 0);
  writer.join();
  EXPECT_EQ(read.data, 7u);
  EXPECT_EQ(kfi_close(&eq->fid), 0);
}

// The waiting calls stay, also beside a sleeper on the head.
TEST(WaitQueue, QueueHasSreadToo) {
  Connected pair(with_wait_queues());
  char byte = 0;
  kfi_cq_tagged_entry entry;
  EXPECT_EQ(kfi_cq_sread(pair.cq(1), &entry, 1, nullptr, 2), -KFI_ETIMEDOUT);
  for (int i = 0; i < 200; i++) {
    ASSERT_EQ(kfi_recv(pair.ep(1), &byte, 1, nullptr, 0, nullptr), 0);
    ASSERT_EQ(kfi_send(pair.ep(0), &byte, 1, nullptr, 0, nullptr), 0);
    next(pair.cq(0));
    next(pair.cq(1));
  }
}

TEST(WaitQueue, HandlerIsCalledAndSleepersWake) {
  std::atomic<int> calls{0};
  struct pair wanted = with_wait_queues();
  wanted.handler = [](kfid_cq*, void* context) { ++*static_cast<std::atomic<int>*>(context); };
  wanted.handler_context = &calls;
  Connected pair(wanted);
  char byte = 0;
  ASSERT_EQ(kfi_recv(pair.ep(1), &byte, 1, nullptr, 0, nullptr), 0);
  ASSERT_EQ(kfi_send(pair.ep(0), &byte, 1, nullptr, 0, nullptr), 0);
  EXPECT_TRUE(becomes([&] { return calls == 2; }));
  for (int i : {0, 1}) {
    kfi_cq_tagged_entry entry;
    wait_event(*head_of(&pair.cq(i)->fid), kfi_cq_read(pair.cq(i), &entry, 1) == 1);
  }
}

}  // namespace
