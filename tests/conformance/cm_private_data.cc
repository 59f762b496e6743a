// SPDX-License-Identifier: BSD-2-Clause
// Application data carried by fi_connect, fi_accept and fi_reject; NOTES of fi_cm(3), FI_OPT_CM_DATA_SIZE of
// fi_endpoint(3). "The length of any data returned may include protocol padding" (fi_eq(3)), so prefixes are compared.
#include "fixture/node.h"

namespace cm_private_data {

CONFORMANCE_TOPIC(CmPrivateData);

namespace {

size_t data_limit(fid_t fid) {
  size_t limit = 0, size = sizeof limit;
  require_ok(fi_getopt(fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &limit, &size), "fi_getopt");
  return limit;
}

std::string wakeups(size_t count) {
  std::string text(count, ' ');
  for (size_t i = 0; i < count; ++i) text[i] = static_cast<char>('a' + i % 26);
  return text;
}

std::string prefix(const std::vector<char>& data, size_t length) {
  return {data.begin(), data.begin() + static_cast<ptrdiff_t>(std::min(length, data.size()))};
}

// A listener and an endpoint that has sent a request with `data`.
struct Asked {
  explicit Asked(const Target& target, std::string_view data = {}) : fabric(target), listener(fabric), client(fabric) {
    require_ok(client.connect(listener.address(), data), "fi_connect");
    request = listener.next_request(&received);
  }
  Fabric fabric;
  Listener listener;
  Node client;
  InfoPtr request;
  std::vector<char> received;
};

}  // namespace

TEST_P(CmPrivateData, LimitIsReportedOnActiveAndPassiveEndpoints) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Listener listener(fabric);
  Node node(fabric);
  for (fid_t fid : {listener.fid(), node.fid()}) {
    size_t limit = 0, size = sizeof limit;
    EXPECT_EQ(fi_getopt(fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &limit, &size), 0);
    EXPECT_EQ(size, sizeof(size_t));
    EXPECT_GE(limit, 24u) << "layered providers exchange that much";
    if (speaks_tcp()) {
      EXPECT_EQ(limit, 256u);
    }
  }
}

TEST_P(CmPrivateData, LimitNeedsRoomAndIsReadOnly) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Node node(fabric);
  size_t limit = 0, small = sizeof limit - 1;
  EXPECT_EQ(fi_getopt(node.fid(), FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &limit, &small), -FI_ETOOSMALL);
  EXPECT_LT(fi_setopt(node.fid(), FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &limit, sizeof limit), 0);
  EXPECT_GE(data_limit(node.fid()), 24u);
}

TEST_P(CmPrivateData, RequestDataArrivesWithTheConnectionRequest) {
  CONNECTED_ONLY();
  Asked scene(target(), "for the server");
  EXPECT_EQ(prefix(scene.received, 14), "for the server");
  if (speaks_tcp()) {
    EXPECT_EQ(scene.received.size(), 14u);
  }
}

TEST_P(CmPrivateData, RequestWithoutDataHasNone) {
  CONNECTED_ONLY();
  Asked scene(target());
  if (speaks_tcp()) {
    EXPECT_EQ(scene.received.size(), 0u);
  }
}

TEST_P(CmPrivateData, AcceptDataArrivesWithConnectedOfTheClientOnly) {
  CONNECTED_ONLY();
  Asked scene(target(), "question");
  Node answerer(scene.fabric, {}, scene.request.get());
  ASSERT_EQ(answerer.accept("the answer"), 0);
  const Event of_client = scene.client.eq().expect(FI_CONNECTED, scene.client.fid());
  EXPECT_EQ(prefix(of_client.cm_data, 10), "the answer");
  if (speaks_tcp()) {
    EXPECT_EQ(of_client.cm_data.size(), 10u);
  }
  const Event of_answerer = answerer.eq().expect(FI_CONNECTED, answerer.fid());
  EXPECT_TRUE(of_answerer.cm_data.empty()) << "user data is not provided on the listening side";
}

TEST_P(CmPrivateData, RejectDataArrivesInErrData) {
  CONNECTED_ONLY();
  Asked scene(target());
  ASSERT_EQ(fi_reject(scene.listener.pep(), scene.request->handle, "too busy", 8), 0);
  const Event event = scene.client.eq().expect(Event::kError, scene.client.fid());
  EXPECT_EQ(event.err, FI_ECONNREFUSED);
  EXPECT_EQ(prefix(event.err_data, 8), "too busy");
  if (speaks_tcp()) {
    EXPECT_EQ(event.err_data.size(), 8u);
  }
}

