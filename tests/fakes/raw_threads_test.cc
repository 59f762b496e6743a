// SPDX-License-Identifier: BSD-2-Clause
// The fakes under many threads, for ThreadSanitizer and for lost messages.
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "raw_end.h"

using namespace raw;

class RawThreads : public Fakes {};

TEST_F(RawThreads, SendersAndReceiversOfOnePair) {
  constexpr uint64_t kMessages = 500;
  Lab lab;
  Pair pair(lab);
  std::atomic<uint64_t> received{0};
  for (int i = 0; i < 8; ++i) ASSERT_EQ(pair.server->receive(1, 64, 8), 0);
  std::thread receiver([&] {
    for (uint64_t count = 0; count < kMessages;) {
      ibv_wc wc;
      if (ibv_poll_cq(pair.server->cq(), 1, &wc) != 1) {
        std::this_thread::yield();
        continue;
      }
      ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
      ++count;
      ++received;
      ASSERT_EQ(pair.server->receive(1, 64, 8), 0);
    }
  });
  for (uint64_t sent = 0; sent < kMessages; ++sent) {
    int result;
    while ((result = pair.client.send(sent, 0, 8)) == ENOMEM) {
      ibv_wc wc[8];
      if (!ibv_poll_cq(pair.client.cq(), 8, wc)) std::this_thread::yield();
    }
    ASSERT_EQ(result, 0);
  }
  receiver.join();
  EXPECT_EQ(received, kMessages);
}

TEST_F(RawThreads, ConnectionsOpenAndCloseConcurrently) {
  constexpr int kThreads = 4, kRounds = 25;
  const auto work = [] {
    for (int i = 0; i < kRounds; ++i) {
      Lab lab;
      Pair pair(lab);
      ASSERT_EQ(pair.server->receive(1, 0, 8), 0);
      ASSERT_EQ(pair.client.send(1, 0, 8), 0);
      ASSERT_EQ(pair.client.completion().status, IBV_WC_SUCCESS);
      ASSERT_EQ(rdma_disconnect(pair.client.id()), 0);
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
}

TEST_F(RawThreads, BlockedReadersAreWoken) {
  rdma_event_channel* channel = rdma_create_event_channel();
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP), 0);
  std::thread waker([&] { fake::inject_cm_event(id, RDMA_CM_EVENT_ADDR_CHANGE); });
  rdma_cm_event* event = nullptr;
  ASSERT_EQ(rdma_get_cm_event(channel, &event), 0);
  EXPECT_EQ(event->event, RDMA_CM_EVENT_ADDR_CHANGE);
  EXPECT_EQ(rdma_ack_cm_event(event), 0);
  waker.join();
  EXPECT_EQ(rdma_destroy_id(id), 0);
  rdma_destroy_event_channel(channel);
}

TEST_F(RawThreads, DestroyingWaitsForAcknowledgements) {
  Lab lab;
  auto end = std::make_unique<End>(lab.route());
  ibv_context* device = end->id()->verbs;
  ibv_async_event events[2];
  fake::raise(end->qp(), IBV_EVENT_QP_FATAL);
  fake::raise(end->cq(), IBV_EVENT_CQ_ERR);
  for (ibv_async_event& event : events) ASSERT_EQ(ibv_get_async_event(device, &event), 0);
  std::atomic<int> acknowledged{0};
  std::thread reader([&] {
    for (ibv_async_event& event : events) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ++acknowledged;
      ibv_ack_async_event(&event);
    }
  });
  end.reset();
  EXPECT_EQ(acknowledged, 2);
  reader.join();
}
