// SPDX-License-Identifier: BSD-2-Clause
// The control connection of fi_pingpong: the bytes of libfabric's fi_pingpong, and misbehaving peers.
#include "tools/control_channel.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <unistd.h>

#include <functional>
#include <future>
#include <string>

namespace weft::tools {
namespace {

using namespace std::string_literals;

constexpr auto kSoon = std::chrono::seconds(10);

// A client made of a bare socket.
class RawClient {
 public:
  explicit RawClient(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  }
  ~RawClient() { close(fd_); }
  void write(const std::string& bytes) {
    EXPECT_EQ(send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  std::string read(std::size_t size) {
    std::string bytes(size, 0);
    EXPECT_EQ(recv(fd_, bytes.data(), size, MSG_WAITALL), static_cast<ssize_t>(size));
    return bytes;
  }

 private:
  int fd_;
};

// The server's side runs here, the client's in `client` on a thread of its own.
class ControlChannelTest : public testing::Test {
 protected:
  void serve(const std::function<void(uint16_t port)>& client, const std::function<void(ControlChannel&)>& server) {
    std::future<void> other;
    Result<ControlChannel> channel = ControlChannel::accept_one(
        0, false, watch_, [&](uint16_t port) { other = std::async(std::launch::async, client, port); });
    ASSERT_TRUE(channel) << channel.error().what;
    server(*channel);
    other.get();
  }

  Watch watch_{kSoon, kSoon};
};

TEST_F(ControlChannelTest, NamesHaveTheBytesOfLibfabric) {
  const std::string name = "\x02\x00\xb0\x65\x7f\x00\x00\x01\0\0\0\0\0\0\0\0"s;
  serve(
      [&](uint16_t port) {
        RawClient client(port);
        EXPECT_EQ(client.read(24), "\x00\x00\x00\x10\x02\x00\x00\x00"s + name);
        client.write("\x00\x00\x00\x10\x02\x00\x00\x00"s + name);
      },
      [&](ControlChannel& control) {
        const auto bytes = std::as_bytes(std::span(name));
        EXPECT_TRUE(control.send_name({2, {bytes.begin(), bytes.end()}}));
        Result<EndpointName> got = control.receive_name();
        ASSERT_TRUE(got) << got.error().what;
        EXPECT_EQ(got->format, 2u);
        EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), got->bytes.begin(), got->bytes.end()));
        EXPECT_EQ(control.local_address(), "127.0.0.1") << "not as a mapped IPv6 address";
      });
}

TEST_F(ControlChannelTest, TestHasTheBytesOfLibfabric) {
  serve(
      [](uint16_t port) {
        RawClient client(port);
        client.write("q\0"s);
        EXPECT_EQ(client.read(2), "a\0"s);
        client.write("1000\0\0\0\0\0\0"s);
        EXPECT_EQ(client.read(7), "cnt ok\0"s);
      },
      [](ControlChannel& control) {
        EXPECT_TRUE(control.confirm_start());
        EXPECT_EQ(control.receive_count(), 1000u);
      });
}

TEST_F(ControlChannelTest, BothSidesAgree) {
  serve(
      [](uint16_t port) {
        Watch watch(kSoon, kSoon);
        auto control = ControlChannel::connect_to("127.0.0.1", port, 0, false, std::chrono::seconds(0), watch);
        ASSERT_TRUE(control) << control.error().what;
        EXPECT_TRUE(control->request_start());
        EXPECT_TRUE(control->report_count(999'999'999));
      },
      [](ControlChannel& control) {
        EXPECT_TRUE(control.confirm_start());
        EXPECT_EQ(control.receive_count(), 999'999'999u);
      });
}

TEST_F(ControlChannelTest, InvalidMessagesAreErrors) {
  const auto says = [this](const std::string& bytes, const std::function<void(ControlChannel&)>& server) {
    serve(
        [&](uint16_t port) {
          RawClient client(port);
          client.write(bytes);
        },
        server);
  };
  says("GET / HTTP/1.1\r\n", [](ControlChannel& control) { EXPECT_EQ(control.receive_name().error().error, FI_EIO); });
  says("\0\0\0\0\x02\0\0\0"s, [](ControlChannel& control) { EXPECT_EQ(control.receive_name().error().error, FI_EIO); });
  says("a\0"s, [](ControlChannel& control) { EXPECT_EQ(control.confirm_start().error().error, FI_EIO); });
  says("12x\0\0\0\0\0\0\0"s, [](ControlChannel& control) { EXPECT_EQ(control.receive_count().error().error, FI_EIO); });
}

TEST_F(ControlChannelTest, PeerThatClosesEarlyIsAnError) {
  serve([](uint16_t port) { RawClient(port).write("\x00\x00\x00\x10\x02"s); },
        [](ControlChannel& control) { EXPECT_EQ(control.receive_name().error().error, FI_ECONNRESET); });
}

TEST_F(ControlChannelTest, SilentPeerTimesOut) {
  std::promise<void> done;
  serve(
      [&](uint16_t port) {
        RawClient client(port);
        done.get_future().wait();
      },
      [&](ControlChannel& control) {
        watch_ = Watch(std::chrono::seconds(1), kSoon);
        Result<EndpointName> name = control.receive_name();
        done.set_value();
        ASSERT_FALSE(name);
        EXPECT_EQ(name.error().error, FI_ETIMEDOUT);
        EXPECT_NE(name.error().what.find("--timeout"), std::string::npos);
      });
}

TEST(ControlChannel, RefusedConnectionNamesServerAndPort) {
  Watch watch(kSoon, kSoon);
  auto control = ControlChannel::connect_to("127.0.0.1", 1, 0, false, std::chrono::seconds(0), watch);
  ASSERT_FALSE(control);
  EXPECT_EQ(control.error().error, FI_ECONNREFUSED);
  EXPECT_NE(control.error().what.find("is the server running?"), std::string::npos);
}

}  // namespace
}  // namespace weft::tools
