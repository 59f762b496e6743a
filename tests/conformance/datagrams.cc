// SPDX-License-Identifier: BSD-2-Clause
// Promises of FI_EP_DGRAM: bounded messages, sources, bursts, truncation, missing peers; fi_endpoint(3), fi_msg(3),
// fi_cq(3), fi_av(3).
#include <rdma/fi_ext.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>

#include "fixture/member.h"

namespace datagrams {

CONFORMANCE_TOPIC(Datagrams);

namespace {

#define DATAGRAMS_ONLY() \
  if (target().ep_type != FI_EP_DGRAM) GTEST_SKIP() << "FI_EP_DGRAM only"

// An address without a receiver: that of a closed endpoint.
Address deserted(const Fabric& fabric) {
  return DatagramEnd(fabric).address();
}

void post_all(Node& node, Buffer& in, size_t size, size_t count, Context* context) {
  for (size_t i = 0; i < count; ++i)
    require_ok(fi_recv(node.ep(), in.data() + i * size, size, in.desc(), FI_ADDR_UNSPEC, context), "fi_recv");
}

}  // namespace

TEST_P(Datagrams, EndpointWithoutAddressVectorIsNotEnabled) {
  DATAGRAMS_ONLY();
  Fabric fabric(target());
  Node node(fabric);
  EXPECT_EQ(fi_enable(node.ep()), -FI_ENOAV);
}

TEST_P(Datagrams, NameIsTheInfosAddressWithAPort) {
  DATAGRAMS_ONLY();
  Fabric fabric(target());
  DatagramEnd end(fabric);
  const Address name = end.address();
  EXPECT_NE(name.port(), 0);
  EXPECT_EQ(name, Address::numeric(target().address, name.port()));
}

TEST_P(Datagrams, NameMayBeSetBeforeTheEndpointIsEnabled) {
  DATAGRAMS_ONLY();
  Fabric fabric(target());
  Address wanted = deserted(fabric);
  NodeOptions options;
  options.configure = [&](fid_ep* ep) {
    EXPECT_EQ(fi_setname(&ep->fid, wanted.get(), wanted.size), 0);
    EXPECT_EQ(Address::local_name(&ep->fid), wanted);
  };
  DatagramEnd end(fabric, options);
  EXPECT_EQ(end.address(), wanted);
  EXPECT_LT(fi_setname(end->fid(), wanted.get(), wanted.size), 0) << "enabled";
  DatagramEnd other(fabric);
  other->peer = other.insert(wanted);
  expect_round_trip(*other, *end);
}

TEST_P(Datagrams, LongestMessageArrivesAndALongerOneIsRefused) {
  DATAGRAMS_ONLY();
  Fabric fabric(target());
  Pair pair(fabric);
  const size_t longest = fabric.info()->ep_attr->max_msg_size;
  expect_round_trip(pair.a(), pair.b(), longest);
  Buffer out(fabric, longest + 1);
  Context sent;
  EXPECT_EQ(fi_send(pair.a().ep(), out.data(), longest + 1, out.desc(), pair.a().peer, &sent), -FI_EMSGSIZE);
  EXPECT_TRUE(pair.a().tx().stays_silent(milliseconds(20)));
}

TEST_P(Datagrams, LongMessageForAShortReceiveIsTruncated) {
  DATAGRAMS_ONLY();
  Fabric fabric(target());
  Pair pair(fabric);
  Buffer in(fabric, 100, 'z'), out(fabric, 100, 'x');
  Context received, sent;
  ASSERT_EQ(pair.b().recv(in, 60, &received), 0);
  ASSERT_EQ(pair.a().send(out, 100, &sent), 0);
  const Completion completion = pair.b().rx().wait();
  EXPECT_EQ(completion.err(), FI_ETRUNC) << completion;
  EXPECT_EQ(completion.context(), &received);
  EXPECT_EQ(completion.error.olen, 40u);
  EXPECT_EQ(in.text(100), std::string(60, 'x') + std::string(40, 'z'));
  EXPECT_TRUE(pair.a().tx().wait().ok());
  expect_exchange(pair);
}

TEST_P(Datagrams, SourceIsTheHandleOrUnknown) {
  DATAGRAMS_ONLY();
  Fabric fabric(target());
  for (const fi_av_type type : {FI_AV_TABLE, FI_AV_MAP}) {
    DatagramEnd receiver(fabric, {}, type), friend_(fabric), stranger(fabric);
    const fi_addr_t known = receiver.insert(friend_.address());
    for (DatagramEnd* speaker : {&friend_, &stranger}) {
      (*speaker)->peer = speaker->insert(receiver.address());
      Buffer in(fabric, 16), out(fabric, 16);
      Context received, sent;
      ASSERT_EQ(receiver->recv(in, 16, &received), 0);
      ASSERT_EQ((*speaker)->send(out, 16, &sent), 0);
      fi_cq_tagged_entry entry{};
      fi_addr_t source = 0;
      ASSERT_EQ(retry([&] { return fi_cq_readfrom(receiver->rx().get(), &entry, 1, &source); }), 1);
      EXPECT_EQ(source, speaker == &friend_ ? known : FI_ADDR_NOTAVAIL);
      EXPECT_TRUE((*speaker)->tx().wait().ok());
    }
  }
}

TEST_P(Datagrams, ServiceNamesAreAddressesToo) {
  DATAGRAMS_ONLY();
  Fabric fabric(target());
  DatagramEnd receiver(fabric), speaker(fabric);
  const std::string port = std::to_string(receiver.address().port());
  ASSERT_EQ(fi_av_insertsvc(speaker.av(), target().address.c_str(), port.c_str(), &speaker->peer, 0, nullptr), 1);
  expect_round_trip(*speaker, *receiver);
}

// Up to 180 bytes with a lookup and 136 with its answer.
TEST_P(Datagrams, LookupsAndAnswersCarryPrivateData) {
  DATAGRAMS_ONLY();
  if (target().provider != "verbs") GTEST_SKIP() << "addresses are not looked up";
  Fabric fabric(target());
  DatagramEnd caller(fabric), called(fabric);
  std::string data(FI_WEFT_LOOKUP_DATA_SIZE, '\0'), answer(FI_WEFT_LOOKUP_ANSWER_SIZE, '\0');
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i + 1);
  for (size_t i = 0; i < answer.size(); ++i) answer[i] = static_cast<char>(255 - i);
  iovec value{data.data(), data.size()};
  ASSERT_EQ(fi_set_val(&caller.av()->fid, FI_VAL_WEFT_LOOKUP_DATA, &value), 0);
  ASSERT_EQ(fi_setopt(called->fid(), FI_OPT_ENDPOINT, FI_OPT_WEFT_LOOKUP_ANSWER, answer.data(), answer.size()), 0);
  const fi_addr_t there = caller.insert(called.address()), back = called.insert(caller.address());

