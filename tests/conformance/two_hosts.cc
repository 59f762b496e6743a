// SPDX-License-Identifier: BSD-2-Clause
// Two processes, on two hosts where fi_conform --peer names a server, else on this one: connections, messages, memory,
// and ends of connections; fi_cm(3), fi_msg(3), fi_tagged(3), fi_rma(3).
#include <rdma/fi_rma.h>

#include "two_hosts/parts.h"
#include "two_hosts/server.h"

namespace two_hosts {

CONFORMANCE_TOPIC(TwoHosts);

namespace {

constexpr auto kClient = End::Side::kClient;

Event after_request(Session& session, Node& node, std::string_view data) {
  require_ok(node.connect(from_line(session.control().hear()), data), "fi_connect");
  return node.eq().wait();
}

}  // namespace

TEST_P(TwoHosts, PrivateDataArrivesOnBothSides) {
  CONNECTED_ONLY();
  Session session(target(), "private_data");
  const Fabric fabric(target());
  Node node(fabric);
  const Event event = after_request(session, node, "question");
  EXPECT_EQ(event.type, FI_CONNECTED) << event;
  EXPECT_TRUE(event.cm_text().starts_with("answer")) << event.cm_text();
  session.control().say("seen");
  session.finish();
}

TEST_P(TwoHosts, RejectionArrivesWithItsData) {
  CONNECTED_ONLY();
  Session session(target(), "reject");
  const Fabric fabric(target());
  Node node(fabric);
  const Event event = after_request(session, node, "question");
  EXPECT_EQ(event.err, FI_ECONNREFUSED) << event;
  EXPECT_TRUE(std::string(event.err_data.begin(), event.err_data.end()).starts_with("busy")) << event;
  session.control().say("seen");
  session.finish();
}

TEST_P(TwoHosts, RequestWithoutAListenerIsRefused) {
  CONNECTED_ONLY();
  Session session(target(), "refuse");
  const Fabric fabric(target());
  Node node(fabric);
  const Event event = after_request(session, node, {});
  EXPECT_EQ(event.err, FI_ECONNREFUSED) << event;
  session.control().say("seen");
  session.finish();
}

TEST_P(TwoHosts, MessagesOfAllLengthsArriveBothWays) {
  if (target().ep_type == FI_EP_DGRAM) GTEST_SKIP() << "datagrams may be lost";
  Session session(target(), "messages");
  End end(target(), session.control(), kClient, kPlain);
  session.control().expect("posted");
  for (int i = 0; i < kMessages; ++i) {
    const size_t length = end.fabric().length_up_to(message_length(i));
    Buffer in(end.fabric(), length), out(end.fabric(), length);
    Context context;
    ASSERT_EQ(end.node().recv(in, length, &context), 0);
    end.send_pattern(out, length, static_cast<unsigned>(i));
    end.expect_pattern(in, length, static_cast<unsigned>(i) + kMessages);
  }
  session.control().say("seen");
  session.finish();
}

TEST_P(TwoHosts, MessagesArriveInTheirOrder) {
  if (target().ep_type == FI_EP_DGRAM) GTEST_SKIP() << "datagrams may be lost";
  Session session(target(), "stream");
  End end(target(), session.control(), kClient, kPlain);
  session.control().expect("posted");
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<Context> contexts(kAtOnce);
  for (int i = 0; i < kAtOnce; ++i) {
    buffers.push_back(std::make_unique<Buffer>(end.fabric(), kSize));
    buffers.back()->fill_pattern(static_cast<unsigned>(i));
    ASSERT_EQ(end.node().send(*buffers.back(), kSize, &contexts[static_cast<size_t>(i)]), 0);
  }
  for (int i = 0; i < kAtOnce; ++i) end.expect_sent();
  session.finish();
}

TEST_P(TwoHosts, TaggedMessagesFindTheirReceives) {
  NEEDS(kTagged, "FI_TAGGED");
  Session session(target(), "tags");
  End end(target(), session.control(), kClient, kTagged);
  session.control().expect("posted");
  Buffer first(end.fabric(), kSize), second(end.fabric(), kSize);
  Context contexts[2];
  first.fill_pattern(kFirstTag);
  second.fill_pattern(kSecondTag);
  ASSERT_EQ(end.node().tsend(first, kSize, kFirstTag, &contexts[0]), 0);
  ASSERT_EQ(end.node().tsend(second, kSize, kSecondTag, &contexts[1]), 0);
  end.expect_sent();
  end.expect_sent();
  session.finish();
}

TEST_P(TwoHosts, RemoteDataArrivesWithTheMessage) {
  if (target().ep_type == FI_EP_DGRAM) GTEST_SKIP() << "datagrams may be lost";
  NEEDS(with_remote_data, "completion data");
  Session session(target(), "data");
  End end(target(), session.control(), kClient, with_remote_data);
  session.control().expect("posted");
  Buffer out(end.fabric(), kSize);
  Context context;
  Node& node = end.node();
  ASSERT_EQ(retry([&] { return fi_senddata(node.ep(), out.data(), kSize, out.desc(), kData, node.peer, &context); }),
            0);
  end.expect_sent();
  session.control().say("seen");
  session.finish();
}

TEST_P(TwoHosts, RemoteMemoryIsReadAndWritten) {
  NEEDS(kRma, "FI_RMA");
  Session session(target(), "memory");
  End end(target(), session.control(), kClient, kRma);
  Node& node = end.node();
  Buffer local(end.fabric(), kRegion, 0, FI_READ | FI_WRITE);
  uint64_t base = 0, key = 0;
  ASSERT_EQ(std::sscanf(session.control().hear().c_str(), "%lu %lu", &base, &key), 2);
  Context context;
  ASSERT_EQ(
      retry([&] { return fi_read(node.ep(), local.data(), kRegion, local.desc(), node.peer, base, key, &context); }),
      0);
  end.expect_sent();
  EXPECT_TRUE(local.holds_pattern(1, kRegion));
  local.fill_pattern(2);
  // FI_DELIVERY_COMPLETE: once it completes, the bytes are in the peer's memory.
  const iovec from{local.data(), kRegion};
  const fi_rma_iov to{base, kRegion, key};
  void* desc = local.desc();
  fi_msg_rma message{};
  message.msg_iov = &from;
  message.desc = &desc;
  message.iov_count = 1;
  message.addr = node.peer;
  message.rma_iov = &to;
  message.rma_iov_count = 1;
  message.context = &context;
  ASSERT_EQ(retry([&] { return fi_writemsg(node.ep(), &message, FI_COMPLETION | FI_DELIVERY_COMPLETE); }), 0);
  end.expect_sent();
  session.control().say("written");
  session.finish();
}

TEST_P(TwoHosts, ShutdownReachesTheConnectingSide) {
  CONNECTED_ONLY();
  Session session(target(), "shut_down");
  End end(target(), session.control(), kClient, kPlain);
  session.control().say("ready");
  end.node().eq().expect(FI_SHUTDOWN, end.node().fid());
  session.control().say("seen");
  session.finish();
}

TEST_P(TwoHosts, ShutdownReachesTheAcceptingSide) {
  CONNECTED_ONLY();
  Session session(target(), "see_shutdown");
  End end(target(), session.control(), kClient, kPlain);
  session.control().expect("ready");
  ASSERT_EQ(fi_shutdown(end.node().ep(), 0), 0);
  session.finish();
}

TEST_P(TwoHosts, DeathOfThePeerEndsTheConnection) {
  CONNECTED_ONLY();
  Session session(target(), "die");
  End end(target(), session.control(), kClient, kPlain);
  session.control().say("ready");
  end.node().eq().expect(FI_SHUTDOWN, end.node().fid());
}

TEST_P(TwoHosts, DatagramArrivesWithEveryByte) {
  if (target().ep_type != FI_EP_DGRAM) GTEST_SKIP() << "FI_EP_DGRAM only";
  Session session(target(), "datagrams");
  End end(target(), session.control(), kClient, kPlain);
  session.control().expect("posted");
  Buffer out(end.fabric(), kSize);
  end.send_pattern(out, kSize, 5);
  session.finish();
}

}  // namespace two_hosts
