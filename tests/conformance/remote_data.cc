// SPDX-License-Identifier: BSD-2-Clause
// Completion data that travels with messages and writes, and the receives that FI_RX_CQ_DATA lets writes take;
// fi_msg(3), fi_rma(3), fi_getinfo(3) MODE, fi_cq(3).
#include <rdma/fi_rma.h>

#include "fixture/counter.h"
#include "fixture/driver.h"
#include "fixture/node.h"

namespace remote_data {

CONFORMANCE_TOPIC(RemoteData);

namespace {

const HintsEditor kRma = [](fi_info& hints) { hints.caps = FI_MSG | FI_RMA; };
constexpr size_t kSize = 256;
constexpr uint64_t kArrival = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA;

struct Scene {
  explicit Scene(const Target& target, const NodeOptions& options = {})
      : fabric(target, kRma),
        pair(fabric, options),
        local(fabric, kSize, 'l'),
        remote(fabric, kSize, 'r', FI_REMOTE_READ | FI_REMOTE_WRITE),
        in(fabric, kSize) {}

  bool takes_receives() const { return fabric.info()->mode & FI_RX_CQ_DATA; }
  // A receive for a write, where writes consume one.
  void provide(Context& context) {
    if (takes_receives()) require_ok(pair.b().recv(in, kSize, &context), "fi_recv");
  }
  ssize_t write(size_t length, uint64_t data) {
    return retry([&] {
      return fi_writedata(pair.a().ep(), local.data(), length, local.desc(), data, pair.a().peer,
                          remote.remote_address(), remote.key(), &written);
    });
  }