  fi_weft_lookup_data lookup;
  size_t size = sizeof lookup;
  ASSERT_EQ(fi_getopt(called->fid(), FI_OPT_ENDPOINT, FI_OPT_WEFT_LOOKUP_DATA, &lookup, &size), 0);
  EXPECT_EQ(std::memcmp(lookup.data, data.data(), data.size()), 0);
  Address source;
  source.storage = lookup.source;
  EXPECT_EQ(source.family(), called.address().family());
  EXPECT_EQ(fi_getopt(caller->fid(), FI_OPT_ENDPOINT, FI_OPT_WEFT_LOOKUP_DATA, &lookup, &size), -FI_EAGAIN);

  fi_weft_lookup_answer found{};
  found.peer = there;
  ASSERT_EQ(fi_get_val(&caller.av()->fid, FI_VAL_WEFT_LOOKUP_ANSWER, &found), 0);
  EXPECT_EQ(std::memcmp(found.data, answer.data(), answer.size()), 0);
  found.peer = back;
  ASSERT_EQ(fi_get_val(&called.av()->fid, FI_VAL_WEFT_LOOKUP_ANSWER, &found), 0);
  EXPECT_EQ(std::count(found.data, std::end(found.data), 0), FI_WEFT_LOOKUP_ANSWER_SIZE) << "no answer was set";
}

TEST_P(Datagrams, MessagesWithoutAReceiverDoNoHarm) {
  DATAGRAMS_ONLY();
  Fabric fabric(target());
  Pair pair(fabric);
  DatagramEnd end(fabric);
  auto gone = std::make_unique<DatagramEnd>(fabric);  // inserted while it lives: some providers look a peer up
  const fi_addr_t nobody = end.insert(gone->address());
  gone.reset();
  DatagramEnd peer(fabric);
  Buffer out(fabric, 64);
  Context sent;
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 5; ++i) {
      end->peer = nobody;
      ASSERT_EQ(end->send(out, 64, &sent), 0);
      ASSERT_TRUE(end->tx().wait().ok()) << "a datagram is sent, received or not";
    }
    end->peer = end.insert(peer.address());
    expect_round_trip(*end, *peer);
  }
}

