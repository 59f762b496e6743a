// SPDX-License-Identifier: BSD-2-Clause
// The nine calls of fi_msg(3) and their messages: contents, boundaries, order, limits.
#include <climits>
#include <functional>

#include "fixture/driver.h"
#include "fixture/node.h"

namespace message {

CONFORMANCE_TOPIC(Message);

namespace {

constexpr size_t kSize = 1000;

// A pair with one buffer on each side and the receive already posted.
struct Ready {
  explicit Ready(const Target& target, size_t size = kSize)
      : fabric(target), pair(fabric), out(fabric, size), in(fabric, size) {
    out.fill_pattern(1);
  }
  void post() { require_ok(pair.b().recv(in, in.size(), &received), "fi_recv"); }
  fid_ep* ep() { return pair.a().ep(); }
  fi_addr_t peer() { return pair.a().peer; }

  Completion expect_received(size_t length, unsigned seed = 1) {
    const Completion completion = pair.b().rx().wait();
    EXPECT_TRUE(completion.ok()) << completion;
    EXPECT_EQ(completion.context(), &received);
    EXPECT_EQ(completion.entry.len, length);
    EXPECT_TRUE(in.holds_pattern(seed, length));
    return completion;
  }
  void expect_sent() {
    const Completion completion = pair.a().tx().wait();
    EXPECT_TRUE(completion.ok()) << completion;
    EXPECT_EQ(completion.context(), &sent);
  }

  Fabric fabric;
  Pair pair;
  Buffer out, in;
  Context sent, received;
};

// `bytes` cut into `count` pieces of unequal length.
std::vector<iovec> pieces(char* bytes, size_t size, size_t count) {
  std::vector<iovec> list;
  size_t at = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t length = i + 1 == count ? size - at : size * (i + 1) / (count * (count + 1));
    list.push_back({bytes + at, length});
    at += length;
  }
  return list;
}

}  // namespace

TEST_P(Message, SendArrivesInThePostedBuffer) {
  Ready scene(target());
  scene.post();
  ASSERT_EQ(scene.pair.a().send(scene.out, kSize, &scene.sent), 0);
  scene.expect_received(kSize);
  scene.expect_sent();
}

TEST_P(Message, SendvGathersAndRecvvScatters) {
  Ready scene(target());
  const fi_info* info = scene.fabric.info();
  for (size_t count = 1; count <= std::min(info->tx_attr->iov_limit, info->rx_attr->iov_limit); ++count) {
    const auto from = pieces(scene.out.data(), kSize, count), to = pieces(scene.in.data(), kSize, count);
    std::memset(scene.in.data(), 0, kSize);
    std::vector<void*> from_desc(count, scene.out.desc()), to_desc(count, scene.in.desc());
    ASSERT_EQ(retry([&] {
                return fi_recvv(scene.pair.b().ep(), to.data(), to_desc.data(), count, FI_ADDR_UNSPEC, &scene.received);
              }),
              0);
    ASSERT_EQ(
        retry([&] { return fi_sendv(scene.ep(), from.data(), from_desc.data(), count, scene.peer(), &scene.sent); }),
        0);
    scene.expect_received(kSize);
    scene.expect_sent();
  }
}

TEST_P(Message, MoreVectorsThanTheLimitAreRefused) {
  Ready scene(target());
  const size_t count = scene.fabric.info()->tx_attr->iov_limit + 1;
  const auto iov = pieces(scene.out.data(), kSize, count);
  std::vector<void*> desc(count, scene.out.desc());
  const ssize_t rc = fi_sendv(scene.ep(), iov.data(), desc.data(), count, scene.peer(), &scene.sent);
  EXPECT_LT(rc, 0);
  EXPECT_NE(rc, -FI_EAGAIN);
  const size_t receive_count = scene.fabric.info()->rx_attr->iov_limit + 1;
  const auto receive_iov = pieces(scene.in.data(), kSize, receive_count);
  std::vector<void*> receive_desc(receive_count, scene.in.desc());
  EXPECT_LT(fi_recvv(scene.pair.b().ep(), receive_iov.data(), receive_desc.data(), receive_count, FI_ADDR_UNSPEC,
                     &scene.received),
            0);
  expect_exchange(scene.pair);
}

