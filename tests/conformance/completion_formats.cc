// SPDX-License-Identifier: BSD-2-Clause
// The fields of a completion, in each format; COMPLETION FIELDS and COMPLETION FLAGS of fi_cq(3).
#include <rdma/fi_rma.h>

#include "fixture/driver.h"
#include "fixture/node.h"

namespace completion_formats {

CONFORMANCE_TOPIC(CompletionFormats);

namespace {

// Reads `count` entries of any format, driving both ends.
ssize_t read_some(CompletionQueue& cq, void* entries, size_t count) {
  const auto deadline = after(kPatience);
  ssize_t rc = -FI_EAGAIN;
  while ((rc = fi_cq_read(cq.get(), entries, count)) == -FI_EAGAIN && Clock::now() < deadline) driver::poke_and_rest();
  return rc;
}

NodeOptions in_format(fi_cq_format format) {
  NodeOptions options;
  options.tx_cq.format = options.rx_cq.format = format;
  return options;
}

// Two messages have been sent and received; the completions wait in queues of the given format.
struct TwoMessages {
  TwoMessages(const Target& target, fi_cq_format format)
      : fabric(target), pair(fabric, in_format(format)), out(fabric, 100), in{{fabric, 100}, {fabric, 100}} {
    for (int i = 0; i < 2; ++i) require_ok(pair.b().recv(in[i], 100, &received[i]), "fi_recv");
    for (int i = 0; i < 2; ++i) require_ok(pair.a().send(out, 10u + static_cast<size_t>(i), &sent[i]), "fi_send");
  }
  Fabric fabric;
  Pair pair;
  Buffer out, in[2];
  Context sent[2], received[2];
};

template <class Entry, class Check>
void expect_entries(CompletionQueue& cq, Context (&contexts)[2], Check check) {
  for (int i = 0; i < 2; ++i) {
    Entry guarded[2];
    std::memset(static_cast<void*>(guarded), 0x5a, sizeof guarded);
    ASSERT_EQ(read_some(cq, guarded, 1), 1);
    EXPECT_EQ(guarded[0].op_context, &contexts[i]);
    check(guarded[0], i);
    Entry untouched;
    std::memset(static_cast<void*>(&untouched), 0x5a, sizeof untouched);
    EXPECT_EQ(std::memcmp(&guarded[1], &untouched, sizeof untouched), 0) << "wrote beyond one entry";
  }
}

constexpr uint64_t kSendFlags = FI_MSG | FI_SEND;
constexpr uint64_t kRecvFlags = FI_MSG | FI_RECV;

}  // namespace

TEST_P(CompletionFormats, ContextFormatGivesTheContext) {
  TwoMessages scene(target(), FI_CQ_FORMAT_CONTEXT);
  expect_entries<fi_cq_entry>(scene.pair.b().rx(), scene.received, [](const fi_cq_entry&, int) {});
  expect_entries<fi_cq_entry>(scene.pair.a().tx(), scene.sent, [](const fi_cq_entry&, int) {});
}

TEST_P(CompletionFormats, MsgFormatAddsFlagsAndLength) {
  TwoMessages scene(target(), FI_CQ_FORMAT_MSG);
  expect_entries<fi_cq_msg_entry>(scene.pair.b().rx(), scene.received, [](const fi_cq_msg_entry& entry, int i) {
    EXPECT_EQ(entry.flags & kRecvFlags, kRecvFlags);
    EXPECT_EQ(entry.len, 10u + static_cast<size_t>(i));
  });
  expect_entries<fi_cq_msg_entry>(scene.pair.a().tx(), scene.sent, [](const fi_cq_msg_entry& entry, int) {
    EXPECT_EQ(entry.flags & kSendFlags, kSendFlags);
    EXPECT_FALSE(entry.flags & FI_RECV);
  });
}

TEST_P(CompletionFormats, DataFormatAddsRemoteData) {
  TwoMessages scene(target(), FI_CQ_FORMAT_DATA);
  expect_entries<fi_cq_data_entry>(scene.pair.b().rx(), scene.received, [](const fi_cq_data_entry& entry, int i) {
    EXPECT_EQ(entry.flags & kRecvFlags, kRecvFlags);
    EXPECT_FALSE(entry.flags & FI_REMOTE_CQ_DATA);
    EXPECT_EQ(entry.len, 10u + static_cast<size_t>(i));
  });
  if (!Fabric::offers(target(), with_remote_data)) return;
  Context sent, received;
  ASSERT_EQ(scene.pair.b().recv(scene.in[0], 100, &received), 0);
  ASSERT_EQ(retry([&] {
              return fi_senddata(scene.pair.a().ep(), scene.out.data(), 5, scene.out.desc(), 0x1122334455667788,
                                 scene.pair.a().peer, &sent);
            }),
            0);
  fi_cq_data_entry entry{};
  ASSERT_EQ(read_some(scene.pair.b().rx(), &entry, 1), 1);
  EXPECT_TRUE(entry.flags & FI_REMOTE_CQ_DATA);
  EXPECT_EQ(entry.data, scene.fabric.carried(0x1122334455667788u)) << "in host byte order";
  EXPECT_EQ(entry.len, 5u);
}

TEST_P(CompletionFormats, TaggedFormatIsTheWidest) {
  TwoMessages scene(target(), FI_CQ_FORMAT_TAGGED);
  expect_entries<fi_cq_tagged_entry>(scene.pair.b().rx(), scene.received, [](const fi_cq_tagged_entry& entry, int i) {
    EXPECT_EQ(entry.flags & kRecvFlags, kRecvFlags);
    EXPECT_FALSE(entry.flags & FI_TAGGED);
    EXPECT_EQ(entry.len, 10u + static_cast<size_t>(i));
  });
}

TEST_P(CompletionFormats, UnspecifiedFormatIsChosenByTheProvider) {
  Fabric fabric(target());
  fi_cq_attr attr{};
  attr.format = FI_CQ_FORMAT_UNSPEC;
  const auto cq =
      opened<fid_cq>("fi_cq_open", [&](fid_cq** q) { return fi_cq_open(fabric.domain(), &attr, q, nullptr); });
  EXPECT_TRUE(cq);
}

TEST_P(CompletionFormats, SeveralEntriesAreReadAtOnce) {
  Fabric fabric(target());
  Pair pair(fabric);
  constexpr size_t kCount = 8;
  Buffer buffer(fabric, 64);
  Context received[kCount], sent[kCount];
  for (Context& context : received) ASSERT_EQ(pair.b().recv(buffer, 64, &context), 0);
  for (Context& context : sent) ASSERT_EQ(pair.a().send(buffer, 8, &context), 0);
  fi_cq_tagged_entry entries[kCount + 1]{};
  size_t total = 0;
  while (total < kCount) {
    const ssize_t rc = read_some(pair.b().rx(), entries + total, kCount + 1 - total);
    ASSERT_GT(rc, 0);
    total += static_cast<size_t>(rc);
  }
  ASSERT_EQ(total, kCount);
  for (size_t i = 0; i < kCount; ++i) EXPECT_EQ(entries[i].op_context, &received[i]) << "in the order posted";
}

TEST_P(CompletionFormats, SourceAddressIsNotAvailableOnConnectedEndpoints) {
  CONNECTED_ONLY();
  TwoMessages scene(target(), FI_CQ_FORMAT_TAGGED);
  const auto deadline = after(kPatience);
  fi_cq_tagged_entry entry{};
  fi_addr_t source = 0;
  ssize_t rc = -FI_EAGAIN;
  while ((rc = fi_cq_readfrom(scene.pair.b().rx().get(), &entry, 1, &source)) == -FI_EAGAIN && Clock::now() < deadline)
    driver::poke_and_rest();
  ASSERT_EQ(rc, 1);
  EXPECT_EQ(source, FI_ADDR_NOTAVAIL);
}

TEST_P(CompletionFormats, CountOfZeroOnlyDrivesProgress) {
  TwoMessages scene(target(), FI_CQ_FORMAT_TAGGED);
  for (int i = 0; i < 50; ++i) {
    const ssize_t rc = fi_cq_read(scene.pair.b().rx().get(), nullptr, 0);
    EXPECT_TRUE(rc == 0 || rc == -FI_EAGAIN) << rc;
    fi_cq_read(scene.pair.a().tx().get(), nullptr, 0);
  }
  for (Context& context : scene.received) EXPECT_EQ(scene.pair.b().rx().wait().context(), &context);
}

}  // namespace completion_formats
