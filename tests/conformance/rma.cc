// SPDX-License-Identifier: BSD-2-Clause
// Remote memory access: the nine calls, CQ data, bounds and keys; fi_rma(3).
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#include "fixture/driver.h"
#include "fixture/member.h"
#include "fixture/node.h"

namespace rma {

CONFORMANCE_TOPIC(Rma);

namespace {

const HintsEditor kRma = [](fi_info& hints) { hints.caps = FI_MSG | FI_RMA; };
constexpr size_t kSize = 8192;
constexpr uint64_t kRemote = FI_REMOTE_READ | FI_REMOTE_WRITE;

struct Scene {
  explicit Scene(const Target& target, uint64_t access = kRemote)
      : fabric(target, kRma),
        pair(fabric),
        local(fabric, kSize, 'l', FI_READ | FI_WRITE),
        remote(fabric, kSize, 'r', access) {}

  fid_ep* ep() { return pair.a().ep(); }
  fi_addr_t peer() { return pair.a().peer; }
  uint64_t at(size_t offset = 0) { return remote.remote_address(offset); }

  ssize_t write(size_t length, size_t offset, uint64_t key) {
    return retry([&] { return fi_write(ep(), local.data(), length, local.desc(), peer(), at(offset), key, &context); });
  }
  ssize_t read(size_t length, size_t offset, uint64_t key) {
    return retry([&] { return fi_read(ep(), local.data(), length, local.desc(), peer(), at(offset), key, &context); });
  }
  void expect_completed(uint64_t flag) {
    const Completion completion = pair.a().tx().wait();
    ASSERT_TRUE(completion.ok()) << completion;
    EXPECT_EQ(completion.context(), &context);
    EXPECT_EQ(completion.entry.flags & (FI_RMA | flag), FI_RMA | flag);
  }
  // A write without completion at the target has arrived once a later read has completed.
  void flush() {
    Buffer one(fabric, 1, 0, FI_READ);
    Context read_context;
    require_ok(retry([&] {
                 return fi_read(ep(), one.data(), 1, one.desc(), peer(), at(kSize - 1), remote.key(), &read_context);
               }),
               "fi_read");
    EXPECT_TRUE(pair.a().tx().wait().ok());
  }

