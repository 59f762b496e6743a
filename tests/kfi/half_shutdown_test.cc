// SPDX-License-Identifier: BSD-2-Clause
// kfi_shutdown with one half, kfi_cm(3): over weft's tcp with all of it; over verbs and over the distribution's library
// (KFI_HALVES=write) with KFI_WRITE, and without a sign for the peer.
#include "half_shutdown.h"

namespace {

TEST_F(HalfShutdown, TransmissionsEndAndReceivesGoOn) {
  *room(0) = 7;
  ASSERT_EQ(receive(1, 1), 0);
  ASSERT_EQ(send(0, 1, room(0)), 0);
  ASSERT_EQ(kfi_shutdown(pair.ep(0), KFI_WRITE), 0);
  EXPECT_EQ(kfi_shutdown(pair.ep(0), KFI_WRITE), 0) << "a second time";
  EXPECT_EQ(send(0, 1), -KFI_ESHUTDOWN);
  EXPECT_EQ(kfi_inject(pair.ep(0), room(0), 1, 0), -KFI_ESHUTDOWN);
  EXPECT_EQ(kfi_tsend(pair.ep(0), room(0), 1, nullptr, 0, 1, nullptr), -KFI_ESHUTDOWN);
  EXPECT_EQ(kfi_read(pair.ep(0), room(0), 1, nullptr, 0, 0, 1, nullptr), -KFI_ESHUTDOWN);
  const kvec piece{room(0), 1};
  EXPECT_EQ(kfi_writev(pair.ep(0), &piece, nullptr, 1, 0, 0, 1, nullptr), -KFI_ESHUTDOWN);
  // Operations posted before complete, and the peer still sends.
  EXPECT_EQ(next(pair.cq(0)).op_context, room(0));
  next(pair.cq(1));
  EXPECT_EQ(*room(1), 7);
  ASSERT_EQ(receive(0, 1), 0);
  *room(1) = 8;
  ASSERT_EQ(send(1, 1), 0);
  next(pair.cq(0));
  EXPECT_EQ(*room(0), 8);
  next(pair.cq(1));
  // A target of remote access, too.
  ASSERT_EQ(kfi_write(pair.ep(1), room(1), 1, kfi_mr_desc(region), 0,
                      region->iova + static_cast<uint64_t>(room(0, 9) - memory.data()), kfi_mr_key(region), nullptr),
            0);
  next(pair.cq(1));
  EXPECT_TRUE(becomes([&] { return progress(), *room(0, 9) == 8; }));
}

// The peer learns of it once: behind the last message, or from the full shutdown.
TEST_F(HalfShutdown, PeerLearnsOfItOnce) {
  constexpr int kMessages = 100;
  std::vector<char> marks(kMessages);
  for (int i = 0; i < kMessages; i++) ASSERT_EQ(receive(1, 1, &marks[i], i), 0);
  for (int i = 0; i < kMessages; i++) ASSERT_EQ(send(0, 1), 0);
  ASSERT_EQ(kfi_shutdown(pair.ep(0), KFI_WRITE), 0);
  if (has_all()) {
    expect_shutdown(1);
    for (char& mark : marks) {
      kfi_cq_tagged_entry entry{};
      ASSERT_EQ(kfi_cq_read(pair.cq(1), &entry, 1), 1) << "the event came before a message";
      EXPECT_EQ(entry.op_context, &mark);
    }
  } else {
    for (int i = 0; i < kMessages; i++) next(pair.cq(1));
  }
  for (int i = 0; i < kMessages; i++) next(pair.cq(0));
  expect_no_event(1);
  expect_no_event(0);
  ASSERT_EQ(kfi_shutdown(pair.ep(0), 0), 0);
  if (!has_all()) expect_shutdown(1);
  expect_no_event(1);
}

// Requests until the client half closes; then answers until the server closes. Requests have no number and no end.
TEST_F(HalfShutdown, AllRequestsThenAllAnswersToTheEnd) {
  if (!has_all()) GTEST_SKIP() << "the end of the requests is a sign that only weft's tcp has";
  constexpr int kRequests = 3000, kPosted = 16;
  const auto post = [&](int end) {
    for (size_t i = 0; i < kPosted; i++) ASSERT_EQ(receive(end, 4, room(end, i * 4), i * 4), 0);
  };
  // The number in the next message, whose buffer is posted again; -1: none is there.
  const auto take = [&](int end, int timeout) {
    kfi_cq_tagged_entry entry{};
    int number = -1;
    if (kfi_cq_sread(pair.cq(end), &entry, 1, nullptr, timeout) != 1 || !(entry.flags & KFI_RECV)) return number;
    memcpy(&number, entry.op_context, sizeof number);
    // -KFI_ENOTCONN: the peer has closed, and other messages are still unread.
    kfi_recv(pair.ep(end), entry.op_context, 4, kfi_mr_desc(region), 0, entry.op_context);
    return number;
  };
  // Until KFI_SHUTDOWN, and all messages before it.
  const auto take_all = [&](int end, const auto& on_number) {
    for (bool ends = false;;) {
      const int number = take(end, ends ? 0 : 1);
      if (number >= 0) {
        on_number(number);
      } else if (ends) {
        return;
      } else {
        uint32_t event = 99;
        char cm[64];
        ends = kfi_eq_read(pair.eq(end), &event, cm, sizeof cm, 0) > 0;
        EXPECT_TRUE(!ends || event == KFI_SHUTDOWN);
      }
    }
  };
  int requests = 0, answers = 0;
  for (int i : {0, 1}) post(i);
  std::thread server([&] {
    take_all(1, [&](int number) {
      EXPECT_EQ(number, requests++);
      while (kfi_inject(pair.ep(1), &number, sizeof number, 0) == -KFI_EAGAIN) kfi_cq_read(pair.cq(1), nullptr, 0);
    });
    ASSERT_EQ(kfi_shutdown(pair.ep(1), KFI_WRITE), 0);
  });
  const auto on_answer = [&](int number) { EXPECT_EQ(number, answers++); };
  for (int i = 0; i < kRequests; i++) {
    while (kfi_inject(pair.ep(0), &i, sizeof i, 0) == -KFI_EAGAIN) {
      if (const int number = take(0, 0); number >= 0) on_answer(number);
    }
  }
  ASSERT_EQ(kfi_shutdown(pair.ep(0), KFI_WRITE), 0);
  take_all(0, on_answer);
  server.join();
  EXPECT_EQ(requests, kRequests);
  EXPECT_EQ(answers, kRequests);
}

TEST_F(HalfShutdown, ReceivesEndAndTransmissionsGoOn) {
  char contexts[3];
  for (char& context : contexts) ASSERT_EQ(receive(0, 1, &context), 0);
  if (!has_all()) {
    EXPECT_EQ(kfi_shutdown(pair.ep(0), KFI_READ), -KFI_EOPNOTSUPP);
    EXPECT_EQ(receive(0, 1), 0) << "nothing has changed";
    return;
  }
  ASSERT_EQ(kfi_shutdown(pair.ep(0), KFI_READ), 0);
  for (char& context : contexts) {
    kfi_cq_err_entry error{};
    ASSERT_EQ(kfi_cq_readerr(pair.cq(0), &error, 0), 1) << "not before the call returned";
    EXPECT_EQ(error.err, KFI_ECANCELED);
    EXPECT_EQ(error.op_context, &context);
  }
  EXPECT_EQ(kfi_shutdown(pair.ep(0), KFI_READ), 0) << "a second time";
  EXPECT_EQ(receive(0, 1), -KFI_ESHUTDOWN);
  const kvec piece{room(0), 1};
  EXPECT_EQ(kfi_recvv(pair.ep(0), &piece, nullptr, 1, 0, nullptr), -KFI_ESHUTDOWN);
  // Messages are dropped; their sender is not held up, also by the deepest level of completion.
  kfi_msg message{};
  const kvec long_piece{room(1), 40000};
  message.type = KFI_KVEC;
  message.msg_iov = &long_piece;
  message.iov_count = 1;
  for (int i = 0; i < 20; i++) {
    message.context = &contexts[i % 3];
    ASSERT_EQ(kfi_sendmsg(pair.ep(1), &message, KFI_DELIVERY_COMPLETE | KFI_COMPLETION), 0);
    EXPECT_EQ(next(pair.cq(1)).op_context, message.context);
  }
  kfi_cq_tagged_entry entry;
  EXPECT_EQ(kfi_cq_read(pair.cq(0), &entry, 1), -KFI_EAGAIN);
  // Remote access and the own messages go on; the peer has no event.
  room(1)[1] = 5;
  const uint64_t at = region->iova + static_cast<uint64_t>(room(0, 9) - memory.data());
  ASSERT_EQ(kfi_write(pair.ep(1), room(1, 1), 1, nullptr, 0, at, kfi_mr_key(region), nullptr), 0);
  next(pair.cq(1));
  EXPECT_TRUE(becomes([&] { return *room(0, 9) == 5; }));
  ASSERT_EQ(receive(1, 1), 0);
  ASSERT_EQ(send(0, 1), 0);
  next(pair.cq(0));
  next(pair.cq(1));
  expect_no_event(1);
}

TEST_F(HalfShutdown, BothHalvesAreAFullShutdown) {
  ASSERT_EQ(kfi_shutdown(pair.ep(0), KFI_WRITE), 0);
  EXPECT_EQ(kfi_shutdown(pair.ep(0), KFI_READ), 0);
  expect_shutdown(1);
  EXPECT_EQ(kfi_shutdown(pair.ep(0), KFI_READ), -KFI_ENOTCONN);
  expect_no_event(1);
}

TEST_F(HalfShutdown, BothHalvesInTheOtherOrder) {
  if (!has_all()) GTEST_SKIP() << "KFI_READ is not supported";
  ASSERT_EQ(kfi_shutdown(pair.ep(0), KFI_READ), 0);
  EXPECT_EQ(kfi_shutdown(pair.ep(0), KFI_WRITE), 0);
  expect_shutdown(1);
  EXPECT_EQ(kfi_shutdown(pair.ep(0), KFI_WRITE), -KFI_ENOTCONN);
}

TEST_F(HalfShutdown, BothFlagsAreAFullShutdown) {
  EXPECT_EQ(kfi_shutdown(pair.ep(0), KFI_READ | KFI_WRITE), 0);
  expect_shutdown(1);
  EXPECT_EQ(kfi_shutdown(pair.ep(0), KFI_WRITE), -KFI_ENOTCONN);
}

TEST_F(HalfShutdown, AliasesShareTheConnection) {
  kfid_ep* alias = nullptr;
  const int made = kfi_ep_alias(pair.ep(0), &alias, KFI_SEND);
  if (made != 0) GTEST_SKIP() << "the provider has no aliases";
  ASSERT_EQ(kfi_shutdown(alias, KFI_WRITE), 0);
  EXPECT_EQ(send(0, 1), -KFI_ESHUTDOWN);
  EXPECT_EQ(kfi_send(alias, room(0), 1, kfi_mr_desc(region), 0, nullptr), -KFI_ESHUTDOWN);
  if (has_all()) expect_shutdown(1);
  EXPECT_EQ(kfi_shutdown(pair.ep(0), KFI_WRITE), 0);
  EXPECT_EQ(kfi_close(&alias->fid), 0);
}

// Each end closes its own half: no half closes the connection.
TEST_F(HalfShutdown, HalvesOfBothEndsLeaveTheConnection) {
  for (int i : {0, 1}) ASSERT_EQ(kfi_shutdown(pair.ep(i), KFI_WRITE), 0);
  if (has_all()) {
    for (int i : {0, 1}) expect_shutdown(i);
  }
  for (int i : {0, 1}) {
    sockaddr_storage name;
    size_t size = sizeof name;
    EXPECT_EQ(kfi_getpeer(pair.ep(i), &name, &size), 0);
    expect_no_event(i);
  }
}

TEST_F(HalfShutdown, OtherFlagsAreBad) {
  EXPECT_EQ(kfi_shutdown(pair.ep(0), KFI_SEND), -KFI_EBADFLAGS);
  EXPECT_EQ(kfi_shutdown(pair.ep(0), KFI_READ | KFI_PEEK), -KFI_EBADFLAGS);
  *room(0) = 3;
  ASSERT_EQ(receive(1, 1), 0);
  ASSERT_EQ(send(0, 1), 0);
  next(pair.cq(1));
  EXPECT_EQ(*room(1), 3) << "nothing was shut down";
}

TEST_F(HalfShutdown, ConnectionThatThePeerClosedHasNoHalves) {
  ASSERT_EQ(kfi_shutdown(pair.ep(1), 0), 0);
  expect_shutdown(0);
  for (uint64_t half : {KFI_WRITE, KFI_READ}) EXPECT_EQ(kfi_shutdown(pair.ep(0), half), -KFI_ENOTCONN);
}

TEST_F(HalfShutdown, UnconnectedEndpointHasNoHalves) {
  kfid_ep* ep = nullptr;
  ASSERT_EQ(kfi_endpoint(pair.both.domain, pair.both.info, &ep, nullptr), 0);
  for (uint64_t half : {KFI_WRITE, KFI_READ}) EXPECT_EQ(kfi_shutdown(ep, half), -KFI_ENOTCONN);
  EXPECT_EQ(kfi_close(&ep->fid), 0);
}

}  // namespace
