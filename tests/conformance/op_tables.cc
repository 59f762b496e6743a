// SPDX-License-Identifier: BSD-2-Clause
// The operation tables of every handle that an application gets: the inline calls read them without a check, so each
// table is there and has no empty slot. fi_endpoint(3) and the manual pages of the calls.
#include <rdma/fi_atomic.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_rma.h>

#include "fixture/node.h"

namespace op_tables {

CONFORMANCE_TOPIC(OpTables);

namespace {

// Tables start with their size; pointers to functions follow.
template <class Table>
void expect_full(const Table* table, const char* name) {
  ASSERT_NE(table, nullptr) << name;
  ASSERT_GE(table->size, sizeof(std::size_t) + sizeof(void*)) << name;
  const auto* slot = reinterpret_cast<void* const*>(reinterpret_cast<const char*>(table) + sizeof(std::size_t));
  const std::size_t count = (table->size - sizeof(std::size_t)) / sizeof(void*);
  for (std::size_t i = 0; i < count; ++i) EXPECT_NE(slot[i], nullptr) << name << ", slot " << i;
}

#define EXPECT_FULL(table) expect_full(table, #table)

void expect_full_endpoint(const fid_ep& ep) {
  EXPECT_FULL(ep.fid.ops);
  EXPECT_FULL(ep.ops);
  EXPECT_FULL(ep.cm);
  EXPECT_FULL(ep.msg);
  EXPECT_FULL(ep.rma);
  EXPECT_FULL(ep.tagged);
  EXPECT_FULL(ep.atomic);
  EXPECT_FULL(ep.collective);
}

void expect_no_atomics(Node& node, Buffer& buffer) {
  fid_ep* const ep = node.ep();
  EXPECT_LT(fi_atomic(ep, buffer.data(), 1, buffer.desc(), node.peer, 0, 0, FI_UINT64, FI_SUM, nullptr), 0);
  EXPECT_LT(fi_inject_atomic(ep, buffer.data(), 1, node.peer, 0, 0, FI_UINT64, FI_SUM), 0);
  size_t count = 0;
  EXPECT_NE(fi_atomicvalid(ep, FI_UINT64, FI_SUM, &count), 0);
}

}  // namespace

TEST_P(OpTables, EndpointsHaveEveryTableBeforeAndAfterTheyAreEnabled) {
  Fabric fabric(target());
  Node closed(fabric);
  expect_full_endpoint(*closed.ep());
  Pair pair(fabric);
  expect_full_endpoint(*pair.a().ep());
  expect_full_endpoint(*pair.b().ep());
}

TEST_P(OpTables, CallsThatAnEndpointLacksAreRefused) {
  Fabric fabric(target(), [](fi_info& hints) { hints.caps = FI_MSG; });
  Pair pair(fabric);
  Buffer buffer(fabric, 64);
  EXPECT_LT(fi_barrier(pair.a().ep(), 0, nullptr), 0);
  if (!Fabric::offers(target(), [](fi_info& hints) { hints.caps = FI_ATOMIC; })) expect_no_atomics(pair.a(), buffer);
  expect_exchange(pair);
}

TEST_P(OpTables, OtherHandlesHaveEveryTable) {
  Fabric fabric(target());
  EXPECT_FULL(fabric.fabric()->fid.ops);
  EXPECT_FULL(fabric.fabric()->ops);
  EXPECT_FULL(fabric.domain()->fid.ops);
  EXPECT_FULL(fabric.domain()->ops);
  EXPECT_FULL(fabric.domain()->mr);
  EventQueue events(fabric);
  EXPECT_FULL(events.get()->fid.ops);
  EXPECT_FULL(events.get()->ops);
  CompletionQueue completions(fabric);
  EXPECT_FULL(completions.get()->fid.ops);
  EXPECT_FULL(completions.get()->ops);
  fid_mr* region = nullptr;
  char byte = 0;
  if (fi_mr_reg(fabric.domain(), &byte, 1, FI_SEND, 0, 7, 0, &region, nullptr) == 0) {
    const Handle<fid_mr> owner(region);
    EXPECT_FULL(region->fid.ops);
  }
  fi_av_attr av_attr{};
  fid_av* av = nullptr;
  if (fi_av_open(fabric.domain(), &av_attr, &av, nullptr) == 0) {
    const Handle<fid_av> owner(av);
    EXPECT_FULL(av->fid.ops);
    EXPECT_FULL(av->ops);
  }
  fi_cntr_attr counter_attr{};
  fid_cntr* counter = nullptr;
  if (fi_cntr_open(fabric.domain(), &counter_attr, &counter, nullptr) == 0) {
    const Handle<fid_cntr> owner(counter);
    EXPECT_FULL(counter->fid.ops);
    EXPECT_FULL(counter->ops);
  }
}

TEST_P(OpTables, SharedReceiveContextsHaveEveryTable) {
  const HintsEditor shared = [](fi_info& hints) { hints.ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT; };
  if (!Fabric::offers(target(), shared)) GTEST_SKIP() << "no shared receive contexts";
  Fabric fabric(target(), shared);
  fid_ep* opened = nullptr;
  ASSERT_EQ(fi_srx_context(fabric.domain(), fabric.info()->rx_attr, &opened, nullptr), 0);
  const Handle<fid_ep> context(opened);
  expect_full_endpoint(*context.get());
}

TEST_P(OpTables, PassiveEndpointsHaveEveryTable) {
  CONNECTED_ONLY();
  Fabric fabric(target());
  Listener listener(fabric);
  EXPECT_FULL(listener.pep()->fid.ops);
  EXPECT_FULL(listener.pep()->ops);
  EXPECT_FULL(listener.pep()->cm);
}

}  // namespace op_tables