TEST_P(Datagrams, BurstOfMixedSizesArrivesInOrder) {
  DATAGRAMS_ONLY();
  Fabric fabric(target());
  Pair pair(fabric);
  constexpr size_t kCount = 128, kSize = 1024;
  Buffer in(fabric, kCount * kSize), out(fabric, kCount * kSize);
  Context received, sent;
  const auto size_of = [](size_t i) { return i % 7 == 3 ? i : i % 32 < 16 ? size_t{64} : kSize; };
  for (const uint64_t flags : {uint64_t{0}, uint64_t{FI_MORE}}) {
    out.fill_pattern(1 + (flags != 0));
    post_all(pair.b(), in, kSize, kCount, &received);
    for (size_t i = 0; i < kCount; ++i) {
      const iovec iov{out.data() + i * kSize, size_of(i)};
      void* desc = out.desc();
      const fi_msg message{&iov, &desc, 1, pair.a().peer, &sent, 0};
      const uint64_t more = i + 1 < kCount ? flags : 0;
      ASSERT_EQ(retry([&] { return fi_sendmsg(pair.a().ep(), &message, FI_COMPLETION | more); }), 0);
    }
    for (size_t i = 0; i < kCount; ++i) {
      const Completion completion = pair.b().rx().wait();
      ASSERT_TRUE(completion.ok()) << completion;
      ASSERT_EQ(completion.entry.len, size_of(i)) << i;
      ASSERT_TRUE(pair.a().tx().wait().ok());
      ASSERT_EQ(std::memcmp(in.data() + i * kSize, out.data() + i * kSize, size_of(i)), 0) << i;
    }
  }
}

TEST_P(Datagrams, MessagesWaitForTheirReceives) {
  DATAGRAMS_ONLY();
  Fabric fabric(target());
  Pair pair(fabric);
  constexpr size_t kCount = 60, kSize = 64;
  Buffer in(fabric, kSize), out(fabric, kCount * kSize);
  out.fill_pattern(1);
  Context received, sent;
  for (size_t i = 0; i < kCount; ++i)
    ASSERT_EQ(
        retry([&] { return fi_send(pair.a().ep(), out.data() + i * kSize, kSize, out.desc(), pair.a().peer, &sent); }),
        0);
  for (size_t i = 0; i < kCount; ++i) ASSERT_TRUE(pair.a().tx().wait().ok());
  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(pair.b().recv(in, kSize, &received), 0);
    ASSERT_TRUE(pair.b().rx().wait().ok()) << i;
    ASSERT_EQ(std::memcmp(in.data(), out.data() + i * kSize, kSize), 0) << i;
  }
}

// Providers may read bursts with another call.
TEST_P(Datagrams, BurstsAndSingleMessagesTakeTurns) {
  DATAGRAMS_ONLY();
  Fabric fabric(target());
  Pair pair(fabric);
  constexpr size_t kSize = 64;
  Context received, sent;
  unsigned seed = 0;
  for (const size_t count : {40, 1, 40, 3, 1, 40}) {
    Buffer in(fabric, count * kSize), out(fabric, count * kSize);
    const int rounds = count == 40 ? 3 : 100;
    for (int round = 0; round < rounds; ++round) {
      out.fill_pattern(++seed);
      post_all(pair.b(), in, kSize, count, &received);
      for (size_t i = 0; i < count; ++i)
        ASSERT_EQ(retry([&] {
                    return fi_send(pair.a().ep(), out.data() + i * kSize, kSize, out.desc(), pair.a().peer, &sent);
                  }),
                  0);
      for (size_t i = 0; i < count; ++i) {
        ASSERT_TRUE(pair.a().tx().wait().ok());
        const Completion completion = pair.b().rx().wait();
        ASSERT_TRUE(completion.ok()) << completion;
        ASSERT_EQ(completion.entry.len, kSize) << count << " at once, round " << round;
      }
      ASSERT_TRUE(in.holds_pattern(seed, count * kSize)) << count << " at once, round " << round;
    }
  }
}

TEST_P(Datagrams, BurstFillsAMultiReceiveBuffer) {
  DATAGRAMS_ONLY();
  Fabric fabric(target());
  NodeOptions options;
  options.configure = [](fid_ep* ep) {
    const size_t minimum = 64;
    ASSERT_EQ(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &minimum, sizeof minimum), 0);
  };
  Pair pair(fabric, options);
  constexpr size_t kCount = 100, kSize = 100;
  Buffer in(fabric, kCount * kSize), out(fabric, kCount * kSize);
  out.fill_pattern(2);
  Context received, sent;
  const iovec iov{in.data(), in.size()};
  void* desc = in.desc();
  const fi_msg message{&iov, &desc, 1, FI_ADDR_UNSPEC, &received, 0};
  ASSERT_EQ(fi_recvmsg(pair.b().ep(), &message, FI_MULTI_RECV), 0);
  for (size_t i = 0; i < kCount; ++i)
    ASSERT_EQ(
        retry([&] { return fi_send(pair.a().ep(), out.data() + i * kSize, kSize, out.desc(), pair.a().peer, &sent); }),
        0);
  for (size_t i = 0; i < kCount; ++i) {
    const Completion completion = pair.b().rx().wait();
    ASSERT_TRUE(completion.ok()) << completion;
    EXPECT_EQ(completion.entry.buf, in.data() + i * kSize);
    EXPECT_EQ((completion.entry.flags & FI_MULTI_RECV) != 0, i + 1 == kCount) << i;
    ASSERT_TRUE(pair.a().tx().wait().ok());
  }
  EXPECT_TRUE(in.holds_pattern(2, kCount * kSize));
}

