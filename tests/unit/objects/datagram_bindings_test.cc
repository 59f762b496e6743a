// SPDX-License-Identifier: BSD-2-Clause
// The bindings without which a datagram endpoint is not enabled; fi_endpoint(3), fi_enable.
#include "objects/datagram_bindings.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

struct Routes {
  bool transmit_queue = false, receive_queue = false;
  bool send = false, receive = false;
  bool other_counters = false;  // FI_READ, FI_WRITE

  Status check(std::uint64_t) const noexcept {
    const bool complete = (transmit_queue || send || other_counters) && (receive_queue || receive);
    return Status(complete ? 0 : -FI_ENOCQ);
  }
};

TEST(DatagramBindingsTest, BothDirectionsNeedAQueueOrACounter) {
  EXPECT_EQ(check_datagram_bindings(Routes{}, 0, true).code(), -FI_ENOCQ);
  EXPECT_EQ(check_datagram_bindings(Routes{.transmit_queue = true}, 0, true).code(), -FI_ENOCQ);
  EXPECT_EQ(check_datagram_bindings(Routes{.transmit_queue = true, .receive_queue = true}, 0, true).code(), 0);
  EXPECT_EQ(check_datagram_bindings(Routes{.send = true, .receive = true}, 0, true).code(), 0);
}

TEST(DatagramBindingsTest, CountersOfRemoteAccessesDoNotReportSends) {
  const Routes routes{.receive_queue = true, .other_counters = true};
  EXPECT_EQ(check_datagram_bindings(routes, 0, true).code(), -FI_ENOCQ);
  EXPECT_EQ(check_datagram_bindings(routes, FI_MSG | FI_RECV, true).code(), 0) << "never sends";
}

TEST(DatagramBindingsTest, SendsNeedAnAddressVector) {
  const Routes routes{.transmit_queue = true, .receive_queue = true};
  EXPECT_EQ(check_datagram_bindings(routes, 0, false).code(), -FI_ENOAV);
  EXPECT_EQ(check_datagram_bindings(routes, FI_MSG | FI_RECV, false).code(), 0);
}

}  // namespace
}  // namespace weft
