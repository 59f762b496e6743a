// SPDX-License-Identifier: BSD-2-Clause
// Aliases: other handles of one endpoint, with default flags of their own; fi_ep_alias of fi_endpoint(3).
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#include "fixture/driver.h"
#include "fixture/node.h"

namespace aliases {

CONFORMANCE_TOPIC(Aliases);

namespace {

constexpr size_t kSize = 100;

// A pair whose queues report operations with FI_COMPLETION only.
NodeOptions selective() {
  NodeOptions options;
  options.tx_flags = options.rx_flags = FI_SELECTIVE_COMPLETION;
  return options;
}

struct Scene {
  explicit Scene(const Target& target, const HintsEditor& hints = {})
      : fabric(target, hints), pair(fabric, selective()), in(fabric, kSize), out(fabric, kSize) {
    out.fill_pattern(5);
  }
  Handle<fid_ep> alias(Node& node, uint64_t flags) {
    fid_ep* alias = nullptr;
    EXPECT_EQ(fi_ep_alias(node.ep(), &alias, flags), 0);
    return Handle<fid_ep>(alias);
  }
  void expect_received() {
    const Completion arrival = pair.b().rx().wait();
    ASSERT_TRUE(arrival.ok()) << arrival;
    EXPECT_EQ(arrival.context(), &received);
    EXPECT_TRUE(in.holds_pattern(5, arrival.entry.len));
    std::memset(in.data(), 0, kSize);
  }
  void expect_sent() {
    const Completion completion = pair.a().tx().wait();
    ASSERT_TRUE(completion.ok()) << completion;
    EXPECT_EQ(completion.context(), &sent);
  }

  Fabric fabric;
  Pair pair;
  Buffer in, out;
  Context sent, received;
};

}  // namespace

TEST_P(Aliases, DefaultFlagsAreTheAliasesOwn) {
  Scene scene(target());
  const auto sender = scene.alias(scene.pair.a(), FI_TRANSMIT | FI_COMPLETION);
  const auto receiver = scene.alias(scene.pair.b(), FI_RECV | FI_COMPLETION);
  const fi_addr_t peer = scene.pair.a().peer;
  const iovec from{scene.out.data(), kSize}, to{scene.in.data(), kSize};
  void *from_desc = scene.out.desc(), *to_desc = scene.in.desc();
  const std::function<ssize_t()> sends[] = {
      [&] { return fi_send(sender.get(), from.iov_base, kSize, from_desc, peer, &scene.sent); },
      [&] { return fi_sendv(sender.get(), &from, &from_desc, 1, peer, &scene.sent); }};
  const std::function<ssize_t()> receives[] = {
      [&] { return fi_recv(receiver.get(), to.iov_base, kSize, to_desc, FI_ADDR_UNSPEC, &scene.received); },
      [&] { return fi_recvv(receiver.get(), &to, &to_desc, 1, FI_ADDR_UNSPEC, &scene.received); }};
  for (int i : {0, 1}) {
    ASSERT_EQ(retry(receives[i]), 0);
    // The endpoint itself reports nothing, so the next completion is the alias's.
    ASSERT_EQ(retry(sends[i]), 0);
    scene.expect_received();
    scene.expect_sent();
    ASSERT_EQ(scene.pair.b().recv(scene.in, kSize, nullptr), 0);
    ASSERT_EQ(scene.pair.a().send(scene.out, kSize, nullptr), 0);
  }
}

TEST_P(Aliases, InjectedMessagesGiveNoCompletion) {
  Scene scene(target());
  const auto sender = scene.alias(scene.pair.a(), FI_TRANSMIT | FI_COMPLETION);
  const auto receiver = scene.alias(scene.pair.b(), FI_RECV | FI_COMPLETION);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(retry([&] {
                return fi_recv(receiver.get(), scene.in.data(), kSize, scene.in.desc(), FI_ADDR_UNSPEC,
                               &scene.received);
              }),
              0);
    ASSERT_EQ(retry([&] { return fi_inject(sender.get(), scene.out.data(), 30, scene.pair.a().peer); }), 0);
    scene.expect_received();
  }
  if (Fabric::offers(target(), with_remote_data)) {
    Scene data(target(), with_remote_data);
    const auto injecting = data.alias(data.pair.a(), FI_TRANSMIT | FI_COMPLETION);
    const auto receiving = data.alias(data.pair.b(), FI_RECV | FI_COMPLETION);
    ASSERT_EQ(retry([&] {
                return fi_recv(receiving.get(), data.in.data(), kSize, data.in.desc(), FI_ADDR_UNSPEC, &data.received);
              }),
              0);
    ASSERT_EQ(retry([&] { return fi_injectdata(injecting.get(), data.out.data(), 30, 77, data.pair.a().peer); }), 0);
    const Completion arrival = data.pair.b().rx().wait();
    EXPECT_EQ(arrival.entry.data, 77u) << arrival;
  }
  ASSERT_EQ(scene.pair.b().recv(scene.in, kSize, nullptr), 0);
  ASSERT_EQ(retry([&] {
              return fi_send(sender.get(), scene.out.data(), kSize, scene.out.desc(), scene.pair.a().peer, &scene.sent);
            }),
            0);
  scene.expect_sent();
}

