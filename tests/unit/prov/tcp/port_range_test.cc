// SPDX-License-Identifier: BSD-2-Clause
// Ports of passive endpoints from the range FI_TCP_PORT_LOW_RANGE, FI_TCP_PORT_HIGH_RANGE; fi_tcp(7).
#include <gtest/gtest.h>
#include <poll.h>
#include <rdma/fi_errno.h>

#include "tcp/names.h"
#include "tcp/parameters.h"
#include "tcp/socket.h"

namespace weft::tcp::testing {
namespace {

Address loopback() {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return *Address::from(reinterpret_cast<const sockaddr_storage*>(&name), sizeof name);
}

class PortRange : public ::testing::Test {
 protected:
  // The range is one port that is free.
  PortRange() {
    Address any = loopback();
    EXPECT_TRUE(open_bound(any, Parameters(), false));
    parameters.port_low = parameters.port_high = any.port();
  }
  Result<UniqueFd> bind() {
    Address local = loopback();
    return open_bound(local, parameters, true);
  }
  // A connection whose listener's end closes first, so that its port lingers in the state TIME-WAIT.
  void connect_and_close(int listener) {
    const UniqueFd client(net::open_stream(AF_INET));
    const Address to = name_of(listener, Address());
    ASSERT_EQ(net::connect(client.get(), to.data(), to.size()), -EINPROGRESS);
    pollfd arrived{.fd = listener, .events = POLLIN, .revents = 0};
    ASSERT_EQ(::poll(&arrived, 1, 5000), 1);
    UniqueFd accepted(net::accept(listener, nullptr, nullptr));
    ASSERT_TRUE(accepted);
    accepted.reset();
    pollfd ended{.fd = client.get(), .events = POLLIN, .revents = 0};
    ASSERT_EQ(::poll(&ended, 1, 5000), 1);
  }

  Parameters parameters;
};

TEST_F(PortRange, ServesAgainWhileConnectionsLinger) {
  {
    const auto first = bind();
    ASSERT_TRUE(first);
    prepare_listener(first->get(), parameters);
    ASSERT_EQ(net::listen(first->get(), 1), 0);
    connect_and_close(first->get());
  }
  const auto again = bind();
  ASSERT_TRUE(again) << fi_strerror(again.error().error());
  prepare_listener(again->get(), parameters);
  EXPECT_EQ(net::listen(again->get(), 1), 0);
}

TEST_F(PortRange, GivesAPortToOneSocketOnly) {
  const auto first = bind();
  ASSERT_TRUE(first);
  const auto second = bind();
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), -FI_EADDRINUSE);
}

}  // namespace
}  // namespace weft::tcp::testing