TEST_P(Message, SendmsgAndRecvmsgCarryEverything) {
  NEEDS(with_remote_data, "completion data");
  Ready scene(target());
  const iovec from{scene.out.data(), kSize}, to{scene.in.data(), kSize};
  void *from_desc = scene.out.desc(), *to_desc = scene.in.desc();
  fi_msg send{&from, &from_desc, 1, scene.peer(), &scene.sent, 42},
      receive{&to, &to_desc, 1, FI_ADDR_UNSPEC, &scene.received, 0};
  ASSERT_EQ(retry([&] { return fi_recvmsg(scene.pair.b().ep(), &receive, 0); }), 0);
  ASSERT_EQ(retry([&] { return fi_sendmsg(scene.ep(), &send, FI_REMOTE_CQ_DATA); }), 0);
  const Completion completion = scene.expect_received(kSize);
  EXPECT_TRUE(completion.entry.flags & FI_REMOTE_CQ_DATA);
  EXPECT_EQ(completion.entry.data, 42u);
  scene.expect_sent();
}

TEST_P(Message, SenddataCarriesRemoteData) {
  NEEDS(with_remote_data, "completion data");
  Ready scene(target());
  scene.post();
  ASSERT_EQ(retry([&] {
              return fi_senddata(scene.ep(), scene.out.data(), kSize, scene.out.desc(), ULLONG_MAX, scene.peer(),
                                 &scene.sent);
            }),
            0);
  const Completion completion = scene.expect_received(kSize);
  EXPECT_TRUE(completion.entry.flags & FI_REMOTE_CQ_DATA);
  EXPECT_EQ(completion.entry.data, scene.fabric.carried(ULLONG_MAX));
  scene.expect_sent();
}

TEST_P(Message, InjectedBufferMayBeReusedAtOnceAndGivesNoCompletion) {
  Ready scene(target());
  const size_t limit = std::min(scene.fabric.info()->tx_attr->inject_size, kSize);
  ASSERT_GT(limit, 0u);
  scene.post();
  ASSERT_EQ(retry([&] { return fi_inject(scene.ep(), scene.out.data(), limit, scene.peer()); }), 0);
  scene.out.fill_pattern(2);
  scene.expect_received(limit);
  EXPECT_TRUE(scene.pair.a().tx().stays_silent(milliseconds(20)));
}

TEST_P(Message, InjectdataCarriesRemoteData) {
  NEEDS(with_remote_data, "completion data");
  Ready scene(target());
  scene.post();
  ASSERT_EQ(retry([&] { return fi_injectdata(scene.ep(), scene.out.data(), 8, 7, scene.peer()); }), 0);
  scene.out.fill_pattern(2);
  const Completion completion = scene.expect_received(8);
  EXPECT_EQ(completion.entry.data, 7u);
  EXPECT_TRUE(scene.pair.a().tx().stays_silent(milliseconds(20)));
}

TEST_P(Message, InjectBeyondTheLimitIsRefused) {
  const size_t limit = Fabric(target()).info()->tx_attr->inject_size;
  Ready scene(target(), limit + 1);
  const ssize_t rc = fi_inject(scene.ep(), scene.out.data(), limit + 1, scene.peer());
  EXPECT_LT(rc, 0);
  EXPECT_NE(rc, -FI_EAGAIN);
  expect_exchange(scene.pair);
}

TEST_P(Message, ZeroLengthMessagesAreMessages) {
  Ready scene(target());
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(retry([&] { return fi_recv(scene.pair.b().ep(), nullptr, 0, nullptr, FI_ADDR_UNSPEC, &scene.received); }),
              0);
    ASSERT_EQ(retry([&] { return fi_send(scene.ep(), nullptr, 0, nullptr, scene.peer(), &scene.sent); }), 0);
    scene.expect_received(0);
    scene.expect_sent();
  }
  if (!Fabric::offers(target(), with_remote_data)) return;
  scene.post();
  ASSERT_EQ(retry([&] { return fi_injectdata(scene.ep(), nullptr, 0, 9, scene.peer()); }), 0);
  EXPECT_EQ(scene.expect_received(0).entry.data, 9u);
}