TEST_P(Aliases, FlagsAreInheritedSetAndRead) {
  const HintsEditor completing = [](fi_info& hints) { hints.tx_attr->op_flags = FI_COMPLETION; };
  Scene scene(target(), completing);
  const auto alias = scene.alias(scene.pair.a(), FI_RECV);
  uint64_t flags = FI_TRANSMIT;
  ASSERT_EQ(fi_control(&alias->fid, FI_GETOPSFLAG, &flags), 0);
  EXPECT_EQ(flags, FI_COMPLETION) << "the endpoint's";
  flags = FI_RECV;
  ASSERT_EQ(fi_control(&alias->fid, FI_GETOPSFLAG, &flags), 0);
  EXPECT_EQ(flags, 0U) << "the call's";
  flags = FI_TRANSMIT;
  ASSERT_EQ(fi_control(&alias->fid, FI_SETOPSFLAG, &flags), 0);
  flags = FI_TRANSMIT;
  ASSERT_EQ(fi_control(scene.pair.a().fid(), FI_GETOPSFLAG, &flags), 0);
  EXPECT_EQ(flags, FI_COMPLETION) << "the endpoint keeps its own";
  fid_ep* second = nullptr;
  ASSERT_EQ(fi_ep_alias(alias.get(), &second, FI_RECV | FI_COMPLETION), 0) << "an alias of an alias";
  const Handle<fid_ep> owner(second);
  flags = FI_TRANSMIT;
  ASSERT_EQ(fi_control(&second->fid, FI_GETOPSFLAG, &flags), 0);
  EXPECT_EQ(flags, 0U);
}

TEST_P(Aliases, ExactlyOneDirectionIsNamed) {
  Scene scene(target());
  fid_ep* alias = nullptr;
  for (const uint64_t flags : {uint64_t{0}, uint64_t{FI_COMPLETION}, uint64_t{FI_TRANSMIT | FI_RECV}})
    EXPECT_EQ(fi_ep_alias(scene.pair.a().ep(), &alias, flags), -FI_EINVAL) << flags;
  EXPECT_EQ(fi_control(scene.pair.a().fid(), FI_ALIAS, nullptr), -FI_EINVAL);
  EXPECT_EQ(alias, nullptr);
}

TEST_P(Aliases, EndpointIsBusyWhileAnAliasIsOpen) {
  Fabric fabric(target());
  Node node(fabric);
  fid_ep* alias = nullptr;
  ASSERT_EQ(fi_ep_alias(node.ep(), &alias, FI_TRANSMIT), 0);
  EXPECT_EQ(fi_close(node.fid()), -FI_EBUSY);
  EXPECT_EQ(fi_close(&alias->fid), 0);
}

TEST_P(Aliases, OtherCallsReachTheEndpoint) {
  Scene scene(target());
  const auto alias = scene.alias(scene.pair.a(), FI_TRANSMIT);
  char name[64], same[64];
  size_t name_len = sizeof name, same_len = sizeof same;
  ASSERT_EQ(fi_getname(scene.pair.a().fid(), name, &name_len), 0);
  ASSERT_EQ(fi_getname(&alias->fid, same, &same_len), 0);
  ASSERT_EQ(name_len, same_len);
  EXPECT_EQ(std::memcmp(name, same, name_len), 0);
  EXPECT_EQ(fi_cancel(&alias->fid, &scene), fi_cancel(scene.pair.a().fid(), &scene));
  Fabric fabric(target());
  Node closed(fabric);
  fid_ep* early = nullptr;
  ASSERT_EQ(fi_ep_alias(closed.ep(), &early, FI_TRANSMIT), 0);
  const Handle<fid_ep> owner(early);
  EXPECT_EQ(fi_send(early, nullptr, 0, nullptr, 0, nullptr), -FI_EOPBADSTATE)
      << "as the endpoint, which is not enabled";
}

