// SPDX-License-Identifier: BSD-2-Clause
// The bridge: methods fill the slots of their name, other slots return a constant, no exception passes.
#include "abi/bridge.h"

#include <gtest/gtest.h>

#include <cstring>
#include <new>
#include <stdexcept>

#include "abi/av_ops.h"
#include "abi/cm_ops.h"
#include "abi/cntr_ops.h"
#include "abi/cq_ops.h"
#include "abi/domain_ops.h"
#include "abi/ep_ops.h"
#include "abi/eq_ops.h"
#include "abi/fabric_ops.h"
#include "abi/fid_ops.h"
#include "abi/mr_ops.h"
#include "abi/msg_ops.h"
#include "abi/poll_ops.h"
#include "abi/rma_ops.h"
#include "abi/tagged_ops.h"
#include "abi/wait_ops.h"

namespace weft {
namespace {

// Memory in front of the handle must not matter.
struct Before {
  char bytes[40] = {};
};

struct Endpoint : Object<fid_ep>, Before {
  Endpoint() {
    abi.fid.ops = slots(*fid_ops());
    abi.msg = slots(kMsgOps);
  }
  static const fi_ops* fid_ops() noexcept;
  static const fi_ops_msg kMsgOps;

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
const fi_ops* Endpoint::fid_ops() noexcept {
  static constexpr fi_ops kOps = make_fid_ops<Endpoint>();
  return &kOps;
}
constexpr fi_ops_msg Endpoint::kMsgOps = make_msg_ops<Endpoint>();

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
  EXPECT_EQ(make_tagged_ops<Endpoint>().send(&endpoint.abi, nullptr, 0, nullptr, 0, 5, nullptr), 5);
  EXPECT_EQ(make_rma_ops<Endpoint>().inject(&endpoint.abi, nullptr, 0, 0, 0, 6), 6);
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
  constexpr fi_ops_msg disabled = make_msg_ops<Nothing, FI_EOPBADSTATE>();
  EXPECT_EQ(disabled.send(&endpoint.abi, nullptr, 0, nullptr, 0, nullptr), -FI_EOPBADSTATE);
  EXPECT_EQ(make_cntr_ops<Nothing>().read(nullptr), 0u) << "an unsigned count cannot carry an error";
  EXPECT_EQ(make_cq_ops<Nothing>().strerror(nullptr, 0, nullptr, nullptr, 0), nullptr);
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
  expect_full(make_fid_ops<Nothing>());
  expect_full(make_fabric_ops<Nothing>());
  expect_full(make_domain_ops<Nothing>());
  expect_full(make_mr_ops<Nothing>());
  expect_full(make_ep_ops<Nothing>());
  expect_full(make_cm_ops<Nothing>());
  expect_full(make_msg_ops<Nothing>());
  expect_full(make_tagged_ops<Nothing>());
  expect_full(make_rma_ops<Nothing>());
  expect_full(make_eq_ops<Nothing>());
  expect_full(make_cq_ops<Nothing>());
  expect_full(make_cntr_ops<Nothing>());
  expect_full(make_av_ops<Nothing>());
  expect_full(make_poll_ops<Nothing>());
  expect_full(make_wait_ops<Nothing>());
}

}  // namespace
}  // namespace weft