// Some programs post such receives for messages without a payload.
TEST_P(Message, ReceiveOfALengthWithoutABufferTakesEmptyMessages) {
  Ready scene(target());
  fid_ep* const ep = scene.pair.b().ep();
  const iovec none{nullptr, 64}, two[] = {{nullptr, 64}, {nullptr, 1}};
  const fi_msg one{&none, nullptr, 1, FI_ADDR_UNSPEC, &scene.received, 0};
  const std::function<ssize_t()> calls[] = {
      [&] { return fi_recv(ep, nullptr, 64, nullptr, FI_ADDR_UNSPEC, &scene.received); },
      [&] { return fi_recvv(ep, &none, nullptr, 1, FI_ADDR_UNSPEC, &scene.received); },
      [&] { return fi_recvmsg(ep, &one, 0); },
      [&] {
        return fi_recvv(ep, two, nullptr, std::min<size_t>(2, scene.fabric.info()->rx_attr->iov_limit), FI_ADDR_UNSPEC,
                        &scene.received);
      }};
  for (const auto& call : calls) {
    ASSERT_EQ(retry(call), 0);
    ASSERT_EQ(retry([&] { return fi_send(scene.ep(), nullptr, 0, nullptr, scene.peer(), &scene.sent); }), 0);
    scene.expect_received(0);
    scene.expect_sent();
  }
}

