// SPDX-License-Identifier: BSD-2-Clause
// The bridge: methods fill the slots of their name, other slots return a constant, no exception passes.
#include "abi/ops.h"

#include <gtest/gtest.h>

#include <cstring>
#include <new>
#include <stdexcept>

namespace weft {
namespace {

// Memory in front of the handle must not matter.
struct Before {
  char bytes[40] = {};
};

struct Endpoint : Object<fid_ep>, Before {
  Endpoint() {
    abi.fid.ops = ops_of<Endpoint>;
    abi.msg = ops_of<Endpoint>;
  }

  int close() {
    ++closed;
    return -7;
  }
  int control(int command, void*) {
    if (command == 1) throw std::bad_alloc();
    if (command == 2) throw std::runtime_error("any");
    return command;
  }
  ssize_t send(const void*, size_t len, void*, fi_addr_t, void*) noexcept { return static_cast<ssize_t>(len); }
  ssize_t tsend(const void*, size_t, void*, fi_addr_t, uint64_t tag, void*) noexcept {
    return static_cast<ssize_t>(tag);
  }
  ssize_t rma_inject(const void*, size_t, fi_addr_t, uint64_t, uint64_t key) noexcept {
    return static_cast<ssize_t>(key);
  }
  int closed = 0;
};
struct Nothing : Object<fid_ep> {};

TEST(Bridge, MethodsFillTheirSlots) {
  Endpoint endpoint;
  EXPECT_EQ(fi_send(&endpoint.abi, nullptr, 12, nullptr, 0, nullptr), 12);
  EXPECT_EQ(fi_close(&endpoint.abi.fid), -7);
  EXPECT_EQ(endpoint.closed, 1);
  EXPECT_EQ(&object<Endpoint>(&endpoint.abi), &endpoint);
}

TEST(Bridge, SlotsOfOtherNamesAreMapped) {
  Endpoint endpoint;
  EXPECT_EQ((kOps<fi_ops_tagged, Endpoint>).send(&endpoint.abi, nullptr, 0, nullptr, 0, 5, nullptr), 5);
  EXPECT_EQ((kOps<fi_ops_rma, Endpoint>).inject(&endpoint.abi, nullptr, 0, 0, 0, 6), 6);
}

TEST(Bridge, ExceptionsBecomeErrors) {
  Endpoint endpoint;
  EXPECT_EQ(fi_control(&endpoint.abi.fid, 1, nullptr), -FI_ENOMEM);
  EXPECT_EQ(fi_control(&endpoint.abi.fid, 2, nullptr), -FI_EOTHER);
  EXPECT_EQ(fi_control(&endpoint.abi.fid, 3, nullptr), 3);
}

TEST(Bridge, MissingMethodsAnswerAConstant) {
  Endpoint endpoint;
  EXPECT_EQ(fi_recv(&endpoint.abi, nullptr, 0, nullptr, 0, nullptr), -FI_ENOSYS);
  constexpr fi_ops_msg disabled = kOps<fi_ops_msg, Nothing, FI_EOPBADSTATE>;
  EXPECT_EQ(disabled.send(&endpoint.abi, nullptr, 0, nullptr, 0, nullptr), -FI_EOPBADSTATE);
  EXPECT_EQ((kOps<fi_ops_cntr, Nothing>).read(nullptr), 0u) << "an unsigned count cannot carry an error";
  EXPECT_EQ((kOps<fi_ops_cq, Nothing>).strerror(nullptr, 0, nullptr, nullptr, 0), nullptr);
}

TEST(Bridge, ForeignHandlesAreRecognised) {
  Endpoint endpoint;
  ::fid foreign{};
  EXPECT_EQ(object_if<Endpoint>(&endpoint.abi.fid), &endpoint);
  EXPECT_EQ(object_if<Endpoint>(nullptr), nullptr);
  EXPECT_EQ(object_if<Endpoint>(&foreign), nullptr);
}

// Old inline functions call slots without a check: none may be null, and the size must cover them all.
template <class Table>
void expect_full(const Table& table) {
  EXPECT_EQ(table.size, sizeof table);
  const void* slots[sizeof table / sizeof(void*)];
  std::memcpy(slots, &table, sizeof table);
  for (size_t i = 1; i < std::size(slots); ++i) EXPECT_NE(slots[i], nullptr) << "slot " << i;
}

TEST(Bridge, NoSlotIsNull) {
  expect_full(kOps<fi_ops, Nothing>);
  expect_full(kOps<fi_ops_fabric, Nothing>);
  expect_full(kOps<fi_ops_domain, Nothing>);
  expect_full(kOps<fi_ops_mr, Nothing>);
  expect_full(kOps<fi_ops_ep, Nothing>);
  expect_full(kOps<fi_ops_cm, Nothing>);
  expect_full(kOps<fi_ops_msg, Nothing>);
  expect_full(kOps<fi_ops_tagged, Nothing>);
  expect_full(kOps<fi_ops_rma, Nothing>);
  expect_full(kOps<fi_ops_atomic, Nothing>);
  expect_full(kOps<fi_ops_collective, Nothing>);
  expect_full(kOps<fi_ops_eq, Nothing>);
  expect_full(kOps<fi_ops_cq, Nothing>);
  expect_full(kOps<fi_ops_cntr, Nothing>);
  expect_full(kOps<fi_ops_av, Nothing>);
  expect_full(kOps<fi_ops_poll, Nothing>);
  expect_full(kOps<fi_ops_wait, Nothing>);
}

}  // namespace
}  // namespace weft
