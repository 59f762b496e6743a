// SPDX-License-Identifier: BSD-2-Clause
// Every byte arrives unchanged at its place, at all lengths up to a gibibyte. WEFT_INTEGRITY_MIB sets the volume of
// each body (default 24), WEFT_LARGEST_MIB the length of the longest transfer (default 16), so that slow machines need
// not move all of it.
#include <rdma/fi_rma.h>

#include <cstdlib>
#include <memory>

#include "fixture/driver.h"
#include "fixture/node.h"

namespace integrity {

CONFORMANCE_TOPIC(Integrity);

namespace {

const HintsEditor kRma = [](fi_info& hints) { hints.caps = FI_MSG | FI_RMA; };

size_t mebibytes(const char* variable, size_t otherwise) {
  const char* mib = std::getenv(variable);
  return (mib != nullptr ? std::strtoull(mib, nullptr, 10) : otherwise) << 20;
}

size_t volume() {
  return mebibytes("WEFT_INTEGRITY_MIB", 24);
}

// Large transfers are slow on emulated devices.
Completion patiently(CompletionQueue& queue) {
  return queue.wait(after(60 * kPatience));
}

// Lengths around every power of two up to `most`.
std::vector<size_t> lengths(size_t most) {
  std::vector<size_t> list{0, 1};
  for (size_t power = 4; power <= most; power *= 4)
    for (size_t length : {power - 1, power, power + 1})
      if (length <= most) list.push_back(length);
  return list;
}

}  // namespace

TEST_P(Integrity, MessagesOfEveryLength) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Pair pair(fabric);
  const size_t most = fabric.length_up_to(volume() / 4);
  Buffer out(fabric, most), in(fabric, most + 8);
  unsigned seed = 0;
  for (size_t length : lengths(most)) {
    Context sent, received;
    out.fill_pattern(++seed);
    std::memset(in.data(), '#', in.size());
    ASSERT_EQ(pair.b().recv(in, most, &received), 0);
    ASSERT_EQ(pair.a().send(out, length, &sent), 0);
    const Completion arrival = patiently(pair.b().rx());
    ASSERT_TRUE(arrival.ok()) << length << ": " << arrival;
    ASSERT_EQ(arrival.entry.len, length);
    ASSERT_TRUE(in.holds_pattern(seed, length)) << length;
    ASSERT_EQ(in.data()[length], '#') << "wrote behind a message of " << length;
    ASSERT_TRUE(patiently(pair.a().tx()).ok());
  }
}

TEST_P(Integrity, WritesAndReadsOfEveryLength) {
  CONNECTED_ONLY();
  NEEDS(kRma, "FI_RMA");
  Fabric fabric(target(), kRma);
  Pair pair(fabric);
  const size_t most = fabric.length_up_to(volume() / 6);
  Buffer local(fabric, most, 0, FI_READ | FI_WRITE), back(fabric, most + 8, 0, FI_READ | FI_WRITE);
  Buffer remote(fabric, most + 8, 0, FI_REMOTE_READ | FI_REMOTE_WRITE);
  unsigned seed = 0;
  for (size_t length : lengths(most)) {
    Context written, read;
    local.fill_pattern(++seed);
    std::memset(remote.data(), '#', remote.size());
    std::memset(back.data(), '#', back.size());
    ASSERT_EQ(retry([&] {
                return fi_write(pair.a().ep(), local.data(), length, local.desc(), pair.a().peer,
                                remote.remote_address(), remote.key(), &written);
              }),
              0);
    ASSERT_EQ(retry([&] {
                return fi_read(pair.a().ep(), back.data(), length, back.desc(), pair.a().peer, remote.remote_address(),
                               remote.key(), &read);
              }),
              0);
    ASSERT_EQ(patiently(pair.a().tx()).context(), &written) << length;
    const Completion done = patiently(pair.a().tx());
    ASSERT_TRUE(done.ok()) << length << ": " << done;
    ASSERT_TRUE(back.holds_pattern(seed, length)) << length;
    ASSERT_TRUE(remote.holds_pattern(seed, length)) << length;
    ASSERT_EQ(remote.data()[length], '#');
    ASSERT_EQ(back.data()[length], '#');
  }
}

TEST_P(Integrity, LongestMessageAndWrite) {
  CONNECTED_ONLY();
  NEEDS(kRma, "FI_RMA");
  Fabric fabric(target(), kRma);
  Pair pair(fabric);
  const size_t length = fabric.length_up_to(mebibytes("WEFT_LARGEST_MIB", 16));
  Buffer out(fabric, length, 0, FI_SEND | FI_WRITE), in(fabric, length, 0, FI_RECV | FI_REMOTE_WRITE);
  Context sent, received, written;
  out.fill_pattern(1);
  ASSERT_EQ(pair.b().recv(in, length, &received), 0);
  ASSERT_EQ(pair.a().send(out, length, &sent), 0);
  const Completion arrival = patiently(pair.b().rx());
  ASSERT_TRUE(arrival.ok()) << arrival;
  EXPECT_EQ(arrival.entry.len, length);
  EXPECT_TRUE(in.holds_pattern(1, length));
  ASSERT_TRUE(patiently(pair.a().tx()).ok());

  out.fill_pattern(2);
  ASSERT_EQ(
      fi_write(pair.a().ep(), out.data(), length, out.desc(), pair.a().peer, in.remote_address(), in.key(), &written),
      0);
  const Completion done = patiently(pair.a().tx());
  ASSERT_TRUE(done.ok()) << done;
  EXPECT_EQ(done.context(), &written);
  // A message follows the write: when it has arrived, so has the written data.
  expect_exchange(pair);
  EXPECT_TRUE(in.holds_pattern(2, length));
}