TEST_P(Message, MessageForAReceiveWithoutABufferIsTruncated) {
  for (const size_t wanted : {size_t{8}, kSize, size_t{300'000}}) {
    if (wanted > kSize && !speaks_tcp() && target().ep_type == FI_EP_MSG) break;  // more than a device truncates
    Ready scene(target(), wanted);
    const size_t length = scene.fabric.length_up_to(wanted);
    ASSERT_EQ(
        retry([&] { return fi_recv(scene.pair.b().ep(), nullptr, wanted, nullptr, FI_ADDR_UNSPEC, &scene.received); }),
        0);
    ASSERT_EQ(scene.pair.a().send(scene.out, length, &scene.sent), 0);
    const Completion completion = scene.pair.b().rx().wait();
    EXPECT_EQ(completion.err(), FI_ETRUNC) << completion;
    EXPECT_EQ(completion.context(), &scene.received);
    EXPECT_EQ(completion.error.len, 0u);
    EXPECT_EQ(completion.error.olen, length);
    scene.expect_sent();
    expect_exchange(scene.pair);
  }
}

TEST_P(Message, BuffersWithoutAnAddressAreOmittedFromAVector) {
  Ready scene(target());
  if (scene.fabric.info()->rx_attr->iov_limit < 3) GTEST_SKIP() << "needs three buffers";
  const iovec to[] = {{nullptr, 50}, {scene.in.data(), kSize}, {nullptr, 1}};
  void* desc[] = {nullptr, scene.in.desc(), nullptr};
  ASSERT_EQ(retry([&] { return fi_recvv(scene.pair.b().ep(), to, desc, 3, FI_ADDR_UNSPEC, &scene.received); }), 0);
  ASSERT_EQ(scene.pair.a().send(scene.out, kSize, &scene.sent), 0);
  scene.expect_received(kSize);
  scene.expect_sent();
}

TEST_P(Message, EmptyPiecesDoNotMatter) {
  for (const size_t length : {64ul, 20'000ul, 300'000ul}) {
    Ready ready(target(), length);
    const fi_info* info = ready.fabric.info();
    if (std::min(info->tx_attr->iov_limit, info->rx_attr->iov_limit) < 2) GTEST_SKIP() << "one piece at most";
    if (length > info->ep_attr->max_msg_size) break;
    for (const size_t sent_at : {0, 1}) {
      for (const size_t received_at : {0, 1}) {
        SCOPED_TRACE(std::to_string(length) + (sent_at ? " sent ahead" : " sent behind") +
                     (received_at ? " received ahead" : " received behind"));
        iovec from[2], to[2];
        from[sent_at] = {ready.out.data() + 1, 0};
        from[1 - sent_at] = {ready.out.data(), length};
        to[received_at] = {ready.in.data() + 1, 0};
        to[1 - received_at] = {ready.in.data(), length};
        void* from_desc[] = {ready.out.desc(), ready.out.desc()};
        void* to_desc[] = {ready.in.desc(), ready.in.desc()};
        std::memset(ready.in.data(), 0, length);
        ASSERT_EQ(fi_recvv(ready.pair.b().ep(), to, to_desc, 2, FI_ADDR_UNSPEC, &ready.received), 0);
        ASSERT_EQ(retry([&] { return fi_sendv(ready.ep(), from, from_desc, 2, ready.peer(), &ready.sent); }), 0);
        ready.expect_received(length);
        ready.expect_sent();
      }
    }
  }
}

TEST_P(Message, SendOfALengthWithoutABufferIsRefused) {
  Ready scene(target());
  const iovec none{nullptr, 8};
  const fi_msg message{&none, nullptr, 1, scene.peer(), &scene.sent, 0};
  EXPECT_EQ(fi_send(scene.ep(), nullptr, 8, nullptr, scene.peer(), &scene.sent), -FI_EINVAL);
  EXPECT_EQ(fi_sendv(scene.ep(), &none, nullptr, 1, scene.peer(), &scene.sent), -FI_EINVAL);
  EXPECT_EQ(fi_sendmsg(scene.ep(), &message, 0), -FI_EINVAL);
  EXPECT_EQ(fi_inject(scene.ep(), nullptr, 8, scene.peer()), -FI_EINVAL);
  expect_exchange(scene.pair);
}

TEST_P(Message, BoundariesAreKeptAtEverySize) {
  Fabric fabric(target());
  Pair pair(fabric);
  const size_t largest = std::min<size_t>(fabric.info()->ep_attr->max_msg_size, 1 << 20);
  for (size_t base = 1; base <= largest; base *= 4) {
    for (size_t length : {base - 1, base, base + 1}) {
      if (length > 0 && length <= largest) expect_round_trip(pair.a(), pair.b(), length);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(Message, MessagesArriveInTheOrderSent) {
  Fabric fabric(target());
  Pair pair(fabric);
  constexpr size_t kCount = 64;
  Buffer in(fabric, kCount * 64), out(fabric, kCount * 64);
  std::vector<Context> received(kCount), sent(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    std::memset(out.data() + i * 64, static_cast<int>(i), 64);
    ASSERT_EQ(
        retry([&] { return fi_recv(pair.b().ep(), in.data() + i * 64, 64, in.desc(), FI_ADDR_UNSPEC, &received[i]); }),
        0);
  }
  for (size_t i = 0; i < kCount; ++i) {
    const size_t length = i % 64 + 1;
    ASSERT_EQ(
        retry([&] { return fi_send(pair.a().ep(), out.data() + i * 64, length, out.desc(), pair.a().peer, &sent[i]); }),
        0);
  }
  for (size_t i = 0; i < kCount; ++i) {
    const Completion arrival = pair.b().rx().wait();
    ASSERT_EQ(arrival.context(), &received[i]) << arrival;
    EXPECT_EQ(arrival.entry.len, i % 64 + 1);
    EXPECT_EQ(in.data()[i * 64 + arrival.entry.len - 1], static_cast<char>(i));
    ASSERT_EQ(pair.a().tx().wait().context(), &sent[i]);
  }
}

TEST_P(Message, MessageSentBeforeTheReceiveIsPostedWaits) {
  if (target().ep_type == FI_EP_DGRAM) GTEST_SKIP() << "datagrams without a buffer are lost";
  Ready scene(target());
  ASSERT_EQ(scene.pair.a().send(scene.out, kSize, &scene.sent), 0);
  const auto deadline = after(milliseconds(50));
  while (Clock::now() < deadline) driver::poke_and_rest();
  scene.post();
  scene.expect_received(kSize);
  scene.expect_sent();
}

TEST_P(Message, ManySentBeforeReceivesArePostedAllArrive) {
  if (target().ep_type == FI_EP_DGRAM) GTEST_SKIP() << "datagrams without a buffer are lost";
  Fabric fabric(target());
  Pair pair(fabric);
  constexpr size_t kCount = 100;
  Buffer in(fabric, 256), out(fabric, 256);
  Context received;
  for (size_t i = 0; i < kCount; ++i) {
    const char text = static_cast<char>(i);
    ASSERT_EQ(retry([&] { return fi_inject(pair.a().ep(), &text, 1, pair.a().peer); }), 0) << i;
  }
  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(pair.b().recv(in, 256, &received), 0);
    const Completion completion = pair.b().rx().wait();
    ASSERT_TRUE(completion.ok()) << i << ": " << completion;
    EXPECT_EQ(in.data()[0], static_cast<char>(i));
  }
}

TEST_P(Message, TooLongMessageIsReportedAsTruncated) {
  Ready scene(target());
  ASSERT_EQ(scene.pair.b().recv(scene.in, 100, &scene.received), 0);
  std::memset(scene.in.data(), '#', kSize);
  ASSERT_EQ(scene.pair.a().send(scene.out, kSize, &scene.sent), 0);
  const Completion completion = scene.pair.b().rx().wait();
  EXPECT_EQ(completion.err(), FI_ETRUNC) << completion;
  EXPECT_EQ(completion.context(), &scene.received);
  EXPECT_EQ(completion.error.len, 100u) << "the placed part";
  EXPECT_EQ(completion.error.olen, kSize - 100) << "the rest";
  char text[128];
  EXPECT_STRNE(fi_cq_strerror(scene.pair.b().rx().get(), completion.error.prov_errno, completion.error.err_data, text,
                              sizeof text),
               fi_strerror(0));
  EXPECT_EQ(scene.in.data()[100], '#') << "wrote beyond the buffer";
  scene.expect_sent();
  expect_exchange(scene.pair);
}

TEST_P(Message, ExhaustedTransmitQueueAnswersAgainAndRecovers) {
  if (target().ep_type == FI_EP_DGRAM) GTEST_SKIP() << "datagrams may be dropped";
  Fabric fabric(target());
  Pair pair(fabric);
  constexpr size_t kChunk = 64 * 1024;
  constexpr size_t kMost = 10'000;
  Buffer out(fabric, kChunk), in(fabric, kChunk);
  std::vector<Context> sent(kMost);
  size_t posted = 0;
  ssize_t rc = 0;
  while (posted < kMost) {  // no receive is posted: the queue has to fill up
    rc = fi_send(pair.a().ep(), out.data(), kChunk, out.desc(), pair.a().peer, &sent[posted]);
    if (rc != 0) break;
    ++posted;
  }
  EXPECT_EQ(rc, -FI_EAGAIN) << "after " << posted << " sends";
  EXPECT_GE(posted, 1u);
  size_t completed = 0, arrived = 0, provided = 0;
  Context received;
  const auto deadline = after(10 * kPatience);
  while ((completed < posted || arrived < posted) && Clock::now() < deadline) {
    // Few at a time, but enough that some messages find a receive and need not be sent again.
    while (provided < posted && provided - arrived < 8) {
      ASSERT_EQ(pair.b().recv(in, kChunk, &received), 0);
      ++provided;
    }
    const Completion arrival = pair.b().rx().read();
    if (arrival.ok()) ++arrived;
    const Completion completion = pair.a().tx().read();
    if (completion.ok()) {
      ASSERT_EQ(completion.context(), &sent[completed]);
      ++completed;
    }
  }
  EXPECT_EQ(arrived, posted);
  EXPECT_EQ(completed, posted);
  expect_exchange(pair);
}

// ::ffff:127.0.0.1 is 127.0.0.1 for sockets of IPv6; ipv6(7). No interface has such an address.
TEST_P(Message, AddressesMayBeIpv4Mapped) {
  if (!target().provider.starts_with("tcp") && target().provider != "udp") GTEST_SKIP() << "sockets only";
  if (target().address.find(':') != std::string::npos) GTEST_SKIP() << "IPv4 only";
  Target mapped = target();
  mapped.address = "::ffff:" + target().address;
  mapped.addr_format = FI_SOCKADDR_IN6;
  Fabric fabric(mapped);
  Pair pair(fabric);
  expect_exchange(pair);
  // The source for such a destination.
  const InfoPtr hints = hints_for(mapped, [](fi_info& hints) { hints.addr_format = FI_FORMAT_UNSPEC; });
  fi_info* list = nullptr;
  ASSERT_EQ(
      fi_getinfo(static_cast<int>(api_version()), mapped.address.c_str(), "4711", FI_NUMERICHOST, hints.get(), &list),
      0);
  const InfoPtr found(list);
  ASSERT_EQ(found->src_addrlen, sizeof(sockaddr_in6));
  EXPECT_TRUE(IN6_IS_ADDR_V4MAPPED(&static_cast<const sockaddr_in6*>(found->src_addr)->sin6_addr));
}

}  // namespace message
