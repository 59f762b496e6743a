// SPDX-License-Identifier: BSD-2-Clause
// The end of a registration while peers access it: a transfer belongs to the registration that granted it, not to its
// key. When fi_close(mr) has returned, the memory may be freed, and the key may be that of another region; fi_mr(3).
#include <rdma/fi_rma.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "fixture/driver.h"
#include "fixture/waiting_work.h"

namespace closed_regions {

CONFORMANCE_TOPIC(ClosedRegions);

namespace {

const HintsEditor kRma = [](fi_info& hints) { hints.caps = FI_MSG | FI_RMA; };
const HintsEditor kDeferredRma = [](fi_info& hints) { hints.caps = FI_MSG | FI_RMA | FI_TRIGGER; };
constexpr size_t kLong = size_t{32} << 20;  // many rounds of progress
constexpr uint64_t kRemote = FI_REMOTE_READ | FI_REMOTE_WRITE;
constexpr uint64_t kKey = 4711;

bool all_are(const char* bytes, size_t size, char byte) {
  return bytes[0] == byte && std::memcmp(bytes, bytes + 1, size - 1) == 0;
}

// Memory that peers access, under a key that is used again where the application may choose it.
struct Exposed {
  Exposed(const Fabric& fabric, size_t size, char fill)
      : bytes(size, fill), mr(opened<fid_mr>("fi_mr_reg", [&](fid_mr** region) {
          return fi_mr_reg(fabric.domain(), bytes.data(), size, kRemote, 0, kKey, 0, region, nullptr);
        })) {}
  uint64_t address(const Fabric& fabric) const {
    const bool is_virtual = fabric.has(FI_MR_VIRT_ADDR) || fabric.has(FI_MR_BASIC);
    return is_virtual ? reinterpret_cast<uintptr_t>(bytes.data()) : 0;
  }
  bool holds_only(char byte) const { return all_are(bytes.data(), bytes.size(), byte); }
  std::vector<char> bytes;
  Handle<fid_mr> mr;
};

// A long transfer between a pair, stopped somewhere in the middle: nobody drives the queues.
struct Scene {
  Scene(const Target& target, bool reads, bool deferred = false, uint64_t flags = 0)
      : is_read(reads),
        fabric(target, deferred ? kDeferredRma : kRma),
        bystanders(fabric),
        pair(fabric),
        local(fabric, fabric.length_up_to(kLong), 'l', FI_READ | FI_WRITE),
        remote(fabric, local.size(), 'r') {
    Node& a = pair.a();
    const uint64_t at = remote.address(fabric), key = fi_mr_key(remote.mr.get());
    if (deferred) {
      trigger = open_counter(fabric);
      work.emplace(a, is_read, local, at, key, &context);
      require_ok(work->queue(fabric, trigger.get(), 0, nullptr), "FI_QUEUE_WORK");
    } else if (flags != 0) {
      const iovec from{local.data(), local.size()};
      const fi_rma_iov to{at, local.size(), key};
      void* desc = local.desc();
      const fi_msg_rma write{&from, &desc, 1, a.peer, &to, 1, &context, 4711};
      require_ok(static_cast<int>(retry([&] { return fi_writemsg(a.ep(), &write, flags); })), "fi_writemsg");
    } else {
      require_ok(static_cast<int>(retry([&] {
                   return is_read
                              ? fi_read(a.ep(), local.data(), local.size(), local.desc(), a.peer, at, key, &context)
                              : fi_write(a.ep(), local.data(), local.size(), local.desc(), a.peer, at, key, &context);
                 })),
                 "fi_read or fi_write");
    }
    // Where a device or a fake transfers everything at once, the transfer is over before the close.
    const auto limit = after(kPatience);
    while (!under_way() && !over() && Clock::now() < limit) outcome = a.tx().read();
  }
  char* destination() { return is_read ? local.data() : remote.bytes.data(); }
  char fresh() const { return is_read ? 'r' : 'l'; }
  bool under_way() {
    return destination()[0] == fresh() && destination()[local.size() - 1] != fresh() && outcome.rc == -FI_EAGAIN;
  }
  bool over() { return outcome.rc != -FI_EAGAIN; }
  // The transfer's only completion.
  const Completion& end() {
    if (!over()) outcome = pair.a().tx().wait();
    EXPECT_EQ(outcome.context(), &context) << outcome;
    return outcome;
  }