TEST_P(Datagrams, SleeperIsWokenByAMessageOfABurst) {
  DATAGRAMS_ONLY();
  Fabric fabric(target());
  NodeOptions options;
  options.rx_cq.wait_obj = FI_WAIT_FD;
  Pair pair(fabric, options);
  constexpr size_t kCount = 40, kSize = 64;
  Buffer in(fabric, kCount * kSize), out(fabric, kSize);
  Context received, sent;
  post_all(pair.b(), in, kSize, kCount, &received);
  for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(pair.a().send(out, kSize, &sent), 0);
  for (size_t i = 0; i < kCount; ++i) ASSERT_TRUE(pair.a().tx().wait().ok());
  for (size_t i = 0; i < kCount; ++i) {
    fi_cq_tagged_entry entry{};
    ASSERT_EQ(fi_cq_sread(pair.b().rx().get(), &entry, 1, nullptr, kWaitMs), 1) << i;
  }
}

TEST_P(Datagrams, ThreadsShareAnEndpoint) {
  DATAGRAMS_ONLY();
  Fabric fabric(target(), [](fi_info& hints) { hints.domain_attr->threading = FI_THREAD_SAFE; });
  Pair pair(fabric);
  constexpr size_t kThreads = 4, kEach = 100, kSize = 64;
  Buffer in(fabric, kThreads * kEach * kSize), out(fabric, kSize, 'x');
  std::vector<Context> received(kThreads * kEach);
  for (size_t i = 0; i < received.size(); ++i)
    ASSERT_EQ(fi_recv(pair.b().ep(), in.data() + i * kSize, kSize, in.desc(), FI_ADDR_UNSPEC, &received[i]), 0);
  std::atomic<size_t> sent{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      std::vector<Context> contexts(kEach);
      fi_cq_tagged_entry entry;
      for (Context& context : contexts) {
        while (fi_send(pair.a().ep(), out.data(), kSize, out.desc(), pair.a().peer, &context) == -FI_EAGAIN)
          if (fi_cq_read(pair.a().tx().get(), &entry, 1) == 1) ++sent;
        if (fi_cq_read(pair.a().tx().get(), &entry, 1) == 1) ++sent;
      }
      // Contexts are in use until the threads together have read all completions.
      const auto deadline = after(kPatience);
      while (sent != kThreads * kEach && Clock::now() < deadline)
        if (fi_cq_read(pair.a().tx().get(), &entry, 1) == 1) ++sent;
    });
  for (size_t i = 0; i < received.size(); ++i) {
    const Completion completion = pair.b().rx().wait();
    EXPECT_TRUE(completion.ok()) << completion << " after " << i;
    if (!completion.ok()) break;
    EXPECT_EQ(completion.entry.len, kSize);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sent, kThreads * kEach);
  EXPECT_EQ(in.text(in.size()), std::string(in.size(), 'x'));
}

TEST_P(Datagrams, LongerMessagesAreOfferedWhereTheInterfaceCarriesThem) {
  DATAGRAMS_ONLY();
  const HintsEditor longer = [](fi_info& hints) { hints.ep_attr->max_msg_size = 8000; };
  if (!Fabric::offers(target(), longer)) GTEST_SKIP() << "no interface that carries 8000 bytes";
  Fabric fabric(target(), longer);
  EXPECT_GE(fabric.info()->ep_attr->max_msg_size, 8000u);
  Pair pair(fabric);
  expect_round_trip(pair.a(), pair.b(), 8000);
}

// As every socket of IPv6 is, unless its program or the system says otherwise; ipv6(7).
TEST_P(Datagrams, WildcardOfIpv6IsReachedOverIpv4) {
  DATAGRAMS_ONLY();
  if (target().provider != "udp" || target().addr_format != FI_SOCKADDR_IN) GTEST_SKIP() << "udp over IPv4 only";
  Target wildcard = target();
  wildcard.address = "::";
  wildcard.addr_format = FI_SOCKADDR_IN6;
  if (!Fabric::offers(wildcard, {})) GTEST_SKIP() << "no IPv6";
  Fabric everywhere(wildcard), fabric(target());
  DatagramEnd server(everywhere), client(fabric);
  client->peer = client.insert(Address::numeric(target().address, server.address().port()));
  expect_round_trip(*client, *server);
}

}  // namespace datagrams