TEST_P(Integrity, StreamOfChunksInBothDirections) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Pair pair(fabric);
  constexpr size_t kDepth = 4;
  const size_t chunk = fabric.length_up_to(1 << 20);
  const size_t rounds = std::max<size_t>(volume() / 2 / chunk, kDepth);
  Buffer out(fabric, chunk);
  std::vector<std::unique_ptr<Buffer>> in[2];
  for (auto& side : in)
    for (size_t i = 0; i < kDepth; ++i) side.push_back(std::make_unique<Buffer>(fabric, chunk));
  out.fill_pattern(5);
  Context sent, received[2][kDepth];
  for (int side : {0, 1})
    for (size_t i = 0; i < kDepth; ++i) ASSERT_EQ(pair.node(side).recv(*in[side][i], chunk, &received[side][i]), 0);
  for (size_t round = 0; round < rounds; ++round) {
    const size_t at = round % kDepth;
    for (int side : {0, 1}) ASSERT_EQ(pair.node(side).send(out, chunk, &sent), 0);
    for (int side : {0, 1}) {
      const Completion arrival = patiently(pair.node(side).rx());
      ASSERT_EQ(arrival.context(), &received[side][at]) << round << ": " << arrival;
      ASSERT_TRUE(in[side][at]->holds_pattern(5, chunk)) << round;
      std::memset(in[side][at]->data(), 0, chunk);
      ASSERT_TRUE(patiently(pair.node(side).tx()).ok());
      ASSERT_EQ(pair.node(side).recv(*in[side][at], chunk, &received[side][at]), 0);
    }
  }
}

TEST_P(Integrity, BuffersOfUnequalLengthAreGatheredAndScattered) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Pair pair(fabric);
  const size_t limit = std::min(fabric.info()->tx_attr->iov_limit, fabric.info()->rx_attr->iov_limit);
  Buffer out(fabric, 1 << 16), in(fabric, 1 << 16);
  for (size_t total : {size_t{0}, size_t{1}, size_t{13}, size_t{64}, size_t{1000}, size_t{1} << 16}) {
    for (size_t count = 1; count <= limit; ++count) {
      // Empty pieces among them.
      std::vector<iovec> from, to;
      for (size_t i = 0, at = 0; i < count; ++i) {
        const size_t length = i + 1 == count ? total - at : i % 2 ? 0 : (total - at) / 2;
        from.push_back({out.data() + at, length});
        at += length;
      }
      for (size_t i = 0, at = 0; i < count; ++i) {
        const size_t length = i + 1 == count ? total - at : i % 2 ? (total - at) / 3 : 0;
        to.push_back({in.data() + at, length});
        at += length;
      }
      std::vector<void*> from_desc(count, out.desc()), to_desc(count, in.desc());
      Context sent, received;
      const auto seed = static_cast<unsigned>(total + count);
      out.fill_pattern(seed);
      std::memset(in.data(), 0, in.size());
      ASSERT_EQ(
          retry([&] { return fi_recvv(pair.b().ep(), to.data(), to_desc.data(), count, FI_ADDR_UNSPEC, &received); }),
          0);
      ASSERT_EQ(
          retry([&] { return fi_sendv(pair.a().ep(), from.data(), from_desc.data(), count, pair.a().peer, &sent); }),
          0);
      const Completion arrival = pair.b().rx().wait();
      ASSERT_TRUE(arrival.ok()) << total << " in " << count << ": " << arrival;
      EXPECT_EQ(arrival.entry.len, total);
      EXPECT_TRUE(in.holds_pattern(seed, total)) << total << " in " << count;
      ASSERT_TRUE(pair.a().tx().wait().ok());
    }
  }
}

// Many of them in one read from the network, so that one ends in the middle of the bytes read.
TEST_P(Integrity, ReceivesTakeNoMoreThanTheirMessage) {
  constexpr size_t kLength = 10'000, kCount = 40;
  Fabric fabric(target());
  const size_t length = fabric.length_up_to(kLength);
  Pair pair(fabric);
  expect_exchange(pair);
  Buffer out(fabric, length);
  out.fill_pattern(7);
  std::vector<std::unique_ptr<Buffer>> in;
  std::vector<Context> received(kCount), sent(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    in.push_back(std::make_unique<Buffer>(fabric, 2 * length, 'x'));
    ASSERT_EQ(pair.b().recv(*in.back(), 2 * length, &received[i]), 0);
  }
  for (Context& context : sent) {
    ssize_t rc;
    fi_cq_tagged_entry none;
    while ((rc = fi_send(pair.a().ep(), out.data(), length, out.desc(), pair.a().peer, &context)) == -FI_EAGAIN)
      fi_cq_read(pair.a().tx().get(), &none, 0);
    ASSERT_EQ(rc, 0);
  }
  for (size_t i = 0; i < kCount; ++i) {
    const Completion completion = pair.b().rx().wait();
    ASSERT_TRUE(completion.ok()) << completion << " message " << i;
    EXPECT_EQ(completion.entry.len, length);
    EXPECT_TRUE(in[i]->holds_pattern(7, length));
    EXPECT_EQ(in[i]->data()[length], 'x') << "message " << i;
  }
  for (size_t i = 0; i < kCount; ++i) ASSERT_TRUE(pair.a().tx().wait().ok());
}

}  // namespace integrity