  const bool is_read;
  Fabric fabric;
  Handle<fid_cntr> trigger;
  std::optional<DeferredAccess> work;
  Pair bystanders, pair;
  Buffer local;
  Exposed remote;
  Context context;
  Completion outcome;
};

bool is_tcp(const Target& target) {
  return target.provider.starts_with("tcp");
}

void expect_region_is_left(const Target& target, bool is_read, bool deferred = false) {
  Scene scene(target, is_read, deferred);
  const bool under_way = scene.under_way();
  if (is_tcp(target)) {
    ASSERT_TRUE(under_way) << "the transfer cannot be stopped in the middle";
  }
  scene.remote.mr.reset();
  std::fill(scene.remote.bytes.begin(), scene.remote.bytes.end(), 'o');  // as if it had been freed and used again
  Exposed next(scene.fabric, scene.local.size(), 'n');
  const Completion& end = scene.end();
  if (under_way) {
    EXPECT_NE(end.err(), 0) << end;
  }
  expect_exchange(scene.bystanders);
  EXPECT_TRUE(scene.remote.holds_only('o')) << "written after fi_close returned";
  EXPECT_TRUE(next.holds_only('n')) << "a transfer of the former registration";
  for (const char later : {'o', 'n'})
    EXPECT_EQ(std::memchr(scene.local.data(), later, scene.local.size()), nullptr) << "read after fi_close returned";
  if (!under_way) return;
  if (!is_tcp(target) && target.connected()) {  // a refused access breaks a device's queue pair
    scene.pair.b().eq().expect(FI_SHUTDOWN, scene.pair.b().fid());
    return;
  }
  // ofi_rxm connects again over a device, once both ends have noticed that the old connection has ended.
  EXPECT_TRUE(scene.pair.b().rx().stays_silent(milliseconds(100)));
  expect_exchange(scene.pair);
}

// Messages of both directions that were posted behind the transfer, of which only the transfer fails.
void expect_messages_arrive(const Target& target, bool is_read, uint64_t flags = 0) {
  if (!is_tcp(target)) GTEST_SKIP() << "the refused access breaks a device's queue pair";
  Scene scene(target, is_read, false, flags);
  if (!scene.under_way()) GTEST_SKIP() << "the transfer cannot be stopped in the middle";
  constexpr int kMessages = 4;
  constexpr size_t kSize = 4096;
  Node* const nodes[] = {&scene.pair.a(), &scene.pair.b()};
  std::vector<std::unique_ptr<Buffer>> sent, received;
  std::vector<Context> sends(2 * kMessages), receives(2 * kMessages);
  for (size_t i = 0; i < sends.size(); ++i) {
    Node &from = *nodes[i % 2], &to = *nodes[1 - i % 2];
    sent.push_back(std::make_unique<Buffer>(scene.fabric, kSize, static_cast<char>('A' + i)));
    received.push_back(std::make_unique<Buffer>(scene.fabric, kSize));
    Buffer &out = *sent.back(), &in = *received.back();
    ASSERT_EQ(fi_recv(to.ep(), in.data(), kSize, in.desc(), FI_ADDR_UNSPEC, &receives[i]), 0);
    ASSERT_EQ(fi_send(from.ep(), out.data(), kSize, out.desc(), from.peer, &sends[i]), 0);
  }
  ASSERT_TRUE(scene.under_way());
  scene.remote.mr.reset();
  std::fill(scene.remote.bytes.begin(), scene.remote.bytes.end(), 'o');
  for (int i = 0; i <= kMessages; ++i) {
    const Completion completion = scene.pair.a().tx().wait();
    if (completion.context() == &scene.context)
      EXPECT_EQ(completion.err(), FI_EACCES) << completion;
    else
      EXPECT_TRUE(completion.ok()) << completion;
  }
  for (int i = 0; i < kMessages; ++i) {
    EXPECT_TRUE(scene.pair.b().tx().wait().ok());
    EXPECT_TRUE(scene.pair.a().rx().wait().ok());
    EXPECT_TRUE(scene.pair.b().rx().wait().ok());
  }
  for (size_t i = 0; i < sends.size(); ++i)
    EXPECT_TRUE(all_are(received[i]->data(), kSize, static_cast<char>('A' + i))) << i;
  EXPECT_TRUE(scene.remote.holds_only('o')) << "written after fi_close returned";
  for (Node* node : nodes) {
    EXPECT_TRUE(node->tx().stays_silent(milliseconds(20)));
    EXPECT_TRUE(node->rx().stays_silent(milliseconds(20)));
    EXPECT_TRUE(node->eq().stays_silent(milliseconds(20)));
  }
}

void expect_transfer_survives(const Target& target, bool is_read) {
  Scene scene(target, is_read);
  for (int i = 0; i < 3; ++i) {
    Buffer another(scene.fabric, 64, 'a', kRemote);
    if (!scene.over()) scene.outcome = scene.pair.a().tx().read();
  }
  EXPECT_TRUE(scene.end().ok()) << scene.outcome;
  if (!is_read) expect_exchange(scene.pair);  // the write has arrived
  EXPECT_TRUE(all_are(scene.destination(), scene.local.size(), scene.fresh()));
}

}  // namespace

TEST_P(ClosedRegions, WriteUnderWayEndsWithTheRegistration) {
  NEEDS(kRma, "FI_RMA");
  expect_region_is_left(target(), false);
}

TEST_P(ClosedRegions, ReadUnderWayEndsWithTheRegistration) {
  NEEDS(kRma, "FI_RMA");
  expect_region_is_left(target(), true);
}

TEST_P(ClosedRegions, MessagesBehindAWriteUnderWayArrive) {
  NEEDS(kRma, "FI_RMA");
  expect_messages_arrive(target(), false);
}

TEST_P(ClosedRegions, MessagesBehindAReadUnderWayArrive) {
  NEEDS(kRma, "FI_RMA");
  expect_messages_arrive(target(), true);
}

TEST_P(ClosedRegions, RefusedWriteIsNotDeliveredAndItsDataIsNotReported) {
  NEEDS(kRma, "FI_RMA");
  expect_messages_arrive(target(), false, FI_COMPLETION | FI_DELIVERY_COMPLETE | FI_REMOTE_CQ_DATA);
}

TEST_P(ClosedRegions, WriteOfDeferredWorkUnderWayEndsWithTheRegistration) {
  NEEDS_TRIGGERS(kDeferredRma);
  expect_region_is_left(target(), false, true);
}

TEST_P(ClosedRegions, ReadOfDeferredWorkUnderWayEndsWithTheRegistration) {
  NEEDS_TRIGGERS(kDeferredRma);
  expect_region_is_left(target(), true, true);
}

TEST_P(ClosedRegions, DeferredAccessThatStartsLaterFails) {
  NEEDS_TRIGGERS(kDeferredRma);
  for (const bool is_read : {false, true}) {
    TriggeredPair scene(target(), kDeferredRma);
    expect_exchange(scene.pair);
    Buffer local(scene.fabric, 4096, 'l', FI_READ | FI_WRITE);
    Exposed remote(scene.fabric, local.size(), 'r');
    Context context;
    DeferredAccess access(scene.a(), is_read, local, remote.address(scene.fabric), fi_mr_key(remote.mr.get()),
                          &context);
    ASSERT_EQ(access.queue(scene.fabric, scene.trigger.get(), 1, scene.done.get()), 0);
    remote.mr.reset();
    std::fill(remote.bytes.begin(), remote.bytes.end(), 'o');
    ASSERT_EQ(fi_cntr_add(scene.trigger.get(), 1), 0);
    const Completion failed = scene.a().tx().wait();
    EXPECT_NE(failed.err(), 0) << failed;
    EXPECT_EQ(failed.context(), &context);
    EXPECT_TRUE(error_reaches(scene.done.get(), 1));
    EXPECT_TRUE(remote.holds_only('o')) << "accessed after fi_close returned";
    EXPECT_TRUE(all_are(local.data(), local.size(), 'l'));
  }
}

TEST_P(ClosedRegions, TransferContinuesWhenOtherRegionsAreClosed) {
  NEEDS(kRma, "FI_RMA");
  expect_transfer_survives(target(), false);
  expect_transfer_survives(target(), true);
}

}  // namespace closed_regions