  Fabric fabric;
  Pair pair;
  Buffer local, remote, in;
  Context written;
};

}  // namespace

#define REMOTE_DATA_SCENE(...)                      \
  CONNECTED_ONLY();                                 \
  NEEDS(kRma, "FI_RMA");                            \
  Scene scene(target() __VA_OPT__(, ) __VA_ARGS__); \
  if (scene.fabric.info()->domain_attr->cq_data_size == 0) GTEST_SKIP() << "no completion data here"

TEST_P(RemoteData, OfferedOnlyWithTheModeInTheHints) {
  CONNECTED_ONLY();
  NEEDS(kRma, "FI_RMA");
  const HintsEditor strict = [](fi_info& hints) {
    hints.caps = FI_MSG | FI_RMA;
    hints.mode &= ~FI_RX_CQ_DATA;
  };
  ASSERT_TRUE(Fabric::offers(target(), strict)) << "the mode may be declined";
  Fabric fabric(target(), strict);
  EXPECT_FALSE(fabric.info()->mode & FI_RX_CQ_DATA);
  if (!(Fabric(target(), kRma).info()->mode & FI_RX_CQ_DATA)) GTEST_SKIP() << "needs no such mode";
  EXPECT_EQ(fabric.info()->domain_attr->cq_data_size, 0u) << "writes with data would take receives unasked";
  Pair pair(fabric);
  Buffer local(fabric, 8), remote(fabric, 8, 0, FI_REMOTE_WRITE);
  Context context;
  const ssize_t rc = fi_writedata(pair.a().ep(), local.data(), 8, local.desc(), 1, pair.a().peer,
                                  remote.remote_address(), remote.key(), &context);
  EXPECT_LT(rc, 0);
  EXPECT_NE(rc, -FI_EAGAIN);
  expect_exchange(pair);
}

TEST_P(RemoteData, WriteTakesOneReceiveWithTheMode) {
  REMOTE_DATA_SCENE();
  if (!scene.takes_receives()) GTEST_SKIP() << "writes take no receives here";
  Context first, second, sent;
  Buffer other(scene.fabric, kSize);
  ASSERT_EQ(scene.pair.b().recv(scene.in, kSize, &first), 0);
  ASSERT_EQ(scene.pair.b().recv(other, kSize, &second), 0);
  ASSERT_EQ(scene.write(100, 77), 0);
  ASSERT_EQ(scene.pair.a().send(scene.local, 8, &sent), 0);
  Completion completion = scene.pair.b().rx().wait();
  ASSERT_TRUE(completion.ok()) << completion;
  EXPECT_EQ(completion.context(), &first);
  EXPECT_EQ(completion.entry.flags & (kArrival | FI_RECV), kArrival);
  EXPECT_EQ(completion.entry.data, 77u);
  EXPECT_EQ(completion.entry.len, 100u);
  EXPECT_EQ(scene.remote.text(101), std::string(100, 'l') + "r");
  completion = scene.pair.b().rx().wait();
  EXPECT_EQ(completion.context(), &second);
  EXPECT_EQ(completion.entry.flags & (FI_RECV | FI_MSG | FI_REMOTE_CQ_DATA), FI_RECV | FI_MSG);
  for (char byte : scene.in.text(kSize)) ASSERT_EQ(byte, 0) << "the receive's buffer stays as it was";
}

TEST_P(RemoteData, EmptyWriteIsADoorbell) {
  REMOTE_DATA_SCENE();
  Context receive;
  scene.provide(receive);
  ASSERT_EQ(scene.write(0, 5), 0);
  const Completion completion = scene.pair.b().rx().wait();
  ASSERT_TRUE(completion.ok()) << completion;
  EXPECT_EQ(completion.entry.data, 5u);
  EXPECT_EQ(completion.entry.flags & kArrival, kArrival);
  EXPECT_EQ(scene.remote.data()[0], 'r');
  EXPECT_EQ(scene.pair.a().tx().wait().context(), &scene.written);
}

TEST_P(RemoteData, WritesAreNoMessagesForACounter) {
  NEEDS(kRma, "FI_RMA");
  Fabric fabric(target(), kRma);
  if (fabric.info()->domain_attr->cq_data_size == 0) GTEST_SKIP() << "no completion data here";
  const auto receives = open_counter(fabric);
  Pair pair(fabric, {}, counting(receives.get(), FI_RECV));
  Buffer remote(fabric, 64, 0, FI_REMOTE_WRITE), local(fabric, 64, 0, FI_WRITE), in(fabric, 64);
  Context written, sent, received[2];
  for (Context& each : received) ASSERT_EQ(pair.b().recv(in, 64, &each), 0);  // a write may consume one
  ASSERT_EQ(retry([&] {
              return fi_writedata(pair.a().ep(), local.data(), 64, local.desc(), 5, pair.a().peer,
                                  remote.remote_address(), remote.key(), &written);
            }),
            0);
  const Completion arrival = pair.b().rx().wait();
  ASSERT_TRUE(arrival.ok()) << arrival;
  EXPECT_EQ(arrival.entry.flags & kArrival, kArrival);
  EXPECT_EQ(fi_cntr_read(receives.get()), 0u);
  ASSERT_EQ(pair.a().send(local, 8, &sent), 0);
  EXPECT_TRUE(reaches(receives.get(), 1));
}

TEST_P(RemoteData, InjectedWriteCarriesDataToo) {
  REMOTE_DATA_SCENE();
  Context receive;
  scene.provide(receive);
  char bytes[8] = {'i', 'n', 'j', 'e', 'c', 't', 'e', 'd'};
  ASSERT_EQ(retry([&] {
              return fi_inject_writedata(scene.pair.a().ep(), bytes, 8, 9, scene.pair.a().peer,
                                         scene.remote.remote_address(), scene.remote.key());
            }),
            0);
  std::memset(bytes, '#', 8);
  const Completion completion = scene.pair.b().rx().wait();
  EXPECT_EQ(completion.entry.data, 9u) << completion;
  EXPECT_EQ(scene.remote.text(8), "injected");
  EXPECT_TRUE(scene.pair.a().tx().stays_silent(milliseconds(20)));
}

TEST_P(RemoteData, EveryValueArrivesInItsOrder) {
  REMOTE_DATA_SCENE();
  constexpr size_t kCount = 50;
  std::vector<Context> receives(kCount);
  for (Context& context : receives) ASSERT_EQ(scene.pair.b().recv(scene.in, kSize, &context), 0);
  Context sent;
  for (size_t i = 0; i < kCount; ++i) {
    const uint64_t value = i * 0x01010101u + 0x80000000u;
    ASSERT_EQ(retry([&] {
                return fi_senddata(scene.pair.a().ep(), scene.local.data(), i, scene.local.desc(), value,
                                   scene.pair.a().peer, &sent);
              }),
              0);
  }
  for (size_t i = 0; i < kCount; ++i) {
    const Completion completion = scene.pair.b().rx().wait();
    ASSERT_TRUE(completion.ok()) << completion;
    EXPECT_EQ(completion.entry.len, i);
    EXPECT_EQ(completion.entry.data, scene.fabric.carried(i * 0x01010101u + 0x80000000u));
  }
}

TEST_P(RemoteData, PlainMessagesHaveNoData) {
  REMOTE_DATA_SCENE();
  Context received, sent;
  ASSERT_EQ(scene.pair.b().recv(scene.in, kSize, &received), 0);
  ASSERT_EQ(scene.pair.a().send(scene.local, 8, &sent), 0);
  EXPECT_FALSE(scene.pair.b().rx().wait().entry.flags & FI_REMOTE_CQ_DATA);
}

}  // namespace remote_data