  Fabric fabric;
  Pair pair;
  Buffer local, remote;
  Context context;
};

}  // namespace

#define RMA_SCENE(...)   \
  NEEDS(kRma, "FI_RMA"); \
  Scene scene(target() __VA_OPT__(, ) __VA_ARGS__)

TEST_P(Rma, WritePutsBytesAtTheOffset) {
  RMA_SCENE();
  scene.local.fill_pattern(1);
  ASSERT_EQ(scene.write(100, 50, scene.remote.key()), 0);
  scene.expect_completed(FI_WRITE);
  scene.flush();
  EXPECT_EQ(std::memcmp(scene.remote.data() + 50, scene.local.data(), 100), 0);
  EXPECT_EQ(scene.remote.data()[49], 'r');
  EXPECT_EQ(scene.remote.data()[150], 'r');
  EXPECT_TRUE(scene.pair.b().rx().stays_silent(milliseconds(20))) << "the target gets no completion";
}

TEST_P(Rma, ReadGetsBytesFromTheOffset) {
  RMA_SCENE();
  scene.remote.fill_pattern(2);
  ASSERT_EQ(scene.read(100, 50, scene.remote.key()), 0);
  scene.expect_completed(FI_READ);
  EXPECT_EQ(std::memcmp(scene.local.data(), scene.remote.data() + 50, 100), 0);
  EXPECT_EQ(scene.local.data()[100], 'l');
}

// FI_INJECT among the endpoint's default flags concerns outgoing data: a read still fills the application's buffer,
// also when it waits for the first connection to the peer.
TEST_P(Rma, ReadsIgnoreInjectInTheDefaultFlags) {
  const HintsEditor inject = [](fi_info& hints) {
    hints.caps = FI_MSG | FI_RMA;
    hints.tx_attr->op_flags = FI_INJECT;
  };
  if (!Fabric::offers(target(), inject)) GTEST_SKIP() << "no FI_RMA, or no FI_INJECT by default";
  Fabric fabric(target(), inject);
  Pair pair(fabric);
  Buffer local(fabric, 64, 'l', FI_READ), remote(fabric, 64, 'r', kRemote);
  Context context;
  remote.fill_pattern(3);
  ASSERT_EQ(retry([&] {
              return fi_read(pair.a().ep(), local.data(), 64, local.desc(), pair.a().peer, remote.remote_address(),
                             remote.key(), &context);
            }),
            0);
  const Completion first = pair.a().tx().wait();
  ASSERT_TRUE(first.ok()) << first;
  EXPECT_TRUE(local.holds_pattern(3, 64));
  std::memset(local.data(), 'l', 64);
  const iovec iov{local.data(), 64};
  void* desc = local.desc();
  ASSERT_EQ(retry([&] {
              return fi_readv(pair.a().ep(), &iov, &desc, 1, pair.a().peer, remote.remote_address(), remote.key(),
                              &context);
            }),
            0);
  ASSERT_TRUE(pair.a().tx().wait().ok());
  EXPECT_TRUE(local.holds_pattern(3, 64));
}

TEST_P(Rma, WholeRegionsOfEverySizeTravelBothWays) {
  NEEDS(kRma, "FI_RMA");
  Fabric fabric(target(), kRma);
  Pair pair(fabric);
  Context context;
  for (size_t size : {size_t{1}, size_t{64}, size_t{65536}, size_t{1} << 20, size_t{8} << 20}) {
    Buffer out(fabric, size, 0, FI_WRITE), in(fabric, size, 0, FI_READ), remote(fabric, size, 0, kRemote);
    out.fill_pattern(static_cast<unsigned>(size));
    for (int i : {0, 1}) {
      Node& node = pair.node(i);
      ASSERT_EQ(retry([&] {
                  return fi_write(node.ep(), out.data(), size, out.desc(), node.peer, remote.remote_address(),
                                  remote.key(), &context);
                }),
                0);
      ASSERT_TRUE(node.tx().wait().ok());
      ASSERT_EQ(retry([&] {
                  return fi_read(node.ep(), in.data(), size, in.desc(), node.peer, remote.remote_address(),
                                 remote.key(), &context);
                }),
                0);
      ASSERT_TRUE(node.tx().wait().ok());
      EXPECT_TRUE(in.holds_pattern(static_cast<unsigned>(size), size)) << size;
      std::memset(in.data(), 0, size);
    }
  }
}

TEST_P(Rma, VectorsGatherAndScatterLocally) {
  RMA_SCENE();
  const size_t count = scene.fabric.info()->tx_attr->iov_limit;
  std::vector<iovec> iov;
  std::vector<void*> desc(count, scene.local.desc());
  for (size_t i = 0; i < count; ++i) iov.push_back({scene.local.data() + i * 500, 100 + i});
  const size_t total = 100 * count + count * (count - 1) / 2;
  scene.local.fill_pattern(3);
  ASSERT_EQ(retry([&] {
              return fi_writev(scene.ep(), iov.data(), desc.data(), count, scene.peer(), scene.at(7),
                               scene.remote.key(), &scene.context);
            }),
            0);
  scene.expect_completed(FI_WRITE);
  scene.flush();
  const char* at = scene.remote.data() + 7;
  for (const iovec& piece : iov) {
    EXPECT_EQ(std::memcmp(at, piece.iov_base, piece.iov_len), 0);
    at += piece.iov_len;
  }
  std::memset(scene.local.data(), 0, kSize);
  ASSERT_EQ(retry([&] {
              return fi_readv(scene.ep(), iov.data(), desc.data(), count, scene.peer(), scene.at(7), scene.remote.key(),
                              &scene.context);
            }),
            0);
  scene.expect_completed(FI_READ);
  at = scene.remote.data() + 7;
  for (const iovec& piece : iov) {
    EXPECT_EQ(std::memcmp(at, piece.iov_base, piece.iov_len), 0);
    at += piece.iov_len;
  }
  EXPECT_EQ(at, scene.remote.data() + 7 + total);
}

TEST_P(Rma, SeveralRemoteRegionsInOneOperation) {
  RMA_SCENE();
  const size_t count = scene.fabric.info()->tx_attr->rma_iov_limit;
  Buffer other(scene.fabric, kSize, 'o', kRemote);
  std::vector<fi_rma_iov> remote;
  for (size_t i = 0; i < count; ++i)
    remote.push_back(i % 2 ? fi_rma_iov{other.remote_address(i * 300), 64, other.key()}
                           : fi_rma_iov{scene.at(i * 300), 64, scene.remote.key()});
  const iovec local{scene.local.data(), 64 * count};
  void* desc = scene.local.desc();
  fi_msg_rma message{&local, &desc, 1, scene.peer(), remote.data(), count, &scene.context, 0};
  scene.local.fill_pattern(4);
  const std::string original = scene.local.text(64 * count);
  ASSERT_EQ(retry([&] { return fi_writemsg(scene.ep(), &message, 0); }), 0);
  scene.expect_completed(FI_WRITE);
  scene.flush();
  for (size_t i = 0; i < count; ++i)
    EXPECT_EQ(std::string((i % 2 ? other : scene.remote).data() + i * 300, 64), original.substr(i * 64, 64)) << i;
  std::memset(scene.local.data(), 0, kSize);
  ASSERT_EQ(retry([&] { return fi_readmsg(scene.ep(), &message, 0); }), 0);
  scene.expect_completed(FI_READ);
  EXPECT_EQ(scene.local.text(64 * count), original);
}

// The target answers them together, with batches of every length.
TEST_P(Rma, ReadsOfSeveralRegionsBehindOthersReturnTheirBytes) {
  RMA_SCENE();
  const size_t regions = scene.fabric.info()->tx_attr->rma_iov_limit;
  constexpr size_t kMost = 64, kShort = 16, kLong = 4800;
  Buffer in(scene.fabric, kMost * kShort + kLong, 0, FI_READ);
  std::vector<Context> contexts(kMost + 1);
  scene.remote.fill_pattern(8);
  const auto read = [&](size_t to, size_t from, size_t length, size_t pieces, Context& context) {
    std::vector<fi_rma_iov> remote;
    for (size_t i = 0; i < pieces; ++i)
      remote.push_back({scene.at(from + i * (length / pieces)), length / pieces, scene.remote.key()});
    const iovec local{in.data() + to, length / pieces * pieces};
    void* desc = in.desc();
    const fi_msg_rma message{&local, &desc, 1, scene.peer(), remote.data(), pieces, &context, 0};
    return fi_readmsg(scene.ep(), &message, 0);
  };
  for (size_t before = 24; before < kMost && before + 2 < scene.fabric.info()->tx_attr->size; ++before) {
    SCOPED_TRACE(before);
    std::memset(in.data(), 0, in.size());
    size_t posted = 0;
    for (; posted < before; ++posted) {
      const size_t pieces = posted == 0 && regions > 1 ? 1 + before % 2 : 1;
      if (read(posted * kShort, posted * kShort, kShort, pieces, contexts[posted]) != 0) break;
    }
    ASSERT_EQ(retry([&] { return read(kMost * kShort, 64, kLong, regions, contexts[kMost]); }), 0);
    for (size_t i = 0; i <= posted; ++i) {
      const Completion completion = scene.pair.a().tx().wait();
      ASSERT_TRUE(completion.ok()) << completion;
    }
    EXPECT_EQ(in.text(posted * kShort), std::string(scene.remote.data(), posted * kShort));
    EXPECT_EQ(std::string(in.data() + kMost * kShort, kLong / regions * regions),
              std::string(scene.remote.data() + 64, kLong / regions * regions));
  }
}

TEST_P(Rma, WriteWithDataIsReportedAtTheTarget) {
  NEEDS(with_remote_data, "completion data");
  RMA_SCENE();
  Buffer posted(scene.fabric, 64);
  Context receive;
  if (scene.fabric.info()->mode & FI_RX_CQ_DATA) {
    ASSERT_EQ(scene.pair.b().recv(posted, 64, &receive), 0);
  }
  scene.local.fill_pattern(5);
  ASSERT_EQ(retry([&] {
              return fi_writedata(scene.ep(), scene.local.data(), 200, scene.local.desc(), 0xfeedface12345678,
                                  scene.peer(), scene.at(), scene.remote.key(), &scene.context);
            }),
            0);
  const Completion completion = scene.pair.b().rx().wait();
  ASSERT_TRUE(completion.ok()) << completion;
  constexpr uint64_t kFlags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA;
  EXPECT_EQ(completion.entry.flags & kFlags, kFlags);
  EXPECT_EQ(completion.entry.data, scene.fabric.carried(0xfeedface12345678u));
  if (!(scene.fabric.info()->mode & FI_RX_CQ_DATA)) {
    EXPECT_EQ(completion.context(), nullptr);
  }
  EXPECT_EQ(std::memcmp(scene.remote.data(), scene.local.data(), 200), 0) << "visible with the completion";
  scene.expect_completed(FI_WRITE);
}

TEST_P(Rma, WriteWithDataLeavesPostedReceivesAlone) {
  NEEDS(with_remote_data, "completion data");
  RMA_SCENE();
  if (scene.fabric.info()->mode & FI_RX_CQ_DATA) GTEST_SKIP() << "this provider consumes a receive";
  Buffer posted(scene.fabric, 64), out(scene.fabric, 64);
  Context receive, sent;
  ASSERT_EQ(scene.pair.b().recv(posted, 64, &receive), 0);
  ASSERT_EQ(retry([&] {
              return fi_inject_writedata(scene.ep(), scene.local.data(), 8, 1, scene.peer(), scene.at(),
                                         scene.remote.key());
            }),
            0);
  EXPECT_EQ(scene.pair.b().rx().wait().context(), nullptr);
  ASSERT_EQ(scene.pair.a().send(out, 8, &sent), 0);
  EXPECT_EQ(scene.pair.b().rx().wait().context(), &receive);
}

TEST_P(Rma, InjectedWriteFreesTheBufferAtOnceAndGivesNoCompletion) {
  RMA_SCENE();
  const size_t length = std::min<size_t>(64, scene.fabric.info()->tx_attr->inject_size);
  scene.local.fill_pattern(6);
  const std::string original = scene.local.text(length);
  ASSERT_EQ(retry([&] {
              return fi_inject_write(scene.ep(), scene.local.data(), length, scene.peer(), scene.at(),
                                     scene.remote.key());
            }),
            0);
  scene.local.fill_pattern(7);
  scene.flush();
  EXPECT_EQ(scene.remote.text(length), original);
  EXPECT_TRUE(scene.pair.a().tx().stays_silent(milliseconds(20)));
}

TEST_P(Rma, DeliveryCompleteWriteIsVisibleAtTheTarget) {
  RMA_SCENE();
  const iovec local{scene.local.data(), 300};
  void* desc = scene.local.desc();
  const fi_rma_iov remote{scene.at(), 300, scene.remote.key()};
  const fi_msg_rma message{&local, &desc, 1, scene.peer(), &remote, 1, &scene.context, 0};
  for (unsigned round = 0; round < 10; ++round) {
    scene.local.fill_pattern(round);
    ASSERT_EQ(retry([&] { return fi_writemsg(scene.ep(), &message, FI_DELIVERY_COMPLETE); }), 0);
    scene.expect_completed(FI_WRITE);
    EXPECT_EQ(std::memcmp(scene.remote.data(), scene.local.data(), 300), 0);
  }
}

// The modes of registrations concern memory that peers access.
TEST_P(Rma, InitiatorNeedsNoRegistrationModes) {
  RELIABLE_DATAGRAMS_ONLY();
  NEEDS(kRma, "FI_RMA");
  const HintsEditor initiates = [](fi_info& hints) {
    hints.caps = FI_MSG | FI_RMA | FI_READ | FI_WRITE;
    hints.mode = 0;
    hints.domain_attr->mr_mode = 0;
  };
  ASSERT_TRUE(Fabric::offers(target(), initiates));
  Fabric active(target(), initiates), passive(target(), kRma);
  DatagramEnd a(active), b(passive);
  const fi_addr_t peer = a.insert(b.address());
  for (const size_t length : {size_t{100}, size_t{100'000}}) {
    Buffer local(active, length, 'l', FI_READ | FI_WRITE), remote(passive, length, 'r', kRemote);
    Context context;
    local.fill_pattern(1);
    ASSERT_EQ(retry([&] {
                return fi_write(a->ep(), local.data(), length, local.desc(), peer, remote.remote_address(),
                                remote.key(), &context);
              }),
              0);
    ASSERT_TRUE(a->tx().wait().ok());
    local.fill_pattern(2);
    ASSERT_EQ(retry([&] {
                return fi_read(a->ep(), local.data(), length, local.desc(), peer, remote.remote_address(), remote.key(),
                               &context);
              }),
              0);
    ASSERT_TRUE(a->tx().wait().ok());
    EXPECT_TRUE(remote.holds_pattern(1, length));
    EXPECT_TRUE(local.holds_pattern(1, length));
  }
}

// The region grants FI_REMOTE_WRITE only. The lengths reach every protocol of a layered provider.
TEST_P(Rma, DeliveryCompleteWriteNeedsNoRightToRead) {
  NEEDS(kRma, "FI_RMA");
  Fabric fabric(target(), kRma);
  Pair pair(fabric);
  constexpr size_t kLong = 300'000;
  Buffer local(fabric, kLong, 0, FI_WRITE), remote(fabric, kLong, 0, FI_REMOTE_WRITE);
  Context context;
  for (const size_t length : {size_t{1}, size_t{64}, size_t{300}, size_t{20'000}, kLong}) {
    const auto seed = static_cast<unsigned>(length);
    local.fill_pattern(seed);
    const iovec iov{local.data(), length};
    void* desc = local.desc();
    const fi_rma_iov range{remote.remote_address(kLong - length), length, remote.key()};
    const fi_msg_rma message{&iov, &desc, 1, pair.a().peer, &range, 1, &context, 0};
    ASSERT_EQ(retry([&] { return fi_writemsg(pair.a().ep(), &message, FI_DELIVERY_COMPLETE); }), 0);
    const Completion completion = pair.a().tx().wait();
    ASSERT_TRUE(completion.ok()) << length << ": " << completion;
    EXPECT_EQ(std::memcmp(remote.data() + kLong - length, local.data(), length), 0) << length;
  }
  expect_exchange(pair);
}

// The peer is opened for writes only as well.
TEST_P(Rma, DeliveredWritesOfEveryKindNeedNoRightToRead) {
  NEEDS(kRma, "FI_RMA");
  const HintsEditor writes_only = [](fi_info& hints) {
    hints.caps = FI_MSG | FI_RMA | FI_WRITE | FI_REMOTE_WRITE;
    hints.tx_attr->op_flags = FI_DELIVERY_COMPLETE;
  };
  if (!Fabric::offers(target(), writes_only)) GTEST_SKIP() << "no writes without reads";
  Fabric fabric(target(), writes_only);
  Pair pair(fabric);
  constexpr size_t kLong = 300'000, kPieces = 4;
  Buffer local(fabric, kLong, 0, FI_WRITE), remote(fabric, kLong, 0, FI_REMOTE_WRITE), in(fabric, 64);
  const bool has_data = fabric.info()->domain_attr->cq_data_size != 0;
  const size_t pieces = std::min(kPieces, fabric.info()->tx_attr->iov_limit);
  unsigned seed = 0;
  for (const uint64_t flags : {uint64_t{0}, uint64_t{FI_INJECT}, uint64_t{FI_FENCE}, uint64_t{FI_REMOTE_CQ_DATA},
                               uint64_t{FI_REMOTE_CQ_DATA | FI_FENCE}})
    for (const size_t length : {size_t{0}, size_t{64}, size_t{20'000}, kLong}) {
      if ((flags & FI_REMOTE_CQ_DATA) != 0 && !has_data) continue;
      if ((flags & FI_INJECT) != 0 && length > fabric.info()->tx_attr->inject_size) continue;
      local.fill_pattern(++seed);
      std::vector<iovec> iov;
      for (size_t i = 0; i < pieces; ++i)
        iov.push_back({local.data() + length / pieces * i, length / pieces + (i + 1 == pieces ? length % pieces : 0)});
      std::vector<void*> descs(pieces, local.desc());
      const fi_rma_iov range{remote.remote_address(), length, remote.key()};
      Context context, received;
      if ((flags & FI_REMOTE_CQ_DATA) != 0) {
        ASSERT_EQ(pair.b().recv(in, 64, &received), 0);
      }
      const fi_msg_rma message{iov.data(), descs.data(), pieces, pair.a().peer, &range, 1, &context, 5};
      ASSERT_EQ(retry([&] { return fi_writemsg(pair.a().ep(), &message, flags | FI_DELIVERY_COMPLETE); }), 0);
      const Completion completion = pair.a().tx().wait();
      ASSERT_TRUE(completion.ok()) << flags << ", " << length << ": " << completion;
      EXPECT_EQ(std::memcmp(remote.data(), local.data(), length), 0) << flags << ", " << length;
      if ((flags & FI_REMOTE_CQ_DATA) == 0) continue;
      const Completion arrival = pair.b().rx().wait();
      ASSERT_TRUE(arrival.ok()) << arrival;
      EXPECT_EQ(arrival.entry.data, 5u);
      // A provider that needs no receive for the data leaves it posted.
      if (arrival.context() != &received) {
        ASSERT_EQ(fi_cancel(&pair.b().ep()->fid, &received), 0);
        ASSERT_EQ(pair.b().rx().wait().err(), FI_ECANCELED);
      }
    }
  const uint64_t address = remote.remote_address(), key = remote.key();
  local.fill_pattern(++seed);
  ASSERT_EQ(retry([&] { return fi_inject_write(pair.a().ep(), local.data(), 64, pair.a().peer, address, key); }), 0);
  expect_exchange(pair);
  EXPECT_EQ(std::memcmp(remote.data(), local.data(), 64), 0);
}

TEST_P(Rma, ZeroLengthOperationsComplete) {
  RMA_SCENE();
  ASSERT_EQ(scene.write(0, 0, scene.remote.key()), 0);
  scene.expect_completed(FI_WRITE);
  ASSERT_EQ(scene.read(0, 0, scene.remote.key()), 0);
  scene.expect_completed(FI_READ);
  EXPECT_EQ(scene.remote.data()[0], 'r');
}

TEST_P(Rma, OperationsOfOneEndpointKeepTheirOrder) {
  RMA_SCENE();
  constexpr size_t kCount = 50;
  std::vector<Context> contexts(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    scene.local.data()[i] = static_cast<char>(i);
    ASSERT_EQ(retry([&] {
                return fi_write(scene.ep(), scene.local.data() + i, 1, scene.local.desc(), scene.peer(), scene.at(),
                                scene.remote.key(), &contexts[i]);
              }),
              0);
  }
  for (Context& context : contexts) EXPECT_EQ(scene.pair.a().tx().wait().context(), &context);
  scene.flush();
  EXPECT_EQ(scene.remote.data()[0], static_cast<char>(kCount - 1)) << "the last write wins";
}

// A read needs an answer, and the write behind it may not.
TEST_P(Rma, CompletionsComeInThePromisedOrder) {
  RMA_SCENE();
  if ((scene.fabric.info()->tx_attr->comp_order & FI_ORDER_STRICT) != FI_ORDER_STRICT)
    GTEST_SKIP() << "no order of completions";
  Buffer read(scene.fabric, kSize, 0, FI_READ);
  Context read_context;
  ASSERT_EQ(retry([&] {
              return fi_read(scene.ep(), read.data(), kSize, read.desc(), scene.peer(), scene.at(), scene.remote.key(),
                             &read_context);
            }),
            0);
  ASSERT_EQ(scene.write(1, 0, scene.remote.key()), 0);
  EXPECT_EQ(scene.pair.a().tx().wait().context(), &read_context);
  EXPECT_EQ(scene.pair.a().tx().wait().context(), &scene.context);
}

// Both ends have answers to send and requests to read, more than sockets hold.
TEST_P(Rma, ManyReadsInBothDirectionsComplete) {
  NEEDS(kRma, "FI_RMA");
  Fabric fabric(target(), kRma);
  Pair pair(fabric);
  expect_exchange(pair);
  constexpr size_t kMost = 2048, kLength = 64 * 1024;
  Buffer local(fabric, kLength, 0, FI_READ), remote(fabric, kLength, 'r', FI_REMOTE_READ);
  std::vector<Context> contexts(kMost);
  size_t posted[2] = {};
  for (int i : {0, 1})
    while (posted[i] < kMost && fi_read(pair.node(i).ep(), local.data(), kLength, local.desc(), pair.node(i).peer,
                                        remote.remote_address(), remote.key(), &contexts[posted[i]]) == 0)
      ++posted[i];
  for (int i : {0, 1})
    for (; posted[i] != 0; --posted[i]) ASSERT_TRUE(pair.node(i).tx().wait().ok()) << posted[i] << " are left";
  EXPECT_EQ(local.data()[0], 'r');
}

TEST_P(Rma, AtomicsAreReportedCorrectly) {
  RMA_SCENE();
  if (!speaks_tcp() || !target().connected()) GTEST_SKIP() << "the wire of tcp's connections has no atomics";
  EXPECT_FALSE(scene.fabric.info()->caps & FI_ATOMIC);
  fi_atomic_attr attr{};
  EXPECT_LT(fi_query_atomic(scene.fabric.domain(), FI_UINT64, FI_SUM, &attr, 0), 0);
}

// A program may repeat a call until there is room, and read no queue meanwhile.
TEST_P(Rma, RepeatedCallsFindRoom) {
  RMA_SCENE();
  constexpr uint64_t kTimes = 3000;
  for (uint64_t i = 1; i <= kTimes; ++i)
    ASSERT_EQ(
        repeat([&] { return fi_inject_write(scene.ep(), &i, sizeof i, scene.peer(), scene.at(), scene.remote.key()); }),
        0)
        << i;
  scene.flush();
  uint64_t last = 0;
  std::memcpy(&last, scene.remote.data(), sizeof last);
  EXPECT_EQ(last, kTimes);
}

}  // namespace rma
