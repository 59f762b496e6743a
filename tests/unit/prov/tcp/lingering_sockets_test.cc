// SPDX-License-Identifier: BSD-2-Clause
// Sockets that stay open behind their owner's close: what peers receive, and how long they stay.
#include "tcp/lingering_sockets.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <array>
#include <vector>

namespace weft::tcp {
namespace {

// A connection whose peer has too little room for what was sent.
struct Connection {
  Connection() {
    UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    constexpr int kLittle = 4096;
    EXPECT_EQ(::setsockopt(listener.get(), SOL_SOCKET, SO_RCVBUF, &kLittle, sizeof kLittle), 0);
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t len = sizeof name;
    EXPECT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&name), len), 0);
    EXPECT_EQ(::listen(listener.get(), 1), 0);
    EXPECT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&name), &len), 0);
    ours.reset(net::open_stream(AF_INET));
    net::connect(ours.get(), reinterpret_cast<sockaddr*>(&name), len);
    theirs.reset(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const std::vector<std::byte> bytes(64 * 1024);
    for (ssize_t got = 0; (got = net::send(ours.get(), bytes.data(), bytes.size())) > 0;)
      sent += static_cast<std::size_t>(got);
    EXPECT_FALSE(net::is_delivered(ours.get()));
    net::shutdown(ours.get(), SHUT_WR);
    number = ours.get();
  }
  bool is_open() const { return ::fcntl(number, F_GETFD) >= 0; }

  UniqueFd ours, theirs;
  std::size_t sent = 0;
  int number = -1;  // the descriptor `ours` had at first
};

class LingeringSocketsTest : public ::testing::Test {
 protected:
  LingeringSocketsTest() {
    const Lock lock(engine_.mutex());
    EXPECT_TRUE(engine_.open_resources().ok());
  }
  void linger(Connection& connection) {
    const Lock lock(engine_.mutex());
    engine_.linger(std::move(connection.ours));
  }
  bool closes(const Connection& connection) {
    for (const auto limit = net::now() + std::chrono::seconds(20); connection.is_open() && net::now() < limit;)
      engine_.drive();
    return !connection.is_open();
  }

  Engine engine_;
};

TEST_F(LingeringSocketsTest, EverythingArrivesAlthoughThePeerSends) {
  Connection connection;
  linger(connection);
  EXPECT_EQ(::send(connection.theirs.get(), "late", 4, MSG_NOSIGNAL), 4);
  std::size_t arrived = 0;
  std::array<std::byte, 64 * 1024> bytes;
  ssize_t got = 0;
  while ((got = ::recv(connection.theirs.get(), bytes.data(), bytes.size(), 0)) > 0) {
    arrived += static_cast<std::size_t>(got);
    engine_.drive();
  }
  EXPECT_EQ(got, 0) << "the end is one without an error: " << errno;
  EXPECT_EQ(arrived, connection.sent);
  EXPECT_TRUE(closes(connection));
}

TEST_F(LingeringSocketsTest, ASocketClosesWithItsPeers) {
  Connection connection;
  linger(connection);
  engine_.drive();
  EXPECT_TRUE(connection.is_open());
  const auto before = net::now();
  connection.theirs.reset();
  EXPECT_TRUE(closes(connection));
  EXPECT_LT(net::now() - before, std::chrono::milliseconds(500)) << "not before its time is over";
}

TEST_F(LingeringSocketsTest, APeerThatReadsNothingOccupiesASocketForASecond) {
  Connection connection;
  const auto before = net::now();
  linger(connection);
  EXPECT_TRUE(closes(connection));
  EXPECT_GE(net::now() - before, std::chrono::milliseconds(500));
}

TEST_F(LingeringSocketsTest, TheirNumberIsLimited) {
  constexpr std::size_t kMost = 64;
  std::vector<Connection> connections(kMost + 1);
  for (std::size_t i = 0; i < kMost; ++i) linger(connections[i]);
  EXPECT_TRUE(connections.front().is_open());
  linger(connections.back());
  EXPECT_FALSE(connections.front().is_open()) << "the oldest one makes room";
  EXPECT_TRUE(connections[1].is_open());
}

TEST(LingeringSockets, EndWithTheirEngine) {
  Connection connection;
  const auto before = net::now();
  auto engine = std::make_unique<Engine>();
  {
    const Lock lock(engine->mutex());
    ASSERT_TRUE(engine->open_resources().ok());
    engine->linger(std::move(connection.ours));
  }
  engine.reset();
  EXPECT_FALSE(connection.is_open());
  EXPECT_LT(net::now() - before, std::chrono::milliseconds(500));
}

}  // namespace
}  // namespace weft::tcp
