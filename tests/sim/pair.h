// SPDX-License-Identifier: BSD-2-Clause
// Two endpoints that are connected over the simulated network.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "sim/network.h"
#include "unit/prov/tcp/side.h"

namespace weft::tcp::sim {

constexpr int kQuiet = 100;  // rounds without an event; more than an engine needs to poll every socket

struct Pair {
  testing::Side client, server;
  Pair() {
    reset({});
    server.listen();
    client.connect(server.listening_at());
    bool connected = false;
    for (int i = 0; i < kQuiet && !connected; ++i) {
      testing::Event event;
      connected = client.poll(event) && event.number == FI_CONNECTED;
      if (server.poll(event) && event.number == FI_CONNREQ) server.accept(event);
    }
    EXPECT_TRUE(connected);
  }
  void send(const std::string& message) {
    EXPECT_EQ(fi_send(client.ep, message.data(), message.size(), nullptr, FI_ADDR_UNSPEC, nullptr), 0);
  }
  void receive(std::string& message) {
    EXPECT_EQ(fi_recv(server.ep, message.data(), message.size(), nullptr, FI_ADDR_UNSPEC, &message), 0);
  }
};

}  // namespace weft::tcp::sim