TEST_P(CmPrivateData, DataUpToTheLimitArrivesWhole) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Listener listener(fabric);
  Node client(fabric);
  const std::string full = wakeups(data_limit(client.fid()));
  ASSERT_EQ(client.connect(listener.address(), full), 0);
  std::vector<char> received;
  const InfoPtr request = listener.next_request(&received);
  EXPECT_EQ(prefix(received, full.size()), full);
  Node answerer(fabric, {}, request.get());
  ASSERT_EQ(answerer.accept(full), 0);
  EXPECT_EQ(prefix(client.eq().expect(FI_CONNECTED, client.fid()).cm_data, full.size()), full);
  expect_round_trip(client, answerer);
}

TEST_P(CmPrivateData, OversizeRequestDataIsTruncatedSilently) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Listener listener(fabric);
  Node client(fabric);
  const size_t limit = data_limit(client.fid());
  for (size_t size : {limit + 1, size_t{5000}}) {
    Node oversize(fabric);
    const std::string text = wakeups(size);
    ASSERT_EQ(oversize.connect(listener.address(), text), 0);
    std::vector<char> received;
    const InfoPtr request = listener.next_request(&received);
    EXPECT_EQ(received.size(), data_limit(listener.fid()));
    EXPECT_EQ(prefix(received, limit), text.substr(0, limit));
  }
}

TEST_P(CmPrivateData, OversizeAcceptDataIsTruncatedSilently) {
  CONNECTED_ONLY();
  Asked scene(target());
  Node answerer(scene.fabric, {}, scene.request.get());
  const size_t limit = data_limit(answerer.fid());
  const std::string text = wakeups(limit + 300);
  ASSERT_EQ(answerer.accept(text), 0);
  const Event event = scene.client.eq().expect(FI_CONNECTED, scene.client.fid());
  EXPECT_EQ(prefix(event.cm_data, limit), text.substr(0, limit));
  expect_round_trip(scene.client, answerer);
}

TEST_P(CmPrivateData, OversizeRejectDataIsTruncatedSilently) {
  CONNECTED_ONLY();
  Asked scene(target());
  const size_t limit = data_limit(scene.listener.fid());
  const std::string text = wakeups(limit + 300);
  ASSERT_EQ(fi_reject(scene.listener.pep(), scene.request->handle, text.data(), text.size()), 0);
  const Event event = scene.client.eq().expect(Event::kError, scene.client.fid());
  EXPECT_EQ(event.err, FI_ECONNREFUSED);
  EXPECT_EQ(prefix(event.err_data, limit), text.substr(0, limit));
}

TEST_P(CmPrivateData, DataIsLimitedToTheBufferOfTheReader) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Listener listener(fabric);
  Node client(fabric);
  ASSERT_EQ(client.connect(listener.address(), "0123456789"), 0);
  alignas(8) char bytes[sizeof(fi_eq_cm_entry) + 8];
  std::memset(bytes, '#', sizeof bytes);
  uint32_t type = 0;
  ssize_t rc = -FI_EAGAIN;
  for (const auto deadline = after(kPatience); rc == -FI_EAGAIN && Clock::now() < deadline;) {
    rc = fi_eq_read(listener.eq().get(), &type, bytes, sizeof(fi_eq_cm_entry) + 4, 0);
    if (rc == -FI_EAGAIN) client.eq().read();
  }
  ASSERT_EQ(rc, static_cast<ssize_t>(sizeof(fi_eq_cm_entry) + 4));
  EXPECT_EQ(type, static_cast<uint32_t>(FI_CONNREQ));
  const auto* entry = reinterpret_cast<const fi_eq_cm_entry*>(bytes);
  InfoPtr info(entry->info);
  EXPECT_EQ(std::string(bytes + sizeof *entry, 8), "0123####");
}

TEST_P(CmPrivateData, BytesAreCarriedUnchanged) {
  CONNECTED_ONLY();
  std::string every_byte(24, '\0');
  for (size_t i = 0; i < every_byte.size(); ++i) every_byte[i] = static_cast<char>(i * 11);
  Asked scene(target(), every_byte);
  EXPECT_EQ(prefix(scene.received, every_byte.size()), every_byte);
  ASSERT_EQ(fi_reject(scene.listener.pep(), scene.request->handle, every_byte.data(), every_byte.size()), 0);
  EXPECT_EQ(prefix(scene.client.eq().wait().err_data, every_byte.size()), every_byte);
}

}  // namespace cm_private_data