TEST_P(Aliases, RemoteMemoryAndTagsAreReached) {
  const HintsEditor all = [](fi_info& hints) { hints.caps = FI_MSG | FI_TAGGED | FI_RMA; };
  NEEDS(all, "FI_TAGGED and FI_RMA");
  Scene scene(target(), all);
  const auto sender = scene.alias(scene.pair.a(), FI_TRANSMIT | FI_COMPLETION);
  const auto receiver = scene.alias(scene.pair.b(), FI_RECV | FI_COMPLETION);
  const fi_addr_t peer = scene.pair.a().peer;
  ASSERT_EQ(retry([&] {
              return fi_trecv(receiver.get(), scene.in.data(), kSize, scene.in.desc(), FI_ADDR_UNSPEC, 7, 0,
                              &scene.received);
            }),
            0);
  ASSERT_EQ(
      retry([&] { return fi_tsend(sender.get(), scene.out.data(), kSize, scene.out.desc(), peer, 7, &scene.sent); }),
      0);
  scene.expect_received();
  scene.expect_sent();
  Buffer exposed(scene.fabric, kSize, 0, FI_REMOTE_READ | FI_REMOTE_WRITE), back(scene.fabric, kSize, 0, FI_READ);
  const uint64_t at = exposed.remote_address(), key = exposed.key();
  const iovec pieces[] = {{scene.out.data(), 40}, {scene.out.data() + 40, kSize - 40}};
  void* desc[] = {scene.out.desc(), scene.out.desc()};
  ASSERT_EQ(retry([&] { return fi_writev(sender.get(), pieces, desc, 2, peer, at, key, &scene.sent); }), 0);
  scene.expect_sent();
  ASSERT_EQ(retry([&] { return fi_read(sender.get(), back.data(), kSize, back.desc(), peer, at, key, &scene.sent); }),
            0);
  scene.expect_sent();
  EXPECT_TRUE(back.holds_pattern(5, kSize));
}

TEST_P(Aliases, AtomicOperationsAreReached) {
  const HintsEditor atomic = [](fi_info& hints) { hints.caps = FI_MSG | FI_ATOMIC; };
  if (!Fabric::offers(target(), atomic)) GTEST_SKIP() << "fi_getinfo does not offer FI_ATOMIC";
  Scene scene(target(), atomic);
  const auto sender = scene.alias(scene.pair.a(), FI_TRANSMIT | FI_COMPLETION);
  const fi_addr_t peer = scene.pair.a().peer;
  Buffer exposed(scene.fabric, 8, 0, FI_REMOTE_READ | FI_REMOTE_WRITE), result(scene.fabric, 8, 0, FI_READ);
  const uint64_t at = exposed.remote_address(), key = exposed.key(), seven = 7, nine = 9;
  ASSERT_EQ(retry([&] { return fi_inject_atomic(sender.get(), &seven, 1, peer, at, key, FI_UINT64, FI_SUM); }), 0);
  ASSERT_EQ(retry([&] {
              return fi_fetch_atomic(sender.get(), &seven, 1, nullptr, result.data(), result.desc(), peer, at, key,
                                     FI_UINT64, FI_SUM, &scene.sent);
            }),
            0);
  scene.expect_sent();  // the injected one is not reported
  uint64_t fetched = 0;
  std::memcpy(&fetched, result.data(), sizeof fetched);
  EXPECT_EQ(fetched, 7u);
  const uint64_t fourteen = 14;
  ASSERT_EQ(retry([&] {
              return fi_compare_atomic(sender.get(), &nine, 1, nullptr, &fourteen, nullptr, result.data(),
                                       result.desc(), peer, at, key, FI_UINT64, FI_CSWAP, &scene.sent);
            }),
            0);
  scene.expect_sent();
  std::memcpy(&fetched, exposed.data(), sizeof fetched);
  EXPECT_EQ(fetched, 9u);
}

}  // namespace aliases
