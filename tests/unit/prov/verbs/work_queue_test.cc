// SPDX-License-Identifier: BSD-2-Clause
// Work queues account for every record: posted = completed + left, in whatever order completions come.
#include "verbs/transfer/work_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <random>
#include <set>
#include <thread>

#include "verbs/device/limits.h"

namespace weft::verbs {
namespace {

// Only the address matters here.
template <class Queue>
Queue& some() {
  static std::max_align_t place;
  return reinterpret_cast<Queue&>(place);
}

TEST(SendRing, HoldsExactlyItsSize) {
  for (size_t size : {2, 3, 7, 8, 100}) {
    SendRing ring;
    ASSERT_TRUE(ring.open(size, some<SendQueue>()).ok());
    std::set<Posted*> seen;
    for (size_t i = 0; i < size; ++i) {
      EXPECT_EQ(ring.room(), size - i);
      Posted* slot = ring.next();
      ASSERT_NE(slot, nullptr) << i << " of " << size;
      EXPECT_EQ(slot->sends, &some<SendQueue>());
      seen.insert(slot);
      ring.push(true);
    }
    EXPECT_EQ(seen.size(), size);
    EXPECT_EQ(ring.next(), nullptr);
    EXPECT_EQ(ring.room(), 0u);
    EXPECT_EQ(ring.outstanding(), size);
  }
}

TEST(SendRing, OneCompletionReleasesAllBefore) {
  SendRing ring;
  ASSERT_TRUE(ring.open(8, some<SendQueue>()).ok());
  Posted* slots[8];
  for (Posted*& slot : slots) {
    slot = ring.next();
    ring.push(false);
  }
  ring.complete_through(*slots[4]);
  EXPECT_EQ(ring.outstanding(), 3u);
  EXPECT_EQ(ring.room(), 5u);
  for (int i = 0; i < 5; ++i) {
    ASSERT_NE(ring.next(), nullptr);
    ring.push(false);
  }
  EXPECT_EQ(ring.next(), nullptr);
  ring.complete_through(*slots[7]);  // the last of the first round
  EXPECT_EQ(ring.outstanding(), 5u);
}

TEST(SendRing, EverySecondHalfAsksForASignal) {
  SendRing ring;
  ASSERT_TRUE(ring.open(8, some<SendQueue>()).ok());
  int signals = 0;
  for (int i = 0; i < 8; ++i) {
    ASSERT_NE(ring.next(), nullptr);
    const bool signal = ring.must_signal();
    signals += signal;
    ring.push(signal);
  }
  EXPECT_EQ(signals, 2);
}

TEST(SendRing, IsClearUntilASignalIsDue) {
  SendRing ring;
  ASSERT_TRUE(ring.open(8, some<SendQueue>()).ok());
  EXPECT_FALSE(ring.is_clear());
  for (int round = 0; round < 10; ++round) {
    ring.clear();
    Posted* last = nullptr;
    int quiet = 0;
    for (; ring.is_clear(); ++quiet) {
      EXPECT_FALSE(ring.must_signal());
      last = ring.next();
      ASSERT_NE(last, nullptr);
      EXPECT_EQ(&ring.front(), last);
      ring.push(false);
    }
    EXPECT_EQ(quiet, 3) << "of four";
    EXPECT_TRUE(ring.must_signal());
    Posted* signalled = ring.next();
    ASSERT_NE(signalled, nullptr);
    ring.push(true);
    EXPECT_FALSE(ring.is_clear()) << "who posts otherwise says when the way is clear again";
    ring.complete_through(*signalled);
  }
}

TEST(SendRing, IsClearNoFurtherThanThereIsRoom) {
  for (const size_t size : {2, 3, 8, 100}) {
    SendRing ring;
    ASSERT_TRUE(ring.open(size, some<SendQueue>()).ok());
    size_t posted = 0;
    for (int i = 0; i < 200; ++i) {
      ring.clear();
      if (ring.is_clear() || ring.next() != nullptr) {
        ring.push(true);
        ++posted;
      }
    }
    EXPECT_EQ(posted, size);
    EXPECT_FALSE(ring.is_clear());
    ASSERT_NE(ring.take_oldest(), nullptr);
    ring.clear();
    EXPECT_TRUE(ring.is_clear() || size < 4) << "signals are due all the time in a ring of two or three";
  }
}

TEST(SendRing, IsNotClearOnceBlockedOrClosedOrTakenBack) {
  for (int way = 0; way < 3; ++way) {
    SendRing ring;
    ASSERT_TRUE(ring.open(16, some<SendQueue>()).ok());
    ring.push(false);
    ring.clear();
    ASSERT_TRUE(ring.is_clear());
    if (way == 0) ring.block();
    if (way == 1) ring.close();
    if (way == 2) ring.take_back(1);
    EXPECT_FALSE(ring.is_clear()) << way;
    ring.push(false);
    EXPECT_FALSE(ring.is_clear()) << way;
    ring.clear();
    EXPECT_EQ(ring.is_clear(), way == 0) << way;  // closed for good; a signal is due after what was taken back
  }
}

TEST(SendRing, TwoRecordsAtOnceNeedTwo) {
  SendRing ring;
  ASSERT_TRUE(ring.open(3, some<SendQueue>()).ok());
  ASSERT_NE(ring.next(1), nullptr);
  EXPECT_NE(ring.next(0), ring.next(1));
  EXPECT_EQ(&ring.after(*ring.next(0)), ring.next(1));
  ring.push(false);
  ring.push(true);
  EXPECT_NE(ring.next(0), nullptr);
  EXPECT_EQ(ring.next(1), nullptr);
}

TEST(SendRing, WhatWasNotPostedCanBeTakenBack) {
  SendRing ring;
  ASSERT_TRUE(ring.open(4, some<SendQueue>()).ok());
  for (int i = 0; i < 4; ++i) {
    ring.next()->flags = static_cast<uint32_t>(i);
    ring.push(false);
  }
  EXPECT_EQ(ring.youngest(0).flags, 3u);
  EXPECT_EQ(ring.youngest(2).flags, 1u);
  ring.take_back(3);
  EXPECT_EQ(ring.outstanding(), 1u);
  EXPECT_EQ(ring.room(), 3u);
  EXPECT_TRUE(ring.must_signal()) << "who knows whether the last signalled one was among them";
}

TEST(SendRing, ClosedTakesNothingAndStillAccounts) {
  SendRing ring;
  ASSERT_TRUE(ring.open(4, some<SendQueue>()).ok());
  for (int i = 0; i < 3; ++i) {
    ring.next()->flags = static_cast<uint32_t>(i);
    ring.push(false);
  }
  ring.close();
  EXPECT_TRUE(ring.closed());
  EXPECT_EQ(ring.next(), nullptr);
  EXPECT_EQ(ring.room(), 0u);
  for (uint32_t i = 0; i < 3; ++i) {
    Posted* left = ring.take_oldest();
    ASSERT_NE(left, nullptr);
    EXPECT_EQ(left->flags, i);
  }
  EXPECT_EQ(ring.take_oldest(), nullptr);
  EXPECT_EQ(ring.outstanding(), 0u);
}

TEST(SendRing, NeverOpenedIsEmptyAndClosed) {
  SendRing ring;
  EXPECT_EQ(ring.next(), nullptr);
  EXPECT_EQ(ring.outstanding(), 0u);
  EXPECT_EQ(ring.take_oldest(), nullptr);
}

TEST(SendRing, PosterAndCompleterNeedNoLock) {
  SendRing ring;
  ASSERT_TRUE(ring.open(16, some<SendQueue>()).ok());
  constexpr int kRounds = 20'000;
  std::atomic<Posted*> signalled[16] = {};
  std::thread completer([&] {
    for (int done = 0, at = 0; done < kRounds / 4; ++at) {
      Posted* slot = signalled[at % 16].exchange(nullptr, std::memory_order_acquire);
      if (slot == nullptr) {
        --at;
        std::this_thread::yield();
        continue;
      }
      ring.complete_through(*slot);
      ++done;
    }
  });
  for (int i = 0, at = 0; i < kRounds;) {
    Posted* slot = ring.next();
    if (slot == nullptr) {
      std::this_thread::yield();
      continue;
    }
    slot->flags = static_cast<uint32_t>(i);
    const bool signal = ++i % 4 == 0;
    ring.push(signal);
    if (signal) signalled[at++ % 16].store(slot, std::memory_order_release);
  }
  completer.join();
  EXPECT_EQ(ring.outstanding(), 0u);
}

TEST(ReceiveSlots, ReturnInAnyOrder) {
  ReceiveSlots slots;
  ASSERT_TRUE(slots.open(10, some<ReceiveQueue>()).ok());
  std::mt19937 random(1);
  std::deque<Posted*> held;
  for (int i = 0; i < 5000; ++i) {
    if (held.size() < 10 && random() % 2 == 0) {
      Posted* slot = slots.take();
      ASSERT_NE(slot, nullptr);
      EXPECT_EQ(slot->role, Posted::Role::kReceive);
      for (Posted* other : held) ASSERT_NE(slot, other) << "handed out twice";
      held.push_back(slot);
    } else if (!held.empty()) {
      const size_t at = random() % held.size();
      slots.give_back(*held[at]);
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(at));
    }
    ASSERT_EQ(slots.outstanding(), held.size());
    ASSERT_EQ(slots.room(), 10 - held.size());
  }
}

TEST(ReceiveSlots, FullIsFull) {
  ReceiveSlots slots;
  ASSERT_TRUE(slots.open(3, some<ReceiveQueue>()).ok());
  Posted* taken[3];
  for (Posted*& slot : taken) ASSERT_NE(slot = slots.take(), nullptr);
  EXPECT_EQ(slots.take(), nullptr);
  slots.take_back(*taken[2]);
  EXPECT_EQ(slots.take(), taken[2]);
  slots.give_back(*taken[0]);
  EXPECT_EQ(slots.take(), taken[0]);
  EXPECT_EQ(slots.take(), nullptr);
}

TEST(ReceiveSlots, FoundByContextWhilePosted) {
  ReceiveSlots slots;
  ASSERT_TRUE(slots.open(4, some<ReceiveQueue>()).ok());
  int contexts[2];
  Posted* slot = slots.take();
  slot->context = &contexts[0];
  EXPECT_EQ(slots.find(&contexts[0]), slot);
  EXPECT_EQ(slots.find(&contexts[1]), nullptr);
  slots.give_back(*slot);
  EXPECT_EQ(slots.find(&contexts[0]), nullptr);
}

TEST(ReceiveSlots, ClosedHandsOutNothingAndGivesUpWhatIsLeft) {
  ReceiveSlots slots;
  ASSERT_TRUE(slots.open(4, some<ReceiveQueue>()).ok());
  std::set<Posted*> held;
  for (int i = 0; i < 3; ++i) held.insert(slots.take());
  slots.close();
  EXPECT_TRUE(slots.closed());
  EXPECT_EQ(slots.take(), nullptr);
  slots.give_back(**held.begin());
  held.erase(held.begin());
  EXPECT_EQ(slots.take(), nullptr) << "closed for good";
  EXPECT_EQ(slots.outstanding(), 2u);
  while (Posted* left = slots.take_left()) EXPECT_EQ(held.erase(left), 1u);
  EXPECT_TRUE(held.empty());
  EXPECT_EQ(slots.outstanding(), 0u);
}

TEST(ReceiveSlots, MultiReceiveBuffersHaveAPieceEach) {
  ReceiveSlots slots;
  ASSERT_TRUE(slots.open(4, some<ReceiveQueue>()).ok());
  Posted* first = slots.take();
  Posted* second = slots.take();
  MultiReceive* piece = slots.make_multi(*first);
  ASSERT_NE(piece, nullptr);
  ASSERT_NE(slots.make_multi(*second), piece);
  EXPECT_EQ(&slots.multi(*first), piece);
}

TEST(WorkQueues, SizesAreKeptWithinReason) {
  SendRing ring;
  ASSERT_TRUE(ring.open(0, some<SendQueue>()).ok());
  EXPECT_EQ(ring.size(), 2u) << "some operations are two work requests";
  ReceiveSlots slots;
  ASSERT_TRUE(slots.open(10 * kMaxQueueSize, some<ReceiveQueue>()).ok());
  EXPECT_EQ(slots.size(), kMaxQueueSize);
}

}  // namespace
}  // namespace weft::verbs
